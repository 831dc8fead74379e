"""What keeps the memories of the tests: SQLite files or, with `--engine postgres`, schemas of a PostgreSQL server.

Tests name a memory by the path of its file either way: a schema is named after that path.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import vector_memory.cli.commands.opening
import vector_memory.store
from clusters import shared_cluster
from vector_memory.settings import DatabaseUrl, MemoryAddress
from vector_memory.storage.base import Storage
from vector_memory.storage.opening import open_storage
from vector_memory.storage.postgres.connection import Connection
from vector_memory.store import SessionMemoryStore

OPENING = (vector_memory.store, vector_memory.cli.commands.opening)
"""The modules that open the memory of a path."""

ON_BOTH = (
    "commands/test_maintain.py", "commands/test_moving.py", "commands/test_searching.py", "commands/test_show.py",
    "commands/test_syncing.py", "commands/test_tagged_import.py", "commands/test_ingesting.py",
    "hooks", "over_http", "report", "search", "tagged", "tools", "transcripts/test_importing.py",
    "test_any_metadata.py", "test_background_vectors.py", "test_budget.py", "test_changes.py", "test_deadly_texts.py",
    "test_documents.py", "test_exporting.py", "test_maintenance.py", "test_partial_vectors.py",
    "test_redacted_stores.py", "test_reembedding.py", "test_state_machine.py", "test_storing.py", "test_threads.py",
    "test_transfer.py", "test_vector_leases.py",
)  # fmt: skip
"""The folders and files of tests that `--engine` runs on another engine; all else is about files, or about no memory."""


def url_of(path: Path) -> str:
    """Return the URL of the schema that stands for a file."""
    name = sha256(os.path.abspath(path).encode()).hexdigest()[:16]
    return f"{shared_cluster().url()}&schema=test_{name}"


@contextmanager
def schemas_instead_of_files() -> Iterator[None]:
    """Open a schema wherever the block opens the memory of a path."""

    def opened(address: MemoryAddress, **options: Any) -> Storage:
        return open_storage(DatabaseUrl.parse(url_of(address)) if isinstance(address, Path) else address, **options)

    with pytest.MonkeyPatch.context() as patch:
        for module in OPENING:
            patch.setattr(module, "open_storage", opened)
        yield


def execute(store: SessionMemoryStore, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Execute a statement on the tables of a memory behind the store's back, and return the rows."""
    with store._storage._database.write() as connection:  # type: ignore[attr-defined]
        if not isinstance(connection, Connection):
            return list(connection.execute(sql, values))
        cursor = connection.execute(sql.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description else []


def counts(store: SessionMemoryStore) -> dict[str, int]:
    """Return the number of rows of each table that has rows of memories."""
    with store._storage._database.read() as connection:  # type: ignore[attr-defined]
        is_file = not isinstance(connection, Connection)
        tables = ["session_memories", "memory_chunks", "memory_passages", "pending_vectors", "canonical_tags"]
        tables += ["keyword_blocks", "keyword_memories", "keyword_postings"]
        tables += ["vec_chunk_search", "vec_session_search"] if is_file else []
        return {table: connection.execute(f"select count(*) from {table}").fetchall()[0][0] for table in tables}
