"""A server of an earlier release that runs while its file is upgraded, and this release during a later upgrade."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from faults.effort import effort
from faults.soundness import connected, faults_of
from memory_files import SETTINGS, create_file
from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DatabaseError
from vector_memory.store import SessionMemoryStore

ROOT = Path(__file__).parent.parent.parent
TABLES = ("session_memories", "memory_chunks", "memory_passages", "keyword_memories", "canonical_tags")
RELEASES = effort(quick=["9c8851d", "036f727"], long=["9c8851d", "b2161f1", "4fdae27", "036f727"])
"""Commits with tables of version 1 to 4; their servers look at no version when they write."""


class EarlierServer:
    """A running server of the release whose source is in a folder."""

    def __init__(self, source: Path, database: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).parent / "earlier_release.py", database],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(source)},
            text=True,
        )
        assert self._answer() == "open"

    def call(self, method: str, *arguments: Any, **named: Any) -> str:
        """Return how a call ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([method, arguments, named]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> int:
        """End the server, and return its exit code."""
        self._process.communicate()
        return self._process.returncode

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture(params=RELEASES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The source of an earlier release."""
    command = ["git", "-C", str(ROOT), "archive", request.param, "src"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"the history does not reach back to {request.param}")
    (tmp_path / "release").mkdir()
    subprocess.run(["tar", "-xC", tmp_path / "release"], input=archive.stdout, check=True)
    return tmp_path / "release" / "src"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def server(source: Path, path: Path) -> Iterator[EarlierServer]:
    """A server of an earlier release on a file of its own, with two memories."""
    server = EarlierServer(source, path)
    assert server.call("store_memory", "report", "# One\n\nThe first.", session_id="s", agent_id="a") == "done"
    assert server.call("store_memory", "input_prompt", "Why?", session_id="s", agent_id="a") == "done"
    yield server
    server.end()


def rows(path: Path) -> dict[str, list[Any]]:
    """Return the contents of the text tables."""
    connection = apsw.Connection(str(path))
    try:
        return {
            table: connection.execute(f"select * from {table} order by 1").fetchall()
            for table in TABLES
            if table != "session_memories"
        } | {"memories": connection.execute("select id, content, chunk_count from session_memories").fetchall()}
    finally:
        connection.close()


def test_after_an_upgrade_a_server_of_an_earlier_release_writes_nothing_and_says_so(
    server: EarlierServer, path: Path
) -> None:
    with SessionMemoryStore(path, SETTINGS) as store:
        store.store_memory("report", "# Two\n\nThe second.", session_id="s", agent_id="a")
        before = rows(path)
        place = {"session_id": "s", "agent_id": "a"}
        assert server.call("store_memory", "report", "# Three\n\nThe third.", **place) == "DatabaseError"
        assert server.call("store_memory", "input_prompt", "Whence?", **place) == "DatabaseError"
        assert server.call("delete_memory", 1) == "DatabaseError"
        assert server.call("cleanup_old_memories", 0, dry_run=False) in {"DatabaseError", "ValidationError"}
        assert server.call("get_session_stats", "s") == "done"
        assert server.call("get_memory_by_id", 1) == "done"
        assert server.call("search_chunks", "first", "report", 5) in {"done", "DatabaseError"}
        assert server.end() == 0
        assert rows(path) == before
        store.store_memory("report", "# Three\n\nThe third.", **place)
        found = store.search_chunks("third", Scope(MemoryKind.REPORT), Page(limit=1), mode="keyword").results
        assert [chunk.memory_id for chunk in found] == [max(row[0] for row in rows(path)["memories"])]
    assert faults_of(path, ToyEngine(16)) == []


@pytest.mark.parametrize(
    "sql",
    [
        "insert into session_memories select * from session_memories",
        "update session_memories set chunk_count = 2 where id = 1",
        "update session_memories as m set embedding_model_id = null where id = 99",
        "delete from session_memories where id = 99",
    ],
)
def test_an_earlier_release_cannot_prepare_statements_that_add_index_or_delete_memories(path: Path, sql: str) -> None:
    create_file(path, 4)
    connection = apsw.Connection(str(path))
    with pytest.raises(apsw.SQLError, match="vector_memory_schema"):
        connection.execute(sql)
    connection.execute("update session_memories set access_count = access_count + 1")
    connection.close()


def upgraded(path: Path, sql: str = "") -> None:
    """Upgrade a file as a later release might."""
    with connected(path) as connection:
        connection.execute(f"insert into schema_migrations values (999, 'from the future', '2099'); {sql}")


def test_after_an_upgrade_by_a_newer_release_nothing_is_written_and_reading_continues(path: Path) -> None:
    with SessionMemoryStore(path, SETTINGS) as store:
        store.store_memory("report", "# One\n\nThe first.", session_id="s", agent_id="a")
        upgraded(path)
        with pytest.raises(DatabaseError, match="restart this server with the newer release"):
            store.store_memory("report", "# Two\n\nThe second.", session_id="s", agent_id="a")
        with pytest.raises(DatabaseError, match="restart this server with the newer release"):
            store.delete_memory(1)
        found = store.search_chunks("first", Scope(MemoryKind.REPORT), Page(limit=1)).results
        assert [chunk.memory_id for chunk in found] == [1]


def test_data_that_cannot_be_read_after_an_upgrade_is_not_reported_as_damage(path: Path) -> None:
    with SessionMemoryStore(path, SETTINGS) as store:
        store.store_memory("report", "# One\n\nThe first.", session_id="s", agent_id="a")
        upgraded(path, "alter table keyword_postings rename to terms")
        with pytest.raises(DatabaseError, match="restart this server with the newer release"):
            store.search_chunks("first", Scope(MemoryKind.REPORT), Page(limit=1))
