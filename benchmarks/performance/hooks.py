# ruff: noqa: S311 - what is chosen at random is no secret
"""What becomes of the texts that hooks report while everything fails, and how long a hook takes.

    uv run benchmarks/performance/hooks.py [--servers 4] [--hooks 25] [--load 0] [--only "locked"] [--json FILE]

Each server is a real one with the toy model, over standard input and output, on a memory that all of them share; then
each is a relay to one server over HTTP. While hooks are called, one thing fails at a time. Then all of them are
killed, what failed works again, and servers start that store what was left. A text was *taken* if its hook was
answered without a failure; in the end it is stored, waits, was set aside, or is lost. The exit code is 1 if anything is
lost. `--load`: so many processes keep the processors busy meanwhile.

Filling a disk needs the right to mount one.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
from client import ROOT, Server
from rich.console import Console
from rich.table import Table
from timing import Figures, summary

from vector_memory.domain.callers import Permission
from vector_memory.extras.teams.registry import Quota, Registry
from vector_memory.server.hooks import FAILED
from vector_memory.settings import DATABASE_NAME
from vector_memory.writing.outbox import Outbox

SESSION = "measured"
SECONDS_TO_SETTLE = 120
TOY = {"VECTOR_MEMORY_EMBEDDING_MODEL": "toy", "TIKTOKEN_CACHE_DIR": ""}


class Local:
    """Servers that share a memory in a folder. `state`: where the user's programs keep what waits."""

    name = "stdio"

    def __init__(self, folder: Path, state: Path) -> None:
        self.database = folder / "memory.db"
        self.variables = TOY | {"XDG_STATE_HOME": str(state)}
        self.places = [folder / "memory.db.outbox", state / "vector-memory" / "outbox"]

    def connect(self) -> Server:
        """Start a server, and shake hands."""
        return self._greeted(Server(self.database, settings=self.variables))

    def restart(self) -> None:
        """Let what was stopped or killed run again."""

    def stop(self) -> None:
        """End what runs besides the servers of clients."""

    def _greeted(self, server: Server) -> Server:
        server.initialize()
        return server


class Shared(Local):
    """Relays to a server over HTTP, whose memory is in the folder."""

    name = "relay"

    def __init__(self, folder: Path, state: Path) -> None:
        self.registry = Registry(folder)
        self.registry.create("team")
        self.database = folder / "namespaces" / "team" / DATABASE_NAME
        self._token = state / "token"
        self._token.write_text(Registry(folder).tokens.create("relay", "team", Permission.WRITE))
        self._token.chmod(0o600)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._folder = folder
        self.variables = TOY | {"XDG_STATE_HOME": str(state)}
        self.places = [self.database.with_name(f"{DATABASE_NAME}.outbox"), state / "vector-memory" / "outbox"]
        self.restart()

    def restart(self) -> None:
        """Start the server over HTTP."""
        command = [sys.executable, str(ROOT / "main.py"), "serve", "--http", "--port", str(self._port)]
        self.process = subprocess.Popen(
            [*command, "--data-dir", str(self._folder)], env=os.environ | self.variables, stderr=subprocess.DEVNULL
        )
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
                return
            time.sleep(0.05)

    def connect(self) -> Server:
        """Start a relay, and shake hands."""
        url = f"http://127.0.0.1:{self._port}/mcp"
        command = [sys.executable, str(ROOT / "main.py"), "serve", "--remote", url, "--token-file", str(self._token)]
        return self._greeted(Server(command=command, settings=self.variables))

    def stop(self) -> None:
        """Kill the server."""
        self.process.kill()
        self.process.wait()


@dataclass
class Ledger:
    """What hooks have taken, and how long each took in milliseconds."""

    taken: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


def report(number: int) -> str:
    """Return a report that no other equals."""
    return f"# Finding {number}\n\nThe migration holds a lock on the orders table in release {number}, until it ends."


def call_hooks(place: Local, first: int, count: int, ledger: Ledger) -> None:
    """Report texts; start another server whenever one was killed."""
    server = place.connect()
    for number in range(first, first + count):
        fields = {"session_id": SESSION, "agent_type": "explorer", "last_assistant_message": report(number)}
        began = time.perf_counter()
        try:
            answer = server.request("tools/call", name="hook_subagent", arguments=fields)
        except (ValueError, OSError):  # no answer: nobody has taken it
            server = place.connect()
        else:
            ledger.times.append((time.perf_counter() - began) * 1000)
            if FAILED not in answer.get("_meta", {}):
                ledger.taken.append(report(number))
    server.kill()


# What fails while hooks are called. A condition is left when all servers of clients are dead.


@contextmanager
def nothing(_place: Local) -> Iterator[None]:
    """Let everything work."""
    yield


@contextmanager
def lock(place: Local) -> Iterator[None]:
    """Hold the write lock, as a process does that is stuck; then kill the server over HTTP, too."""
    connection = apsw.Connection(str(place.database))
    connection.set_busy_timeout(30_000)
    connection.execute("begin immediate")
    yield
    place.stop()
    connection.close()


@contextmanager
def kills(place: Local) -> Iterator[None]:
    """Kill a server of these clients, or the one over HTTP, every now and then."""
    ended, moments = threading.Event(), random.Random(31)

    def kill() -> None:
        while not ended.wait(moments.uniform(0.1, 0.5)):
            if servers := servers_at_work():
                os.kill(moments.choice(servers), signal.SIGKILL)
            if isinstance(place, Shared) and place.process.poll() is not None:
                place.restart()

    thread = threading.Thread(target=kill)
    thread.start()
    yield
    ended.set()
    thread.join()


def servers_at_work() -> list[int]:
    """Return the servers and relays that this process has started."""
    children = map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    return [child for child in children if b"main.py" in Path(f"/proc/{child}/cmdline").read_bytes()]


@contextmanager
def full_disk(place: Local) -> Iterator[None]:
    """Leave no space on the disk of the memory."""
    ballast = place.database.parent / "ballast"
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    yield
    place.stop()
    ballast.unlink()


@contextmanager
def hang(place: Local) -> Iterator[None]:
    """Let the server over HTTP accept connections, and answer nothing."""
    assert isinstance(place, Shared)
    place.process.send_signal(signal.SIGSTOP)
    yield
    place.process.send_signal(signal.SIGCONT)


@contextmanager
def full_namespace(place: Local) -> Iterator[None]:
    """Let the namespace be full."""
    assert isinstance(place, Shared)
    place.registry.set_quota("team", Quota(memories=1))
    time.sleep(3)  # until the server notices
    yield
    place.registry.set_quota("team", Quota())


@dataclass(frozen=True)
class Case:
    """What fails. `disk`: the memory is on a small disk."""

    name: str
    condition: Callable[[Local], AbstractContextManager[None]]
    places: tuple[type[Local], ...] = (Local, Shared)
    disk: bool = False


CASES = [
    Case("nothing fails", nothing),
    Case("file locked, all killed", lock),
    Case("killed again and again", kills),
    Case("disk full, all killed", full_disk, disk=True),
    Case("server hangs, relays killed", hang, (Shared,)),
    Case("namespace full, relays killed", full_namespace, (Shared,)),
]


def run(case: Case, kind: type[Local], servers: int, hooks: int) -> Figures:
    """Call hooks while something fails; return what became of the texts."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        memory, state = home / "memory", home / "state"
        for folder in (memory, state):
            folder.mkdir()
        if case.disk:
            subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=32m", "none", memory], check=True)
            stack.callback(subprocess.run, ["/bin/umount", "-l", memory], check=True)
        place = kind(memory, state)
        stack.callback(place.stop)
        call_hooks(place, 1_000_000, 1, Ledger())  # creates the file
        wait_until_settled(place)
        ledger = Ledger()
        with case.condition(place), ThreadPoolExecutor(servers) as threads:
            for _ in threads.map(lambda number: call_hooks(place, number * hooks, hooks, ledger), range(servers)):
                pass
        if isinstance(place, Shared) and place.process.poll() is not None:
            place.restart()
        wait_until_settled(place)
        return became(place, ledger)


def wait_until_settled(place: Local) -> None:
    """Let servers run until nothing waits any more."""
    server, give_up = place.connect(), time.monotonic() + SECONDS_TO_SETTLE
    while any(contents[0] for contents in outboxes(place)) and time.monotonic() < give_up:
        time.sleep(0.1)
    server.kill()


def outboxes(place: Local) -> list[tuple[list[Path], list[Path]]]:
    """Return what waits and what was set aside, in each outbox."""
    beside, of_user = place.places
    found = [Outbox(folder) for folder in (beside, *of_user.glob("*"))]
    return [(outbox.paths(), [path for path, _ in outbox.refused()]) for outbox in found]


def became(place: Local, ledger: Ledger) -> Figures:
    """Count what became of the texts that were taken."""
    connection = apsw.Connection(str(place.database))
    stored = [content for (content,) in connection.execute("select content from session_memories")]
    connection.close()
    contents = outboxes(place)
    left = " ".join(path.read_text() for waiting, aside in contents for path in (*waiting, *aside))
    lost = [text for text in ledger.taken if text not in set(stored) and json.dumps(text) not in left]
    return {
        "taken": len(ledger.taken),
        "stored": len(set(ledger.taken) & set(stored)),
        "wait": sum(len(waiting) for waiting, _ in contents),
        "set aside": sum(len(aside) for _, aside in contents),
        "lost": len(lost),
        "twice": len(stored) - len(set(stored)),
        **summary(ledger.times),
    }


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep the processors busy."""
    working = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    yield
    for process in working:
        process.kill()
        process.wait()


def main() -> None:
    """Run, count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--hooks", type=int, default=25, help="of each server")
    parser.add_argument("--load", type=int, default=0, help="processes that keep the processors busy")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures: dict[str, Any] = {}
    with busy(arguments.load):
        for case in CASES:
            for kind in case.places if arguments.only in case.name else ():
                figures[f"{kind.name}: {case.name}"] = run(case, kind, arguments.servers, arguments.hooks)
    names = ("taken", "stored", "wait", "set aside", "lost", "twice", "p50", "p95", "max")
    table = Table("what fails", *names, title=f"load {os.getloadavg()[0]:.0f}; times of a hook in ms")
    for name, result in figures.items():
        table.add_row(name, *(f"{result[key]:,.0f}" for key in names))
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))
    sys.exit(any(result["lost"] for result in figures.values()))


if __name__ == "__main__":
    main()
