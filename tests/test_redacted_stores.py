"""Every store is redacted if the settings say so."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from vector_memory.domain import MemoryKind, NewMemory, Page, Scope
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DuplicateMemoryError, ValidationError
from vector_memory.files import FileMemory
from vector_memory.settings import Redact, Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.sync import Origin
from waiting import eventually

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


@pytest.mark.parametrize(
    ("held", "kept"),
    [
        ({"password": "hunter2x9"}, {"password": "[redacted: password]"}),
        ({"db": [{"DB_PASSWORD": 'hunter"2\\x9'}]}, {"db": [{"DB_PASSWORD": "[redacted: password]"}]}),
        ({"passwords": ["hunter2x9", "short"]}, {"passwords": ["[redacted: password]", "short"]}),
        ({"passphrase": "correct horse battery"}, {"passphrase": "[redacted: password]"}),
        ({"password": 20263107}, {"password": "[redacted: password]"}),
        ({"apiKey": "0a1b2c3d4e5f6a7b8c9d"}, {"apiKey": "[redacted: secret]"}),
        ({"auth": "YW5uOmh1bnRlcjI0Mg=="}, {"auth": "[redacted: password]"}),
        *((same, same) for same in [{"max_tokens": 4096}, {"passed": 12, "password_length": 12345678}, {"key": "a b"}]),
    ],
)
def test_a_key_of_metadata_says_what_its_value_is(
    store: SessionMemoryStore, held: dict[str, object], kept: dict[str, object]
) -> None:
    number = store.store_memory("report", "Open.", session_id="s", metadata=held).memory_id
    assert store.get_memory_by_id(number).memory.metadata == kept


SECRET = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3"
HIDDEN = "hunter2"
BOTH = f"The token {SECRET} and <private>{HIDDEN}\n{HIDDEN}</private> open it."
NAMES = ("session_id", "agent_id", "task_code")


def require_clean(folder: Path) -> None:
    """Fail if a file below a folder has the secret or the private part, in upper or lower case."""
    for file in folder.rglob("*"):
        if file.is_file():
            data = file.read_bytes().lower()
            assert SECRET.lower().encode() not in data, file.name
            assert HIDDEN.encode() not in data, file.name


@pytest.mark.parametrize("kind", [kind for kind in MemoryKind if kind is not MemoryKind.TAGGED])
def test_no_file_has_a_secret_that_was_in_a_text(store: SessionMemoryStore, tmp_path: Path, kind: MemoryKind) -> None:
    given = {"tags": [SECRET, "door"], "metadata": {SECRET: {"deep": [SECRET]}}, "description": BOTH, "title": BOTH}
    place = {"category": SECRET} if kind is MemoryKind.KNOWLEDGE_BASE else {"session_id": "s"}
    number = store.store_memory(kind, BOTH, **given, **place).memory_id
    store.amend_memory(number, title=BOTH, description=BOTH, tags=[SECRET])
    store.tag_memory(number, add=[f"x {SECRET}"], remove=[SECRET])
    assert store.get_memory_by_id(number).memory.tags == ["x [redacted: GitHub token]"]
    require_clean(tmp_path)


@pytest.mark.parametrize("name", ["tags", "category"])
def test_a_filter_as_it_was_sent_finds_what_was_stored_with_it(store: SessionMemoryStore, name: str) -> None:
    value = [SECRET] if name == "tags" else SECRET
    number = store.store_memory("knowledge_base", "The door is green.", title="Door", **{name: value}).memory_id
    scope = Scope(MemoryKind.KNOWLEDGE_BASE, **{name: value})
    for found in (
        store.search_chunks("green door", scope),
        store.search_sections("green door", scope),
        store.search_documents("green door", scope),
        store.search_scoped(scope),
        store.across.several("green door", [scope], Page(), "chunk"),
    ):
        assert [one.memory_id for one in found.results] == [number]
    assert [entry.memory_id for entry in store.get_timeline(scope).entries] == [number]


def test_no_document_is_written_to_a_path_with_a_secret(store: SessionMemoryStore, tmp_path: Path) -> None:
    number = store.store_memory("report", "Open.", session_id="s").memory_id
    with pytest.raises(ValidationError, match="output_path"):
        store.write_document_to_file(number, f"{SECRET}/door.md")
    require_clean(tmp_path)


def test_no_tag_of_a_note_has_a_secret(store: SessionMemoryStore, tmp_path: Path) -> None:
    stored = store.tagged.store(BOTH, category=SECRET, tags=[SECRET, "door"])
    assert SECRET not in stored.model_dump_json()
    assert store.tagged.get(stored.memory_id).memory.tags == ["door"]
    store.tagged.search("door", tags=[SECRET])
    require_clean(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_with_a_secret_is_refused(store: SessionMemoryStore, tmp_path: Path, name: str) -> None:
    for value in (SECRET, f"<private>{HIDDEN}</private>"):
        with pytest.raises(ValidationError, match=name):
            store.store_memory("report", "Open.", **{"session_id": "s", name: value})
    require_clean(tmp_path)


def test_keys_that_are_equal_without_secrets_keep_their_values(store: SessionMemoryStore) -> None:
    held = {f"<private>{number}</private>": number for number in range(3)}
    number = store.store_memory("report", "Open.", session_id="s", metadata=held).memory_id
    assert sorted(store.get_memory_by_id(number).memory.metadata.values()) == [0, 1, 2]


def test_an_import_stores_no_secrets_and_still_links_and_knows_what_it_has_stored(
    store: SessionMemoryStore, tmp_path: Path
) -> None:
    export = io.BytesIO()
    with SessionMemoryStore(tmp_path.parent / f"{tmp_path.name}.db", Settings(), embedder=ToyEngine()) as open_store:
        first = open_store.store_memory("report", f"# {SECRET}\n\n{BOTH}", session_id="s").memory_id
        open_store.store_memory("report_observation", "So it is.", session_id="s", parent_report_id=first)
        open_store.store_memory("report", f"# Later\n\n{BOTH}", session_id="s", supersedes=[first])
        open_store.export_memories(export, with_vectors=True)
    for added in (3, 0):
        export.seek(0)
        done = store.import_memories(export)
        assert (done.added, done.orphaned) == (added, 0)
    assert len(store.get_timeline(Scope(session_id="s")).entries) == 2
    require_clean(tmp_path)


def test_memory_files_that_are_written_and_their_index_have_no_secrets(tmp_path: Path) -> None:
    folder, index = tmp_path / "memory", tmp_path / "index" / "index.sqlite"
    folder.mkdir()
    index.parent.mkdir()
    with FileMemory(folder, Settings(redact=Redact.ALL, embedding_model="toy"), index_file=index) as files:
        files.write(f"# Heading\n\n{BOTH}", topic=SECRET)
        require_clean(folder)
        (folder / "own.md").write_text(f"---\ntitle: {SECRET}\n---\n\n{BOTH}\n\nThe last door is green.\n")
        (folder / f"{SECRET}.md").write_text("The name is secret.\n")
        files.start_background_work()
        eventually(lambda: files.search("last door green").results)
        found = files.search("last door green").results[0]
        assert found.path == "memory/own.md"
        assert found.end_line == 8
        eventually(lambda: not files.status().indexing)
        require_clean(index.parent)


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


@pytest.mark.parametrize("redact", [Redact.CAPTURED, Redact.OFF])
def test_a_receipt_says_that_the_text_was_stored_with_what_looks_like_a_secret(tmp_path: Path, redact: Redact) -> None:
    """Which kind, not which; of what hooks store nothing is said, and nothing where secrets are removed."""
    with SessionMemoryStore(tmp_path / "memory.db", Settings(redact=redact), embedder=ToyEngine()) as store:
        receipts = [store.store_memory("report", BOTH, session_id="s"), store.tagged.store(BOTH)]
        for receipt in receipts:
            assert "what looks like a secret (GitHub token) and was stored as it is" in (receipt.message or "")
            assert SECRET not in (receipt.message or "")
        assert "secret" not in (store.store_memory("report", "Open.", session_id="s").message or "")


def test_a_receipt_says_nothing_of_secrets_that_were_removed(store: SessionMemoryStore) -> None:
    for receipt in (store.store_memory("report", BOTH, session_id="s"), store.tagged.store(BOTH)):
        assert "secret" not in (receipt.message or "")
