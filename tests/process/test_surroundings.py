"""A server uses no network and writes nowhere else (P9), and is not swayed by what lies in its folder (P10)."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from servers import MAIN, QUICK, SLOW_MODEL, Server
from waiting import PATIENCE

TRACE = "%network"
STARTS = {
    "main.py": [sys.executable, str(MAIN)],
    "python -P -m": [sys.executable, "-P", "-m", "vector_memory"],
    "vector-memory": [str(Path(sys.executable).parent / "vector-memory")],
}


def strace() -> list[str]:
    """Return the command that records what a process has to do with networks, or skip the test."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not installed: `apt-get install strace`")
    if subprocess.run([found, "-f", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("strace may not trace processes here")
    return [found, "-f", "--seccomp-bpf", "-qq", "-e", f"trace={TRACE}", "-o", "trace"]


def use(server: Server) -> None:
    """Store and search, then end."""
    with server:
        assert server.hello().call("store_report", agent_id="a", session_id="s", content="# T\n\nA cold cache.")[
            "success"
        ]
        assert server.call("search_reports_specific_chunks", query="cold cache")["results"]
        server.hang_up(reading=True)
        assert (server.process.stdout.read(), server.process.wait(PATIENCE), server.errors()) == (b"", 0, b"")


@pytest.mark.parametrize("model", ["all-MiniLM-L6-v2", "somebody/elses-model"])
def test_no_network_is_used_and_nothing_is_written_at_home(tmp_path: Path, model: str) -> None:
    """Nor with a model of the hub's, whose library would ask the hub if it were let."""
    home = tmp_path / "home"
    home.mkdir()
    surroundings = {"PYTHONPATH": str(SLOW_MODEL)} if "/" in model else {}
    use(
        Server(
            tmp_path,
            start=[*strace(), *STARTS["main.py"]],
            VECTOR_MEMORY_EMBEDDING_MODEL=model,
            HOME=str(home),
            **surroundings,
        )
    )
    calls = [line for line in (tmp_path / "trace").read_text().splitlines() if "AF_" in line]
    assert calls, "nothing was traced"
    assert [line for line in calls if "AF_UNIX" not in line] == []
    assert list(home.iterdir()) == []


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with settings for FastMCP, and modules with the names of others that leave a trace when imported."""
    (tmp_path / ".env").write_text("FASTMCP_LOG_LEVEL=NONSENSE\nFASTMCP_TRANSPORT=http\n")
    for name in ("json.py", "sitecustomize.py", "apsw.py", "fastmcp/__init__.py", "vector_memory/__init__.py"):
        module = tmp_path / name
        module.parent.mkdir(exist_ok=True)
        module.write_text("import pathlib, sys\npathlib.Path('ran').touch()\nprint('hello')\nsys.exit(3)\n")
    return tmp_path


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_modules_and_settings_in_the_current_folder_change_nothing(hostile: Path, start: Sequence[str]) -> None:
    use(
        Server(
            hostile,
            start=start,
            FASTMCP_LOG_LEVEL="NONSENSE",
            FASTMCP_TRANSPORT="http",
            fastmcp_port="none",
            FASTMCP_ENV_FILE=".env",
        )
    )
    assert not (hostile / "ran").exists()
    assert {path.name for path in hostile.iterdir() if path.name.startswith("memory.db")} == {"memory.db"}


def test_without_p_only_a_module_of_its_own_name_can_come_from_the_current_folder(hostile: Path) -> None:
    """Python itself looks for `vector_memory` there, before anything of it runs."""
    shutil.rmtree(hostile / "vector_memory")
    use(Server(hostile, start=[sys.executable, "-m", "vector_memory"]))
    assert not (hostile / "ran").exists()


PRINTS = """
import os, sys
from pathlib import Path
from vector_memory import store
from vector_memory.server import app as server
from vector_memory.settings import Settings

class Noisy(store.SessionMemoryStore):
    def list_sessions(self, *arguments, **named):
        print("printed", flush=True)
        os.write(1, b"written\\n")
        os.system("echo by a child; cat")
        return super().list_sessions(*arguments, **named)

store.SessionMemoryStore = Noisy
server.run_server(Path(sys.argv[-1]), Settings(embedding_model="toy"))
"""


def test_nothing_but_the_protocol_comes_out_of_standard_output(tmp_path: Path) -> None:
    """What a library prints, or a child process, goes to standard error; and a child cannot take the client's lines."""
    with Server(tmp_path, start=["-c", PRINTS]) as server:
        assert server.hello().call("list_sessions")["success"]
        assert server.call("list_sessions")["success"]
        server.hang_up(reading=True)
        server.process.wait(PATIENCE)
        assert server.errors().split(b"\n")[:4] == [b"printed", b"written", b"by a child", b"printed"]


def test_a_closed_standard_error_is_no_reason_to_fail(tmp_path: Path) -> None:
    """The next file that is opened takes its number, and would be written to by whatever prints errors."""
    command = [sys.executable, str(MAIN), "serve", "--database-path", str(tmp_path / "memory.db")]
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *command],
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True,
        check=False,
        timeout=PATIENCE,
        env={**os.environ, **QUICK},
    )
    assert (done.returncode, done.stdout) == (0, b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
