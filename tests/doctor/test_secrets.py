"""Secrets that are stored already are found, and removed in place from everything that is derived from them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from inside import indexer_of, storage_of
from vector_memory.domain import Scope
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.settings import Redact, Settings
from vector_memory.storage.records import Derived
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.secrets import FoundSecrets, Secrets
from vector_memory.writing.holding import Holding
from vector_memory.writing.outbox import Outbox, outbox_of_memory
from waiting import at_once

LEAKED, KIND = "ghp_w7Jq2ZkX9vR4mT1yB8nLc5HdGf3sPaE6uKoI", "GitHub token"
REPORTS = Scope("report", as_of="any")


@pytest.fixture
def store(tmp_path: Path, settings: Settings) -> Iterator[SessionMemoryStore]:
    settings = settings.model_copy(update={"redact": Redact.OFF, "later": False})
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=ToyEngine(settings.embedding_dim)) as store:
        yield store


def ignored(_done: int, _total: int) -> None:
    """Report no progress."""


def fill(store: SessionMemoryStore) -> None:
    store.store_memory("report", "# Door\n\nIt is open.", session_id="s")
    store.store_memory("report", f"# Door\n\nIts key is {LEAKED} now.", session_id="s", supersedes=[1])
    store.store_memory(
        "knowledge_base", f"About {LEAKED}.", title=f"Key {LEAKED}", tags=[LEAKED], metadata={"key": [LEAKED]}
    )
    store.store_memory("report", "In a name.", session_id=f"s-{LEAKED}", task_code=LEAKED, sources=[f"a/{LEAKED}"])
    store.store_memory("report_observation", f"Held: {LEAKED}", session_id="s", parent_report_id=1)
    store.tagged.store("A note.", tags=[f"a {LEAKED}"])
    Holding(storage_of(store)).quarantine([5], "why")
    store.pin(2)


def secrets(store: SessionMemoryStore, tmp_path: Path, outbox: Outbox | None = None) -> Secrets:
    return Secrets(storage_of(store), outbox, tmp_path / "memory")


def remove(store: SessionMemoryStore, tmp_path: Path, outbox: Outbox | None = None) -> FoundSecrets:
    found = secrets(store, tmp_path, outbox).find(ignored)
    secrets(store, tmp_path, outbox).remove(found, indexer_of(store), ignored)
    return found


def all_of(store: SessionMemoryStore) -> str:
    with storage_of(store).read() as reader:
        whole = reader.upkeep.portions.whole(list(range(1, 10)))
        return repr([whole, reader.tags.canonical()])


def test_what_has_secrets_is_found_by_kind_without_changing_anything(store: SessionMemoryStore, tmp_path: Path) -> None:
    fill(store)
    before = all_of(store)
    found = secrets(store, tmp_path).find(ignored)
    assert {number: sum(kinds.values()) for number, kinds in found.items()} == {2: 1, 3: 5, 4: 3, 5: 1, 6: 1}
    assert {kind for kinds in found.values() for kind in kinds} == {KIND}
    assert all_of(store) == before


def test_secrets_are_removed_from_texts_names_tags_and_all_that_is_derived(
    store: SessionMemoryStore, tmp_path: Path
) -> None:
    fill(store)
    assert LEAKED in all_of(store)
    remove(store, tmp_path)
    assert LEAKED not in all_of(store)
    assert not secrets(store, tmp_path).find(ignored)
    memory = store.get_memory_by_id(2).memory
    assert (memory.content, memory.pinned, memory.supersedes) == (
        f"# Door\n\nIts key is [redacted: {KIND}] now.",
        True,
        [1],
    )
    words = store.search_chunks(LEAKED, REPORTS, mode="keyword")
    assert not words.results
    assert [one.memory_id for one in store.search_chunks("redacted key", REPORTS, mode="keyword").results] == [2]
    store.backfill_embeddings()
    nearest = store.search_chunks("Its key is redacted now", REPORTS, mode="vector").results[0]
    assert nearest.memory_id == 2
    assert {one.memory_id for one, _ in Holding(storage_of(store)).held()} == {5}
    store.close()  # reading the file would drop the locks of this process
    for path in tmp_path.glob("memory.db*"):
        assert path.is_dir() or LEAKED.encode() not in path.read_bytes(), path


def test_a_removal_that_was_interrupted_can_be_repeated(store: SessionMemoryStore, tmp_path: Path) -> None:
    fill(store)
    found = secrets(store, tmp_path).find(ignored)

    def interrupt(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        secrets(store, tmp_path).remove(found, indexer_of(store), interrupt)
    assert set(secrets(store, tmp_path).find(ignored)) == {4, 5, 6}
    remove(store, tmp_path)
    assert LEAKED not in all_of(store)


def test_vectors_that_another_process_made_of_the_old_text_are_not_stored(
    store: SessionMemoryStore, tmp_path: Path
) -> None:
    number, text = 1, f"It is {LEAKED}."
    store.store_memory("system_memory", text, session_id="s")
    indexer = indexer_of(store)
    with storage_of(store).read() as reader:
        stale = reader.memories.get(number)
    embedded = indexer.embed(indexer.unit_texts(stale.memory_type, None, text, []))
    derived = Derived(chunks=[], words=indexer.derived(stale.memory_type, None, text).words, embedded=embedded)
    remove(store, tmp_path)
    with storage_of(store).write() as writer:
        assert not writer.add_vectors(stale, derived, after=0, is_last=True)
        writer.replace_vectors(stale, embedded)
    assert store.get_memory_stats().without_vectors == 1


def test_a_change_in_the_meantime_is_kept(
    store: SessionMemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.store_memory("report", f"It is {LEAKED}.", session_id="s")
    indexer, derived = indexer_of(store), indexer_of(store).derived
    amended = []

    def amend_first(*facts: object, **others: object) -> Derived:
        if not amended:
            amended.append(store.amend_memory(1, description="Amended."))
        return derived(*facts, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(indexer, "derived", amend_first)
    remove(store, tmp_path)
    memory = store.get_memory_by_id(1).memory
    assert (memory.description, memory.content) == ("Amended.", f"It is [redacted: {KIND}].")


def test_memory_files_and_waiting_texts_lose_their_secrets_and_keep_their_permissions(
    store: SessionMemoryStore, tmp_path: Path
) -> None:
    file = tmp_path / "memory" / "topics" / "a.md"
    file.parent.mkdir(parents=True)
    file.write_text(f"# A\n\nIt is {LEAKED}.\n")
    file.chmod(0o644)
    (tmp_path / "memory" / "b.md").write_bytes(b"\xff" + LEAKED.encode())
    outbox = outbox_of_memory(tmp_path / "hooks.db")
    assert outbox is not None
    path = outbox.add({"memory_type": "input_prompt", "content": f"Use {LEAKED}"})
    found = remove(store, tmp_path, outbox)
    assert set(found) == {file, path}
    assert file.read_text() == f"# A\n\nIt is [redacted: {KIND}].\n"
    assert file.stat().st_mode & 0o777 == 0o644
    assert json.loads(path.read_text())["content"] == f"Use [redacted: {KIND}]"
    assert [one.body["memory_type"] for one in outbox.waiting()] == ["input_prompt"]
    assert [one.name for one in file.parent.iterdir()] == ["a.md"]


def test_what_is_stored_and_embedded_meanwhile_leaves_no_secret_in_vectors_or_words(
    store: SessionMemoryStore, tmp_path: Path
) -> None:
    """The vectors are those of the texts as they are now."""
    store.defer_vectors()

    def serve() -> None:
        for number in range(40):
            store.store_memory("working_memory", f"Step {number} used {LEAKED}.", session_id="s")

    def clean() -> None:
        for _ in range(8):
            remove(store, tmp_path)

    at_once(serve, clean)
    remove(store, tmp_path)
    store.backfill_embeddings()
    assert LEAKED not in all_of(store)
    with storage_of(store).read() as reader:
        stored = reader.upkeep.portions.whole(reader.memories.ids(Scope("working_memory")))
    indexer = indexer_of(store)
    assert len(stored) == 40
    for one in stored:
        units = indexer.unit_texts(
            one.memory.memory_type, None, one.memory.content, [part.chunk for part in one.chunks]
        )
        assert (indexer.embed(units).vectors == [passage.vector for passage in one.passages or ()]).all()
