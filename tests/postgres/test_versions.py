"""The version of a memory in PostgreSQL."""

from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest

from engine_memories import add, new_memory, opened
from vector_memory.errors import DatabaseError


@pytest.fixture
def url(database: Callable[[str], str]) -> str:
    return database("postgres")


@pytest.mark.parametrize(
    ("by", "message"), [(-1, "Run `vector-memory export` with that version"), (1, "newer release")]
)
def test_a_memory_of_another_version_is_refused_with_what_to_do(url: str, by: int, message: str) -> None:
    with closing(opened(url)) as storage:
        add(storage, new_memory("a", session_id="s"))
    with psycopg.connect(url, options="-c search_path=memory,public") as connection:
        connection.execute("update namespace set schema_version = schema_version + %s", (by,))
    with pytest.raises(DatabaseError, match=message):
        opened(url)
