"""A primary that Patroni elects, with `deploy/patroni.yml`: no acknowledged store is lost, no process is restarted."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any

import psycopg
import pytest

from clusters import as_unprivileged, scratch_folder, template
from faults.effort import LONG
from servers import Server
from vector_memory.errors import DatabaseError, DuplicateMemoryError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from waiting import eventually

FILE = Path(__file__).parents[2] / "deploy" / "patroni.yml"
PLACES = {
    "etcd1.example.com:2379, etcd2.example.com:2379, etcd3.example.com:2379": "127.0.0.1:{etcd}",
    "name: db1": "name: {name}",
    "0.0.0.0:8008": "127.0.0.1:{api}",
    "db1.example.com:8008": "127.0.0.1:{api}",
    "0.0.0.0:5432": "127.0.0.1:{port}",
    "db1.example.com:5432": "127.0.0.1:{port}",
    "/usr/lib/postgresql/18/bin": "{programs}/bin",
    "/var/lib/postgresql/18/main": "{folder}/data",
    "/var/run/postgresql": "{folder}\n    fsync: off",
    "local all all peer": "local all all trust",
    "hostssl": "host",
    "scram-sha-256": "trust",
    "mode: required": "mode: off",
    "loop_wait: 5": "loop_wait: 1",
    "locale: C.UTF-8": "locale: C.UTF-8\n    - no-sync",
    "  authentication:": "  basebackup: [no-sync]\n  authentication:",
}
"""What the test puts in place of the examples, and of what only machines of their own have."""


PAUSE = 0.05
"""Seconds between two stores, so that Patroni has its turn on a machine with few cores."""

SETTINGS = Settings(embedding_model="toy")
REPORT = {"session_id": "s", "agent_id": "a"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@dataclass
class Node:
    """A machine with Patroni, and the server that it starts. `etcd`: the port of the store that all of them share."""

    name: str
    folder: Path
    etcd: int
    patroni: "subprocess.Popen[bytes] | None" = None
    port: int = field(default_factory=free_port)
    api: int = field(default_factory=free_port)

    def write_file(self) -> None:
        """Write the file of `deploy` for this machine."""
        text = FILE.read_text(encoding="utf-8")
        for example, instead in PLACES.items():
            assert example in text
            text = text.replace(example, instead.format(**vars(self), programs=template().programs))
        (self.folder / "patroni.yml").write_text(text)

    def says(self, path: str, **body: str) -> Any:
        """Return what Patroni answers to a question or a request, or None."""
        data = json.dumps(body).encode() or None if body else None
        with suppress(OSError, ValueError), urllib.request.urlopen(f"{self.url}/{path}", data, 5) as answer:  # noqa: S310 - http
            return json.loads(answer.read())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.api}"

    def start(self) -> None:
        """Start Patroni, which starts the server."""
        self.patroni = started(self.folder, "patroni", f"{self.folder}/patroni.yml")

    def send(self, number: signal.Signals) -> list[int]:
        """Send a signal to all processes of the machine, and return them."""
        self.patroni.send_signal(number)
        return [*self.send_to_server(number), self.patroni.pid]

    def send_to_server(self, number: signal.Signals) -> list[int]:
        """Send a signal to the processes of the database server. The first makes no more while it is stopped."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(first, signal.SIGSTOP)
        listed = subprocess.run(["pgrep", "-P", f"{first}"], capture_output=True, text=True, check=False)
        processes = [*map(int, listed.stdout.split()), first]
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, number)
        return processes


def started(folder: Path, program: str, *words: str) -> "subprocess.Popen[bytes]":
    """Start a program that refuses to be root."""
    with (folder / f"{program}.log").open("ab") as log:
        command, variables = [f"{which(program)}", *words], {"PATH": os.environ["PATH"], "HOME": f"{folder}"}
        return subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env=variables, start_new_session=True, **as_unprivileged()
        )


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


@dataclass
class Pair:
    """Two machines with Patroni."""

    nodes: list[Node]

    def url(self, name: str) -> str:
        """Return the address of the memory for the process of this name."""
        places = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://postgres@{places}/team?application_name={name}"

    def connected(self, database: str) -> psycopg.Connection:
        """Return a connection to the server that accepts changes, as soon as there is one."""
        places = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        made = []

        def is_made() -> bool:
            with suppress(psycopg.OperationalError):
                url = f"postgresql://postgres@{places}/{database}?target_session_attrs=read-write"
                made.append(psycopg.connect(url, autocommit=True))
            return bool(made)

        eventually(is_made)
        return made[0]

    def roles(self) -> list[str]:
        """Return what each machine is, as the others know it."""
        members = next((found["members"] for node in self.nodes if (found := node.says("cluster"))), [])
        states = {each["name"]: each["role"] * (each["state"] in {"running", "streaming"}) for each in members}
        return [states.get(node.name, "") for node in self.nodes]

    def is_whole(self) -> bool:
        """Return whether there is a primary, and a standby that confirms what it stores."""
        return sorted(self.roles()) == ["leader", "sync_standby"]

    @property
    def leader(self) -> int:
        """The place of the primary."""
        return self.roles().index("leader")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A primary and a standby that confirms, with an empty database."""
    for program in ("etcd", "patroni"):
        if which(program) is None:
            pytest.skip(f"{program} is not installed: `apt-get install etcd-server patroni`")
    with ExitStack() as stack:
        folder, port = stack.enter_context(scratch_folder()), free_port()
        clients, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
        words = {"listen-client-urls": clients, "advertise-client-urls": clients, "listen-peer-urls": peers}
        words |= {"initial-advertise-peer-urls": peers, "initial-cluster": f"default={peers}"}
        stack.callback(kill, started(folder, "etcd", *(f"--{name}={value}" for name, value in words.items())))
        pair = Pair([Node(f"db{place}", stack.enter_context(scratch_folder()), port) for place in (1, 2)])
        for node in pair.nodes:
            node.write_file()
            node.start()
            stack.callback(lambda node=node: kill(node.patroni))
        eventually(pair.is_whole)
        for database, statement in (("postgres", "create database team"), ("team", "create extension vector")):
            with pair.connected(database) as connection:
                connection.execute(statement)
        yield pair


@contextmanager
def crash(pair: Pair) -> Iterator[None]:
    """Kill the primary's server; Patroni is still there."""
    pair.nodes[pair.leader].send_to_server(signal.SIGKILL)
    yield


@contextmanager
def switch_over(pair: Pair) -> Iterator[None]:
    """Let the standby take over from the primary, as before maintenance."""
    leader = pair.leader
    with suppress(OSError):
        pair.nodes[leader].says("switchover", leader=pair.nodes[leader].name)
    eventually(lambda: pair.roles()[1 - leader] == "leader")
    yield


@contextmanager
def lose_machine(pair: Pair) -> Iterator[None]:
    """Let the primary's machine lose its power, and start it after the standby has taken over."""
    leader = pair.leader
    pair.nodes[leader].send(signal.SIGKILL)
    pair.nodes[leader].patroni.wait()
    eventually(lambda: pair.roles()[1 - leader] == "leader")
    yield
    pair.nodes[leader].start()


@contextmanager
def freeze_machine(pair: Pair) -> Iterator[None]:
    """Let the primary's machine fall silent, and go on as a primary after the standby has taken over.

    Without a watchdog, Patroni 3.0 sometimes lets it take the lock back, and rewinds the other.
    """
    leader = pair.leader
    stopped = pair.nodes[leader].send(signal.SIGSTOP)
    eventually(lambda: pair.roles()[1 - leader] == "leader")
    yield
    for process in stopped:
        os.kill(process, signal.SIGCONT)


def by_library(store: SessionMemoryStore, text: str) -> int:
    """Store by a process that uses the library; return the id, or 0."""
    try:
        return int(store.store_memory("report", text, **REPORT).memory_id or 0)
    except DuplicateMemoryError as known:
        return known.memory_id
    except DatabaseError:
        return 0


def by_server(server: Server, text: str) -> int:
    """Store by a process that serves a client; return the id, or 0."""
    arguments = {"content": text, **REPORT}
    answer = f"{server.request('tools/call', name='store_report', arguments=arguments)}"
    number = re.search(r"'memory_id': (\d+)|already exists with id (\d+)", answer)
    return int(number[1] or number[2]) if number else 0


@pytest.mark.parametrize(
    "event", [crash, switch_over, lose_machine, *[freeze_machine] * LONG], ids=lambda event: event.__name__
)
def test_no_acknowledged_store_is_lost_and_no_process_is_restarted(
    pair: Pair, event: Callable[[Pair], AbstractContextManager[None]], tmp_path: Path
) -> None:
    acknowledged: dict[int, str] = {}
    ends = threading.Event()
    eventually(pair.is_whole)

    def work(how: Callable[[Any, str], int], by: object) -> None:
        number = 0
        while not ends.wait(PAUSE):
            text = f"{event.__name__} {how.__name__} {number}"
            if stored := how(by, text):
                acknowledged[stored] = text
                number += 1

    with (
        SessionMemoryStore(pair.url("library"), SETTINGS) as library,
        Server(tmp_path, url=pair.url("server")).hello() as server,
    ):
        threads = [threading.Thread(target=work, args=of) for of in ((by_library, library), (by_server, server))]
        for thread in threads:
            thread.start()

        def all_store() -> bool:
            newest = {text.split()[1]: number for number, text in [*acknowledged.items()]}
            return len(newest) == len(threads) and min(newest.values()) > last

        try:
            last = 0
            eventually(all_store)
            with event(pair):
                last = max(acknowledged)
                eventually(all_store)
            eventually(pair.is_whole)
            last = max(acknowledged)
            eventually(all_store)
        finally:
            ends.set()
            for thread in threads:
                thread.join()
    with pair.connected("team") as connection:
        there = dict(connection.execute("select id, content from memory.session_memories").fetchall())
    assert {number: there.get(number) for number in acknowledged} == acknowledged
    assert max(Counter(there.values()).values()) == 1
