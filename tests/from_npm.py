"""What tests need from npm, pinned by a package.json and its lock file, and installed into a cache outside the clone.

`uv run python tests/from_npm.py real_client` installs the clients, and prints the folder of their commands;
`... conformance` the conformance suite with its Node, and the protocol's SDK; `... other_clients/gemini` one of the
clients that have a folder there, with its Node. All need npm.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent
PINNED = ("package.json", "package-lock.json")
COMMANDS = {
    "claude": "@anthropic-ai/claude-code-*/claude",
    "codex": "codex-*/vendor/*/bin/codex",
    "node": "node-*/bin/node",
    "conformance": ".bin/conformance",
    "gemini": ".bin/gemini",
    "qwen": ".bin/qwen",
    "copilot": "@github/copilot-*/copilot",
    "opencode": "opencode-*64/bin/opencode",
    "kilo": "@kilocode/cli-*/bin/kilo",
    "cline": "@cline/cli-*/bin/cline",
    "cn": ".bin/cn",
    "grok": ".bin/grok",
}
"""Where npm puts them."""


def folder(name: str) -> Path:
    """Return where the pinned versions of a folder of tests are installed."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    versions = b"".join((TESTS / name / file).read_bytes() for file in PINNED)
    return Path(cache) / "vector-memory-ci" / f"{name}-{hashlib.sha256(versions).hexdigest()[:12]}"


def installed(name: str, command: str) -> Path | None:
    """Return a pinned command if it is installed, or what, for example, CLAUDE_COMMAND says."""
    path = Path(os.environ.get(f"{command.upper()}_COMMAND") or folder(name) / "bin" / command)
    return path if path.exists() else None


def install(name: str) -> None:
    """Install what this machine can run: all of it, or nothing after an error.

    Raises:
        CalledProcessError: It cannot be downloaded.
        OSError: There is no npm.
    """
    folder(name).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder(name).parent) as scratch:
        for file in PINNED:
            shutil.copy(TESTS / name / file, scratch)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(npm, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        commands = Path(scratch, "bin")
        commands.mkdir()
        for command, pattern in COMMANDS.items():
            for found in Path(scratch, "node_modules").glob(pattern):
                (commands / command).symlink_to(os.path.relpath(found, commands))
        Path(scratch).rename(folder(name))


def main() -> None:
    """Install them unless they are there."""
    name = sys.argv[1]
    try:
        if not folder(name).exists():
            install(name)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"{name} cannot be installed: {error}")
    print(folder(name) / "bin")


if __name__ == "__main__":
    main()
