"""Installs the clients of package.json into a cache: `uv run python tests/real_client/installing.py`. Needs npm.

Prints the folder of their commands.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PINNED = ("package.json", "package-lock.json")
COMMANDS = {"claude": "@anthropic-ai/claude-code-*/claude", "codex": "codex-*/vendor/*/bin/codex"}
"""Where npm puts them."""


def folder() -> Path:
    """Return where these versions are installed, outside the clone."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    versions = b"".join((HERE / name).read_bytes() for name in PINNED)
    return Path(cache) / "vector-memory-ci" / f"clients-{hashlib.sha256(versions).hexdigest()[:12]}"


def installed(name: str) -> Path | None:
    """Return a client's pinned command if it is installed, or what CLAUDE_COMMAND or CODEX_COMMAND says."""
    command = Path(os.environ.get(f"{name.upper()}_COMMAND") or folder() / "bin" / name)
    return command if command.exists() else None


def install() -> None:
    """Install the clients that this machine can run: all of them, or none after an error.

    Raises:
        CalledProcessError: They cannot be downloaded.
        OSError: There is no npm.
    """
    folder().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder().parent) as scratch:
        for name in PINNED:
            shutil.copy(HERE / name, scratch)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(npm, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        commands = Path(scratch, "bin")
        commands.mkdir()
        for name, pattern in COMMANDS.items():
            for found in Path(scratch, "node_modules").glob(pattern):
                (commands / name).symlink_to(os.path.relpath(found, commands))
        Path(scratch).rename(folder())


def main() -> None:
    """Install them unless they are there."""
    try:
        if not folder().exists():
            install()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"the clients cannot be installed: {error}")
    print(folder() / "bin")


if __name__ == "__main__":
    main()
