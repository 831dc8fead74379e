"""The command line in this process: quick, and with the toy model."""

import gc
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engines import address_of
from vector_memory.cli import main as cli
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

TOY = Settings(embedding_model="toy")
REPORT = "# Outage\n\nThe ledger was locked.\n\n## Cause\n\nThe nightly job waited for a lock that a migration held.\n"


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it said on standard output."""
        return json.loads(self.out)


Run = Callable[..., Ended]


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Run in a folder of its own, on a memory there, with the toy model, at 80 columns; leave the process as it was."""
    for module in ("commands.maintain", "flags"):
        monkeypatch.setattr(f"vector_memory.cli.{module}.set_up_logging", lambda *_: None)
    address = address_of(tmp_path / "memory.db")
    variable = "VECTOR_MEMORY_DATABASE_PATH" if isinstance(address, Path) else "VECTOR_MEMORY_DATABASE_URL"
    monkeypatch.setenv(variable, str(address))
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL", "toy")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Return what runs a command."""

    def run_command(*words: object, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "argv", ["vector-memory", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        sys.stdout.flush()
        said = capfdbinary.readouterr()
        return Ended(int(ended.value.code or 0), said.out.decode(), said.err.decode())

    return run_command


def answered(answer: bytes, *words: str) -> tuple[int, bytes, bytes]:
    """Run a command in a terminal and answer its question; return its exit code, output and question."""
    controller, terminal = os.openpty()
    command = [sys.executable, "-P", "-m", "vector_memory", *words]
    with subprocess.Popen(command, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal) as child:
        os.close(terminal)
        asked = b""
        while b"[y/N]" not in asked:
            asked += os.read(controller, 1000)
        os.write(controller, answer)
        said, _ = child.communicate()
    os.close(controller)
    return child.returncode, said, asked


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory with a session of two agents, another session, and knowledge."""
    path = tmp_path / "memory.db"
    with SessionMemoryStore(path, TOY) as store:
        store.store_memory("input_prompt", "Why was the checkout down?", session_id="outage")
        report = store.store_memory(
            "report", REPORT, session_id="outage", session_iter=2, agent_id="explorer", task_code="find", tags=["db"]
        )
        store.store_memory(
            "report_observation",
            "The job also runs at noon.",
            session_id="outage",
            agent_id="reviewer",
            parent_report_id=report.memory_id,
        )
        store.store_memory("report", "# Other\n\nNothing of that.\n", session_id="other", agent_id="explorer")
        store.store_memory("knowledge_base", "A lease is a lock that ends by itself.", title="Leases", category="db")
    return path
