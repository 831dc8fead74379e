"""What keeps the memories of the tests: SQLite files or, with `--engine postgres`, schemas of a PostgreSQL server.

Tests name a memory by the path of its file either way: a schema is named after that path.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import vector_memory.cli.flags
import vector_memory.store
from clusters import schema_url
from inside import database_of, storage_of
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.database import PostgresStorage
from vector_memory.settings import DatabaseUrl, MemoryAddress
from vector_memory.storage.base import Storage, Writer
from vector_memory.storage.opening import open_storage
from vector_memory.storage.sqlite.schema import SIGNATURE_TABLE
from vector_memory.store import SessionMemoryStore

OPENING = (vector_memory.store, vector_memory.cli.flags)
"""The modules that open the memory of a path."""

ON_BOTH = (
    "commands/test_ingesting.py", "commands/test_maintain.py", "commands/test_moving.py",
    "commands/test_show.py", "commands/test_superseding_commands.py", "commands/test_syncing.py", "hooks", "report",
    "search/test_change_of_model.py", "search/test_coarse.py", "search/test_confidence.py", "search/test_copies.py",
    "search/test_explaining.py", "search/test_later.py", "search/test_lines.py", "search/test_medium.py",
    "search/test_misspelt.py", "search/test_names_above.py", "search/test_paging.py", "search/test_probes.py",
    "search/test_time.py", "search/test_unread_scripts.py", "tagged", "test_amending.py",
    "test_background_vectors.py", "test_budget.py", "test_changes.py", "test_clocks.py", "test_deadly_texts.py",
    "test_documents.py", "test_every_door.py", "test_exporting.py", "test_failing_embedders.py", "test_maintenance.py",
    "test_partial_vectors.py", "test_redacted_stores.py", "test_review.py", "test_state_machine.py",
    "test_superseding.py", "test_threads.py", "test_transfer.py", "test_vector_leases.py", "tools",
    "transcripts/test_importing.py", "ui",
)  # fmt: skip
"""The folders and files of tests that run on every engine. All else is about files, or about no memory."""


TABLES = (
    "session_memories", "memory_chunks", "memory_passages", "keyword_blocks", "keyword_memories", "keyword_postings",
)  # fmt: skip


def url_of(path: Path) -> str:
    """Return the URL of the schema that stands for a file."""
    name = sha256(bytes(path.absolute())).hexdigest()[:16]
    return schema_url(f"test_{name}")


def address_of(path: Path) -> Path | str:
    """Return what a process must be told to open the memory that this one knows by the path of a file."""
    return url_of(path) if vector_memory.store.open_storage is not open_storage else path


def place_of(path: Path) -> tuple[str, Path | str]:
    """Return the flag with which a command in another process opens that memory."""
    address = address_of(path)
    return ("--database-path" if isinstance(address, Path) else "--database-url"), address


@contextmanager
def schemas_instead_of_files() -> Iterator[None]:
    """Open a schema wherever the block opens the memory of a path."""

    def opened(address: MemoryAddress, **options: Any) -> Storage:
        return open_storage(DatabaseUrl.parse(url_of(address)) if isinstance(address, Path) else address, **options)

    with pytest.MonkeyPatch.context() as patch:
        for module in OPENING:
            patch.setattr(module, "open_storage", opened)
        yield


def writer_of(store: SessionMemoryStore) -> type[Writer]:
    """Return the class of what writes to a memory, for tests to patch."""
    with storage_of(store).write() as writer:
        return type(writer)


def execute(store: SessionMemoryStore | Storage, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Execute a statement, with `?` for values, on the tables of a memory; return the rows."""
    database: Any = database_of(store)
    with database.read() if sql.lstrip().startswith("select") else database.write() as connection:
        if not isinstance(connection, Connection):
            return list(connection.execute(sql, values))
        cursor = connection.execute(sql.replace("?", "%s"), values or None)
        return cursor.fetchall() if cursor.description else []


def column(store: SessionMemoryStore, sql: str, *values: object) -> list[Any]:
    """Return the only column of a query."""
    return [value for (value,) in execute(store, sql, *values)]


def contents(path: Path) -> list[str]:
    """Return the texts of a memory in the order of their ids."""
    with SessionMemoryStore(path, read_only=True) as store:
        return column(store, "select content from session_memories order by id")


def counts(store: SessionMemoryStore) -> dict[str, int]:
    """Return the number of rows in each table with something of memories, and of `vectors` in all."""
    tables = TABLES if is_in_schema(store) else (*TABLES, SIGNATURE_TABLE)
    found = {table: column(store, f"select count(*) from {table}")[0] for table in tables}
    vectors = ["memory_passages"] if is_in_schema(store) else ["vec_chunk_search", "vec_session_search"]
    return found | {"vectors": sum(column(store, f"select count(*) from {table}")[0] for table in vectors)}


def is_in_schema(store: SessionMemoryStore) -> bool:
    """Return whether a memory is in PostgreSQL."""
    return isinstance(storage_of(store), PostgresStorage)


def definitions(store: SessionMemoryStore) -> list[tuple[Any, ...]]:
    """Return how the tables and their columns are defined."""
    if is_in_schema(store):
        columns = "select table_name, column_name, data_type from information_schema.columns"
        return execute(store, f"{columns} where table_schema = current_schema() order by 1, 2")
    return execute(store, "select sql from sqlite_schema order by name")
