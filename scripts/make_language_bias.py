"""Writes what is taken out of a model's vectors: what they say of the language of a text.

uv run --extra multilingual scripts/make_language_bias.py [FOLDER]

Without a folder it is that of multilingual-e5-small, which comes with this package. scripts/parallel_texts.json has the
same sentences in 25 languages.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vector_memory.embedding import Embedder
from vector_memory.embedding.known import E5_SMALL
from vector_memory.embedding.model_folder import BIAS_FILE
from vector_memory.embedding.onnx_engine import LanguageBias, OnnxEngine
from vector_memory.embedding.weights import described, find_weights

TEXTS = Path(__file__).with_name("parallel_texts.json")


def bias_of(model: Embedder, texts: Mapping[str, Sequence[str]]) -> LanguageBias:
    """Return what the vectors of parallel texts, by language, say of their languages."""
    passages = np.stack([model.embed(each).mean(0) for each in texts.values()])
    queries = np.stack([model.encode_query(text).vector for each in texts.values() for text in each])
    mean = passages.mean(0)
    # The means of all languages differ in one dimension less than there are languages.
    directions = np.linalg.svd(passages - mean, full_matrices=False)[2][: len(texts) - 1]
    return LanguageBias(queries.mean(0), mean, directions)


def main() -> None:
    """Compute and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    folder = parser.parse_args().folder
    found = described(folder, "FOLDER") if folder else find_weights(None, E5_SMALL)
    texts = json.loads(TEXTS.read_text(encoding="utf-8"))
    file = folder / BIAS_FILE if folder else E5_SMALL.bias_file
    bias_of(OnnxEngine(replace(found, bias_file=None)), texts).write(file)
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
