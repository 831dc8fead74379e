"""Pack vector-memory-VERSION.mcpb, which clients such as Claude Desktop install with a click.

Run with `uv run python scripts/make_bundle.py [FOLDER]`; without a folder it is written to dist. Needs Node: the
bundle is validated and packed by the format's own tool. It holds the source and uv.lock. The client runs it with uv,
which installs the locked libraries and the model at the first start: compiled libraries could not be packed for every
system.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from vector_memory import __version__

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "packages")
NOT_COPIED = shutil.ignore_patterns("__pycache__", "all-MiniLM-L6-v2", "multilingual-e5-small")  # uv fetches them
FILES = ("LICENSE", "README.md", "main.py", "pyproject.toml", "uv.lock")
TOOL = ("npx", "--yes", "@anthropic-ai/mcpb@2.1.2")


def fill(folder: Path) -> None:
    """Copy the contents of the bundle into a new folder."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=NOT_COPIED)
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    shutil.copy(ROOT / "mcpb" / "manifest.json", folder)


def main(destination: Path) -> None:
    """Validate and pack. Raises CalledProcessError if the manifest is not valid."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "bundle"
        fill(folder)
        subprocess.run([*TOOL, "validate", folder], check=True)
        subprocess.run([*TOOL, "pack", folder, destination / f"vector-memory-{__version__}.mcpb"], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist")
