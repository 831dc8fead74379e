"""Every store is redacted if the settings say so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from vector_memory.domain import MemoryKind, NewMemory, Scope
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DuplicateMemoryError
from vector_memory.sessions.sync import Origin
from vector_memory.settings import Redact, Settings
from vector_memory.store import SessionMemoryStore

TEXT = "# Access\n\nThe server takes <private>hunter2</private>, and nothing else."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(tmp_path / "memory.db", Settings(redact=Redact.ALL), embedder=ToyEngine()) as store:
        yield store


def test_a_receipt_counts_what_was_removed(store: SessionMemoryStore) -> None:
    assert store.store_memory("report", TEXT, session_id="s", description="<private>hunter2</private>").redacted == 2
    assert store.tagged.store(TEXT).redacted == 1
    assert store.tagged.store("Nothing to hide.").redacted == 0


def test_tags_and_metadata_are_redacted_too(store: SessionMemoryStore) -> None:
    held = {"note": ["<private>hunter2</private>", {"deep": "<private>hunter2</private>", "size": 3}]}
    title = "Access <private>hunter2</private>"
    receipt = store.store_memory(
        "knowledge_base", "Open.", title=title, tags=["<private>hunter2</private>", "door"], metadata=held
    )
    memory = store.get_memory_by_id(receipt.memory_id).memory
    assert "hunter2" not in repr(memory)
    assert "door" in memory.tags
    assert memory.metadata["note"][1]["size"] == 3


def test_a_text_without_secrets_keeps_its_title_and_has_a_receipt_without_a_count(store: SessionMemoryStore) -> None:
    receipt = store.store_memory("report", "# Access\n\nOpen.", session_id="s")
    assert "redacted" not in receipt.model_dump()
    assert store.get_memory_by_id(receipt.memory_id).memory.title == "Access"


def test_the_same_text_again_is_a_duplicate(store: SessionMemoryStore) -> None:
    store.store_memory("report", TEXT, session_id="s")
    with pytest.raises(DuplicateMemoryError):
        store.store_memory("report", TEXT, session_id="s")


def test_a_file_is_recognized_by_its_redacted_text(store: SessionMemoryStore) -> None:
    file = Origin("/docs", "a.md")
    new = NewMemory.of(MemoryKind.REPORT, TEXT, session_id="s", metadata=file._asdict())
    scope = Scope(MemoryKind.REPORT, session_id="s")
    assert store.sync(scope).put(file, lambda: new).state == "stored"
    again = store.sync(scope)
    assert not again.is_outdated(file, TEXT)
    again.expect({file: again.hash_of(TEXT)}, ())
    assert again.put(file, lambda: new).state == "unchanged"
    assert again.is_outdated(file, f"{TEXT} More.")
