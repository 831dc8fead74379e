# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy>=2", "sentence-transformers>=5", "torch>=2"]
# ///
"""Write tests/data/golden_vectors.npz: what sentence-transformers makes of tests/data/golden_texts.json.

    HF_HUB_OFFLINE=1 uv run scripts/make_golden_vectors.py path/to/folder-of-all-MiniLM-L6-v2

One text at a time, in 32-bit floats on the CPU, so that nothing but the text decides its vector.
"""

import json
import sys
from pathlib import Path

import numpy as np
import sentence_transformers
import torch

DATA = Path(__file__).parents[1] / "tests" / "data"


def main(model_folder: str) -> None:
    """Embed every golden text; rows are in the order of the file."""
    texts = list(json.loads((DATA / "golden_texts.json").read_text(encoding="utf-8")).values())
    model = sentence_transformers.SentenceTransformer(
        model_folder, device="cpu", local_files_only=True, model_kwargs={"dtype": torch.float32}
    )
    vectors = model.encode(texts, batch_size=1, normalize_embeddings=True, show_progress_bar=False)
    made_with = f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}"
    np.savez_compressed(DATA / "golden_vectors.npz", vectors=vectors.astype(np.float32), made_with=np.array(made_with))


if __name__ == "__main__":
    main(sys.argv[1])
