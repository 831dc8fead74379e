"""Installs the suite of package.json and its Node into a cache: `uv run python tests/conformance/installing.py`.

Needs npm.
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


def folder() -> Path:
    """Return where these versions are installed, outside the clone."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    versions = b"".join((HERE / name).read_bytes() for name in PINNED)
    return Path(cache) / "vector-memory-ci" / f"conformance-{hashlib.sha256(versions).hexdigest()[:12]}"


def command() -> list[str]:
    """Return the command of the installed suite, on the Node that came with it, else on this machine's."""
    modules = folder() / "node_modules"
    node = next(modules.glob("node-*/bin/node"), "node")
    return [str(node), str(modules / ".bin" / "conformance")]


def install() -> None:
    """Install the suite: all of it, or nothing after an error.

    Raises:
        CalledProcessError: It cannot be downloaded.
        OSError: There is no npm.
    """
    folder().parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder().parent))
    try:
        for name in PINNED:
            shutil.copy(HERE / name, scratch)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(npm, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        scratch.rename(folder())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    """Install it unless it is there."""
    try:
        if not folder().exists():
            install()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"the suite cannot be installed: {error}")


if __name__ == "__main__":
    main()
