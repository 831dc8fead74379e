"""Any JSON object as metadata is stored and returned unchanged, or refused with what to send instead."""

import io
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import example, given, settings

from any_json import json_objects
from engines import execute
from faults.effort import effort
from lattice import DIMENSIONS, LatticeEmbedder
from vector_memory.domain import TRAITS, MemoryKind, Page, Scope
from vector_memory.domain.validation import LARGEST
from vector_memory.errors import ValidationError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

T = TypeVar("T")
SMALL = Settings(embedding_model="toy", embedding_dim=DIMENSIONS)
NUMBERS = itertools.count()
CASES: list[dict[str, Any]] = [
    {"category": [1], "parent_report_id": [1]},
    {"category": 10**30, "parent_report_id": 10**30},
    {"category": {"": None}, "parent_report_id": {"a": 1}},
    {"category": True, "parent_report_id": False, "title": False},
]

a_few = settings(max_examples=effort(quick=10, long=200))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    path = tmp_path_factory.mktemp("metadata") / "memory.db"
    with SessionMemoryStore(path, SMALL, embedder=LatticeEmbedder()) as opened:
        yield opened
        opened.tagged.stats()
        opened.export_memories(io.BytesIO())  # of all those metadata


def arguments(kind: MemoryKind) -> dict[str, Any]:
    """Return what a memory of a kind needs, with a content of its own."""
    place = {"session_id": "s"} if TRAITS[kind].session_scoped else {"title": "T"}
    return {"content": f"Text {next(NUMBERS)}.", "agent_id": "a"} | place


def tried(do: Callable[[], T]) -> tuple[T | None, str]:
    """Return the result, or None and the error message."""
    try:
        return do(), ""
    except ValidationError as error:
        return None, str(error)


def with_cases(test: Any) -> Any:
    """Add the cases that once failed."""
    for case in CASES:
        test = example(case)(test)
    return test


@pytest.mark.parametrize("kind", [kind for kind in MemoryKind if kind is not MemoryKind.TAGGED])
@a_few
@with_cases
@given(json_objects)
def test_metadata_are_returned_unchanged_or_refused(
    store: SessionMemoryStore, kind: MemoryKind, metadata: dict[str, Any]
) -> None:
    facts = {"title": "T", "category": "general"} if kind is MemoryKind.KNOWLEDGE_BASE else {}
    sent = arguments(kind)
    receipt, problem = tried(lambda: store.store_memory(kind, metadata=metadata, **sent))
    if receipt is None:
        assert "metadata" in problem
        return
    assert store.get_memory_by_id(receipt.memory_id or 0).memory.metadata == metadata | facts


@pytest.mark.parametrize("kind", MemoryKind)
@a_few
@with_cases
@given(json_objects)
def test_an_import_stores_metadata_as_they_are_or_refuses_them(
    store: SessionMemoryStore, kind: MemoryKind, metadata: dict[str, Any]
) -> None:
    header = {"format": "vector-memory export", "version": 1, "memories": 1}
    memory = {"memory_type": kind, "metadata": metadata, **arguments(kind)}
    lines = io.BytesIO(f"{json.dumps(header)}\n{json.dumps(memory)}\n".encode())
    added, problem = tried(lambda: store.import_memories(lines))
    if added is None:
        assert problem.startswith("Line 2: ")
        return
    (found,) = store.search_scoped(Scope(kind=kind), Page(limit=1)).results
    assert found.content == memory["content"]
    report = metadata.get("parent_report_id")
    # What may be an id means nothing in another file.
    is_orphan = kind is MemoryKind.REPORT_OBSERVATION and type(report) is int and 0 <= report < LARGEST
    expected = {name: value for name, value in metadata.items() if not (is_orphan and name == "parent_report_id")}
    assert found.metadata == expected
    store.tagged.list_recent()


@pytest.mark.parametrize("metadata", [{1: 2}, {"a": (1,)}, {"a": {1}}, {"a": b"x"}], ids=str)
def test_values_that_json_would_change_are_refused(store: SessionMemoryStore, metadata: dict[Any, Any]) -> None:
    with pytest.raises(ValidationError, match="only JSON values"):
        store.store_memory("report", metadata=metadata, **arguments(MemoryKind.REPORT))


def test_notes_with_an_unknown_category_are_shown_as_other(tmp_path: Path) -> None:
    """Earlier releases imported them."""
    with SessionMemoryStore(tmp_path / "memory.db", SMALL, embedder=LatticeEmbedder()) as store:
        note = store.tagged.store("A note.", "security").memory_id or 0
        for number, odd in enumerate(["[1]", "5", "true", '"x"', "null", '{"a": 1}']):
            store.tagged.store(f"Odd {number}.")
            execute(
                store,
                "update session_memories set metadata = ? where id = ?",
                f'{{"category":{odd}}}',
                note + 1 + number,
            )
        assert store.tagged.stats().categories == {"other": 6, "security": 1}
        assert [found.category for found in store.tagged.list_recent().results] == ["other"] * 6 + ["security"]
