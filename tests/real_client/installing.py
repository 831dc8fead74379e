"""Installs the Claude Code of package.json into a cache: `uv run python tests/real_client/installing.py`. Needs npm."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = "@anthropic-ai"


def version() -> str:
    """Return the pinned version."""
    (found,) = set(json.loads((HERE / "package.json").read_text(encoding="utf-8"))["optionalDependencies"].values())
    return str(found)


def folder() -> Path:
    """Return where the pinned version is installed, outside the clone."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "vector-memory-ci" / f"claude-{version()}"


def installed() -> Path | None:
    """Return the command of the pinned version if it is installed, or the one that CLAUDE_COMMAND names."""
    if named := os.environ.get("CLAUDE_COMMAND"):
        return Path(named)
    return next((folder() / "node_modules" / PACKAGE).glob("claude-code-*/claude"), None)


def install() -> None:
    """Install the pinned version, whole or not at all.

    Raises:
        CalledProcessError: It cannot be downloaded.
        OSError: There is no npm.
    """
    folder().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder().parent) as scratch:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, scratch)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(npm, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        Path(scratch, "node_modules").rename(_emptied(folder()) / "node_modules")


def _emptied(place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    return place


def main() -> None:
    """Install it unless it is there, and print where it is."""
    try:
        if not installed():
            install()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"Claude Code {version()} cannot be installed: {error}")
    print(installed() or sys.exit(f"There is no Claude Code {version()} for this machine"))


if __name__ == "__main__":
    main()
