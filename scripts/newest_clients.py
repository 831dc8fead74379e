"""Drive the newest releases of the clients that tests/other_clients pins, and print what differs. Never fails.

`uv run python scripts/newest_clients.py [CLIENT...]`. A release that works can be pinned: `npm install NAME@VERSION
--package-lock-only` in its folder. Needs npm and the package index.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
sys.path.append(str(TESTS))

from from_npm import COMMANDS  # noqa: E402 - it is beside the tests


def output(*words: str, **options: object) -> tuple[int, str]:
    """Run a command; return its exit code and its last line."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    return done.returncode, (done.stdout.strip() or done.stderr.strip()).rpartition("\n")[2]


def compare(client: str) -> str:
    """Return how the newest release of a client differs from the pinned one."""
    pinned = json.loads((TESTS / "other_clients" / client / "package.json").read_text())
    held = {**pinned.get("dependencies", {}), **pinned.get("optionalDependencies", {})}
    package, version = next((name, number) for name, number in held.items() if not name.startswith("node-"))
    failed, newest = output("npm", "view", package, "version")
    if failed or newest == version:
        return f"{client} {version}: {newest if failed else 'is the newest'}"
    with tempfile.TemporaryDirectory() as scratch:
        install = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", f"{package}@{newest}")
        failed, said = output(*install, cwd=scratch)
        command = {"continue": "cn"}.get(client, client)
        found = list(Path(scratch, "node_modules").glob(COMMANDS[command]))
        if failed or not found:
            return f"{client} {version} -> {newest}: cannot be installed ({said})"
        tests = ("uv", "run", "pytest", "-q", "-n", "0", "-m", "real_client", "tests/other_clients", "-k", client)
        failed, said = output(*tests, cwd=TESTS.parent, env=os.environ | {f"{command.upper()}_COMMAND": str(found[0])})
        return f"{client} {version} -> {newest}: {f'differs ({said})' if failed else 'works'}"


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.parent.name for path in TESTS.glob("other_clients/*/package.json")):
        print(compare(name), flush=True)
