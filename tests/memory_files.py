"""Memories as files: made, looked at from outside, and used by other processes."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NoReturn

import apsw

from forked import Forked
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.settings import Settings, memory_address
from vector_memory.storage.sqlite.connecting import load_vector_search
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.inspection import inspect
from vector_memory.storage.sqlite.transactions import SqliteReader
from vector_memory.upkeep.doctor import Doctor
from vector_memory.upkeep.doctor.agreement import are_words_correct
from vector_memory.upkeep.doctor.report import Level, Report

SETTINGS = Settings(embedding_model="toy", embedding_dim=16, default_chunk_size=32, default_chunk_overlap=8)

CHILD = """
import sys, time
from pathlib import Path
from vector_memory.store import SessionMemoryStore
from vector_memory.settings import Settings, memory_address
settings = Settings(embedding_model="toy", embedding_dim=16, default_chunk_size=32, default_chunk_overlap=8)
path, *more = map(Path, sys.argv[1:])
"""
WRITER = """
with SessionMemoryStore(path, settings) as store:
    for number in range(100_000):
        store.store_memory("report", f"Report {number}. " + "some words " * 50, session_id=f"s{number % 7}")
        print(number, flush=True)
        time.sleep(0.1)
"""


def doctor(address: Path | str, settings: Settings = SETTINGS) -> Doctor:
    return Doctor(memory_address(address), settings, EmbeddingModel(lambda: load_embedder(settings)))


class Modelless(ToyEngine):
    """An engine without its model."""

    def embed(self, texts: Sequence[str]) -> NoReturn:
        raise EmbeddingUnavailableError(f"There is no model for {len(texts)} texts.")


def examine(address: Path | str, settings: Settings = SETTINGS, *, deep: bool = True) -> Report:
    return doctor(address, settings).examine(deep=deep)


def found(report: Report) -> dict[str, Level]:
    """Return what is wrong."""
    return {finding.name: finding.state for finding in report.findings if finding.state != Level.OK}


def said(report: Report, name: str) -> str:
    """Return what the report says in one of its findings."""
    (finding,) = [finding for finding in report.findings if finding.name == name]
    return f"{finding.message} {finding.advice or ''}"


def create_file(path: Path, dimensions: int = 16) -> None:
    """Create a memory without any memories."""
    database = Database(path, dimensions=dimensions)
    database.create()
    database.close()


def change(path: Path, sql: str) -> None:
    """Change a file behind the store's back."""
    connection = apsw.Connection(str(path))
    load_vector_search(connection)
    connection.execute(sql)
    assert connection.total_changes() or any(word in sql for word in ("drop", "create", "alter"))
    connection.close()


def are_words_of_texts(connection: apsw.Connection) -> bool:
    """Return whether the keyword index has exactly the words of the texts."""
    reader = SqliteReader(connection)
    return are_words_correct(reader) and not reader.upkeep.portions.miscounted()


def garble(path: Path, page: int, length: int = 4096) -> None:
    """Damage a file from the beginning of a page on; the first one is 1."""
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\x55" * length)


def flip(path: Path) -> None:
    """Damage a file in the middle."""
    garble(path, path.stat().st_size // 2 // 4096 + 1, 8192)


def contents(path: Path) -> list[str]:
    """Return the texts of a memory in the order of their ids."""
    sql = "select content from session_memories order by id"
    return inspect(path, lambda connection: [content for (content,) in connection.execute(sql)])


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Return what the files of a folder hold."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@contextmanager
def process(code: str, *paths: Path) -> Iterator[Forked]:
    """Run code in another process, at least up to the first line that it prints; kill it at the end of the block."""
    child = Forked("-c", CHILD + code, *paths, text=True)
    assert child.stdout.readline()
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the write lock of a file, as another process does in the middle of a transaction."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(60_000)
        connection.execute("begin immediate")
        try:
            yield
        finally:
            connection.execute("rollback")
