"""Write the Claude Code plugin as a folder without links, as it is published.

Run with `uv run python scripts/make_plugin.py [FOLDER]`; without a folder it is written to dist/vector-memory-plugin.
In a clone, plugin/ has links to the source, so that changes take effect at once; a published plugin must hold the files
themselves. Where `claude` is installed, it checks the result.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_COPIED = shutil.ignore_patterns(".*cache", "__pycache__", ".venv", ".DS_Store", "all-MiniLM-L6-v2")
STRICT = ("claude", "plugin", "validate", "--strict")


def fill(folder: Path) -> None:
    """Copy the contents of the plugin, with what its links lead to, into a new folder."""
    shutil.copytree(ROOT / "plugin", folder, ignore=NOT_COPIED)


def checks() -> list[tuple[str, ...]]:
    """Return the commands that check a folder: with a release that has it, also as the plugin directory does."""
    described = subprocess.run([*STRICT, "--help"], capture_output=True, text=True, check=False).stdout
    return [STRICT, *([(*STRICT, "--profile", "directory")] if "--profile" in described else [])]


def main(folder: Path) -> None:
    """Write the folder, which must not exist, and check it. Raises CalledProcessError if a check finds something."""
    fill(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB")
    if shutil.which("claude") is None:
        print("Not checked: Claude Code is not installed.")
        return
    for words in checks():
        subprocess.run([*words, folder], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "dist" / "vector-memory-plugin")
