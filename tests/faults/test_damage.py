"""A file is damaged while no process uses it."""

import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from faults.effort import effort
from faults.soundness import connected
from faults.workload import content, memory, open_store
from vector_memory.domain import MemoryKind, Page, Scope, SearchMode
from vector_memory.errors import DatabaseError, NotFoundError, VectorMemoryError
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.timeout(900)

MEMORIES = {number + 1: number for number in range(24)}
PAGE = 4096
FILE_HEADER = 100
EVERY = effort(quick=5, long=1)
"""One in this many pages of each table and index is damaged."""


class FilePage(NamedTuple):
    """A page of a table or an index."""

    table: str
    number: int

    @property
    def header(self) -> int:
        """Where SQLite's description of the page begins."""
        return (self.number - 1) * PAGE + (FILE_HEADER if self.number == 1 else 0)

    @property
    def is_of_vectors(self) -> bool:
        """Tell whether the page can be rebuilt from the text."""
        return "vec_" in self.table


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a few memories."""
    path = tmp_path / "memory.db"
    with open_store(path) as store:
        for number in MEMORIES.values():
            store.store_memory(**memory(number))
    return path


def pages(path: Path) -> list[FilePage]:
    """Return the first page of each table and index, and a sample of the others."""
    number = "row_number() over (partition by name order by pageno)"
    with connected(path) as connection:
        rows = connection.execute(f"select name, pageno, {number} from dbstat order by pageno").fetchall()
    return [FilePage(table, page) for table, page, place in rows if place % EVERY == 1 % EVERY]


def damaged(path: Path, place: int, data: bytes) -> Path:
    """Return a copy of a file with other bytes in one place."""
    copy = path.with_name(f"damaged{place}.db")
    shutil.copy(path, copy)
    with copy.open("r+b") as file:
        file.seek(place)
        file.write(data)
    return copy


def without_headers(path: Path) -> Iterator[tuple[FilePage, Path]]:
    """Yield copies of a file; in each the header of one page is nonsense."""
    for page in pages(path):
        yield page, damaged(path, page.header, b"\xff" * 8)


def with_flipped_bytes(path: Path) -> Iterator[tuple[FilePage, Path]]:
    """Yield copies of a file; in each, a cell of one page is nonsense: SQLite fills a page from its end."""
    for page in pages(path):
        yield page, damaged(path, page.number * PAGE - PAGE // 16, random.Random(page.number).randbytes(64))


def replaced(path: Path, old: bytes, new: bytes) -> Path:
    """Return a copy of a file with other bytes in place of these."""
    copy = path.with_name("replaced.db")
    copy.write_bytes(path.read_bytes().replace(old, new))
    return copy


def use_all(path: Path) -> None:
    """Read everything in every way, and change something; no text that is handed out may be another."""
    with open_store(path) as store:
        read_all(store)
        for kind in ("report", "working_memory", "knowledge_base"):
            store.search_chunks("naïve", Scope(kind), Page(limit=10))
            store.search_sections("naïve", Scope(kind), Page(limit=10))
            store.search_documents("naïve", Scope(kind), Page(limit=10), order="relevance")
        store.search_memories("naïve", Scope("report_observation"), Page(limit=10))
        store.list_sessions()
        for number in range(100, 104):
            store.store_memory(**memory(number))
        store.delete_memory(1)


def read_all(store: SessionMemoryStore) -> None:
    """Read every memory, and compare it with the stored one."""
    for memory_id, number in MEMORIES.items():
        assert store.get_memory_by_id(memory_id).memory.content == content(number)


def failed(path: Path) -> VectorMemoryError | None:
    """Return the error that using a damaged file ends with, or None if all its answers are right."""
    try:
        use_all(path)
    except VectorMemoryError as error:
        return error
    return None


def failure(path: Path) -> str:
    """Return what a store says about a damaged file, or nothing if all its answers are right."""
    return str(failed(path) or "")


def test_a_damaged_page_is_reported_with_the_advice_to_restore_or_changes_no_text(path: Path) -> None:
    """What only holds vectors keeps no text from being read."""
    said = []
    for page, copy in without_headers(path):
        if page.is_of_vectors and "schema" not in page.table:
            with open_store(copy) as store:
                read_all(store)
        message = failure(copy)
        if page.is_of_vectors:
            assert not message or re.search("restore it from a backup|doctor --fix", message), page
        else:
            said.append(message)
    assert {message for message in said if message} == {"The database is damaged: restore it from a backup."}
    assert said.count("") < len(said) / 4


def test_flipped_bytes_in_a_page_are_reported_or_change_no_text(path: Path) -> None:
    raised = [error for page, copy in with_flipped_bytes(path) if not page.is_of_vectors if (error := failed(copy))]
    # A row whose number was flipped is not noticed by SQLite: it is not found any more.
    damages = [error for error in raised if not isinstance(error, NotFoundError)]
    assert all(re.search("restore it from a backup|doctor --fix", str(error)) for error in damages)
    assert damages


def test_a_search_that_meets_a_vector_without_its_chunk_names_the_doctor(path: Path) -> None:
    with connected(path) as connection:
        connection.pragma("foreign_keys", False)
        connection.execute("delete from memory_chunks where id % 2")
    assert "doctor --fix" in failure(path)


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
@pytest.mark.parametrize("kind", ["report", "knowledge_base"])
def test_a_search_that_meets_words_of_a_lost_memory_names_the_doctor(path: Path, kind: str, mode: SearchMode) -> None:
    with connected(path) as connection:
        connection.pragma("foreign_keys", False)
        connection.execute("delete from session_memories where memory_type = ?", (kind,))
    with open_store(path) as store:
        searches: list[Callable[..., object]] = [store.search_chunks, store.search_sections, store.search_documents]
        for search in searches:
            with pytest.raises(DatabaseError, match="doctor --fix"):
                search("naïve", Scope(MemoryKind(kind)), mode=mode)


def test_a_damaged_schema_is_reported_when_the_file_is_opened(path: Path) -> None:
    with pytest.raises(DatabaseError, match="restore it from a backup"):
        open_store(damaged(path, FilePage("sqlite_schema", 1).header, b"\xff" * 8))


@pytest.mark.parametrize(
    ("old", "new"), [("naïve 7 ".encode(), b"na\xff\xffve 7 "), (b'["# Memory 0"', b'[?# Memory 0"')]
)
def test_a_text_or_json_that_is_none_any_more_is_reported(path: Path, old: bytes, new: bytes) -> None:
    assert "restore it from a backup" in failure(replaced(path, old, new))
