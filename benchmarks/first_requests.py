"""Whether real clients have the tools in their first request to a model, on a processor that is a third as fast.

    uv run benchmarks/first_requests.py [claude] [codex] [cline] [--runs 10] [--share 0.33]

The client and its server together get `--share` of one processor, by a cgroup, which only root may make. Claude Code
and Codex are those of `uv run python tests/from_npm.py real_client`; Cline is the command in CLINE_COMMAND, of `npm
install cline`. None waits longer than it does by itself. The exit code is 1 if a run had no tools.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from from_npm import installed
from real_client.scripted_model import CODEX

NAMES = {"claude": "mcp__vector-memory__store_report", "codex": "mcp__vector_memory", "cline": "store_report"}
"""What a first request has if the server is connected. Codex names only the server, whose tools a search finds."""
PERIOD = 100_000
PROGRAM = Path(sys.executable).with_name("vector-memory")
ENTRY = {"mcpServers": {"vector-memory": {"transport": {"type": "stdio", "command": str(PROGRAM), "args": ["serve"]}}}}
PATIENCE = 300


class Model(BaseHTTPRequestHandler):
    """Notes the first request that names tools, and answers none."""

    first = ""
    asked: threading.Event

    def do_POST(self) -> None:
        """Note a request."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.asked.is_set() and json.loads(body).get("tools"):
            type(self).first = body.decode()
            self.asked.set()
        self.send_error(503)

    def do_HEAD(self) -> None:
        """Show that there is a server."""
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


def command_of(client: str, home: Path, url: str) -> list[str | Path]:
    """Configure a client that has no account, and return what asks it for something."""
    command = installed("real_client", client)
    if command is None:
        sys.exit(f"{client} is not installed.")
    if client == "cline":
        settings = home / ".cline" / "data" / "settings"
        settings.mkdir(parents=True)
        (settings / "cline_mcp_settings.json").write_text(json.dumps(ENTRY))
        signing_in = [command, "auth", "-p", "openai-compatible", "-k", "none", "-m", "gpt-5", "-b", f"{url}/v1"]
        subprocess.run(signing_in, check=True, env=variables(home, url), capture_output=True, stdin=subprocess.DEVNULL)
        return [command, "-P", "openai-compatible", "Begin it."]
    if client == "codex":
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(CODEX.format(url=url))
    (home / client).symlink_to(command)
    install = [PROGRAM, "install", client, "--user", "--tools-only", "--yes"]
    subprocess.run(install, check=True, env=variables(home, url), capture_output=True)
    return [command, "exec", "--skip-git-repo-check", "Begin."] if client == "codex" else [command, "-p", "Begin."]


def variables(home: Path, url: str) -> dict[str, str]:
    """Return the environment of somebody with an empty home."""
    own = {"HOME": str(home), "PATH": f"{home}:{os.environ['PATH']}", "ANTHROPIC_BASE_URL": url}
    return own | {
        "ANTHROPIC_API_KEY": "none",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


@contextmanager
def throttled(share: float) -> Iterator[Path]:
    """Yield the file that takes the processes that get this share of a processor together."""
    old = Path("/sys/fs/cgroup/cpu")
    group = (old if old.is_dir() else old.parent) / "vector-memory-first-requests"
    group.mkdir(exist_ok=True)
    quota = int(share * PERIOD)
    if old.is_dir():
        (group / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (group / "cpu.max").write_text(f"{quota} {PERIOD}")
    try:
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def has_tools(client: str, share: float) -> tuple[bool, float]:
    """Start a client; return whether its first request has the tools, and the seconds until that."""
    handler = type("Handler", (Model,), {"asked": threading.Event()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, throttled(share) as members:
        home, project = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        project.mkdir()
        words = command_of(client, home, url)
        began = time.monotonic()
        process = subprocess.Popen(
            ["/bin/sh", "-c", 'echo $$ > "$0"; exec "$@"', members, *words],
            env=variables(home, url),
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        asked = handler.asked.wait(PATIENCE)
        took = time.monotonic() - began
        while members_left := members.read_text().split():
            for member in members_left:
                try:
                    os.kill(int(member), signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.05)
        process.wait()
    server.shutdown()
    server.server_close()
    return asked and NAMES[client] in handler.first, took


def main() -> None:
    """Print a row for each client."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clients", nargs="*", default=["claude", "codex", "cline"])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--share", type=float, default=1 / 3)
    options = parser.parse_args()
    found = {client: [has_tools(client, options.share) for _ in range(options.runs)] for client in options.clients}
    print("| client | runs with tools in the first request | seconds until it |\n| --- | --- | --- |")
    for client, runs in found.items():
        seconds = sorted(took for _, took in runs)
        print(f"| {client} | {sum(had for had, _ in runs)} of {len(runs)} | {seconds[0]:.1f} - {seconds[-1]:.1f} |")
    sys.exit(not all(had for runs in found.values() for had, _ in runs))


if __name__ == "__main__":
    main()
