"""Each result names the newer memories on its subject: found when vectors are made, and kept as rows."""

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest

from inside import compare_all, compare_likeliest, storage_of
from vector_memory.answers.models import Beginning, FoundBeginning, FoundChunk, FoundMemory, FoundSection
from vector_memory.answers.tagged import FoundTagged
from vector_memory.domain import Page, Scope
from vector_memory.embedding.description import Calibration
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from waiting import eventually

QUERY = "nightly export"
OLD = "The nightly export writes CSV files to the share of the finance team."
NEW = "The nightly export writes Parquet files to the bucket of the finance team."
OTHERS = ("A cooling fan broke in the second rack.", "Passwords have twelve letters or more.", "Lunch is at noon.")
IN_SESSION = Scope("report", session_id="s")
SETTINGS = Settings(embedding_model="toy")


class Telling(ToyEngine):
    """A toy whose cosines tell what is on one subject."""

    def calibration_for(self, question: str) -> Calibration:  # noqa: ARG002 - the same for all
        """Return the rule."""
        return Calibration(strong=0.42, words=0.84, same_subject=0.5)


def opened(path: Path, settings: Settings = SETTINGS) -> SessionMemoryStore:
    return SessionMemoryStore(path, settings, embedder=Telling())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    with opened(tmp_path / "memory.db") as found:
        yield found


def put(store: SessionMemoryStore, text: str, session_id: str = "s", kind: str = "report", **fields: str) -> int:
    session = {} if kind == "knowledge_base" else {"session_id": session_id}
    title = {"title": "T"} if kind == "knowledge_base" else {}
    return store.store_memory(kind, text, agent_id=fields.pop("agent_id", "a"), **session, **title, **fields).memory_id


def fill(store: SessionMemoryStore, kind: str = "report") -> tuple[int, int]:
    """Store a memory, others, and a newer one on its subject; return their ids."""
    older = put(store, OLD, kind=kind)
    for text in OTHERS:
        put(store, text, kind=kind)
    return older, put(store, NEW, kind=kind, agent_id="b")


Hit = FoundChunk | FoundSection | FoundMemory | FoundBeginning | FoundTagged | Beginning


def named(hits: list[Hit]) -> dict[int, list[int]]:
    """Return which newer memories hits name, by the ids of their memories, if any."""
    ids = {getattr(hit, "memory_id", None) or hit["id"]: [one.id for one in hit.later] for hit in hits}
    return {number: later for number, later in ids.items() if later}


def later(store: SessionMemoryStore, scope: Scope = IN_SESSION) -> dict[int, list[int]]:
    return named(list(store.search_chunks(QUERY, scope, Page(copies=True)).results))


GRAINS: dict[str, tuple[str, Callable[[SessionMemoryStore], list[Hit]]]] = {
    "chunks": ("report", lambda store: [*store.search_chunks(QUERY, IN_SESSION).results]),
    "sections": ("report", lambda store: [*store.search_sections(QUERY, IN_SESSION).results]),
    "documents": ("report", lambda store: [*store.search_documents(QUERY, IN_SESSION).results]),
    "newest": ("report", lambda store: [*store.search_documents(None, IN_SESSION).results]),
    "questions": ("report", lambda store: [*store.search_chunks([QUERY, "fan"], IN_SESSION).results]),
    "by words": ("report", lambda store: [*store.search_chunks(QUERY, IN_SESSION, mode="keyword").results]),
    "knowledge": ("knowledge_base", lambda store: [*store.search_chunks(QUERY, Scope("knowledge_base")).results]),
    "memories": ("system_memory", lambda store: [*store.search_memories(QUERY, Scope("system_memory")).results]),
    "changes": ("report", lambda store: [*store.search_changes(Scope(session_id="s")).results]),
    "best changes": ("report", lambda store: [*store.search_changes(Scope(session_id="s"), query=QUERY).results]),
    "context": ("report", lambda store: [*store.load_session_context_for_task("s").recent_reports]),
}


@pytest.mark.parametrize("grain", GRAINS)
def test_a_result_of_any_grain_names_the_newer_memory_on_its_subject(store: SessionMemoryStore, grain: str) -> None:
    kind, search = GRAINS[grain]
    older, newer = fill(store, kind)
    assert named(search(store)) == {older: [newer]}


def test_a_tagged_note_names_the_newer_one_on_its_subject(store: SessionMemoryStore) -> None:
    older, newer = (store.tagged.store(text, category="other", tags=[]).memory_id for text in (OLD, NEW))
    assert named([*store.tagged.search(QUERY).results]) == {older: [newer]}


def test_a_newer_memory_is_named_with_its_beginning_unless_it_is_a_result_itself(store: SessionMemoryStore) -> None:
    _, newer = fill(store)
    [alone] = store.search_chunks(QUERY, IN_SESSION, Page(limit=1)).results[0].later
    assert (alone.id, alone.agent_id, alone.beginning) == (newer, "b", NEW)
    assert [one.beginning for hit in store.search_chunks(QUERY, IN_SESSION).results for one in hit.later] == [None]


@pytest.mark.parametrize("compare", [compare_all, compare_likeliest])
@pytest.mark.parametrize(("looked_back", "is_named"), [(3, True), (2, False)])
def test_of_a_large_memory_only_the_newest_passages_are_compared_with_a_new_one(
    store: SessionMemoryStore,
    looked_back: int,
    is_named: bool,
    compare: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compare(monkeypatch)
    monkeypatch.setattr("vector_memory.writing.links.LOOKED_BACK", looked_back)
    older, newer = fill(store)
    assert later(store) == ({older: [newer]} if is_named else {})


def test_three_newer_memories_are_named_the_newest_first_and_the_rest_counted(store: SessionMemoryStore) -> None:
    versions = [put(store, f"The nightly export writes files to bucket number {number}.") for number in range(6)]
    hits = {hit.memory_id: hit for hit in store.search_chunks(QUERY, IN_SESSION).results}
    assert [one.id for one in hits[versions[0]].later] == versions[:-4:-1]
    assert [hits[number].later_more for number in versions] == [2, 1, 0, 0, 0, 0]


def test_a_search_of_a_session_names_memories_of_the_session_and_another_one_of_all(store: SessionMemoryStore) -> None:
    older, other = put(store, OLD), put(store, NEW, "another")
    assert later(store) == {}
    assert later(store, Scope("report")) == {older: [other]}
    newest = put(store, f"{NEW} Really.")
    assert later(store) == {older: [newest]}


def test_filters_do_not_apply_to_what_is_newer(store: SessionMemoryStore) -> None:
    older, newer = fill(store)
    assert later(store, Scope("report", session_id="s", agent_id="a")) == {older: [newer]}


def test_a_limited_token_is_told_of_what_it_may_see_only(store: SessionMemoryStore) -> None:
    older, _, seen = put(store, OLD), put(store, NEW, "hidden"), put(store, f"{NEW} Really.", "seen")
    view = store.limited_to(["s", "seen"])
    assert later(view, Scope("report")) == {older: [seen]}
    assert later(view) == {}


def test_what_is_deleted_is_not_named(store: SessionMemoryStore) -> None:
    older, newer = fill(store)
    store.delete_memory(newer)
    assert later(store) == {}
    again = put(store, NEW)
    store.delete_memory(older)
    assert later(store) == {}
    assert put(store, f"{NEW} Really.") in later(store)[again]


def test_what_has_its_vectors_computed_in_the_background_is_linked(tmp_path: Path) -> None:
    with opened(tmp_path / "memory.db") as store:
        store.defer_vectors()
        older, newer = fill(store)
        eventually(lambda: later(store) == {older: [newer]})


def test_the_order_of_storing_decides_unless_a_memory_is_dated(store: SessionMemoryStore) -> None:
    newer, older = put(store, NEW), put(store, OLD, created_at="2020-01-01T00:00:00Z")
    assert later(store) == {older: [newer]}


@pytest.mark.parametrize("with_vectors", [True, False])
def test_an_import_links_what_it_adds(store: SessionMemoryStore, tmp_path: Path, with_vectors: bool) -> None:
    older, newer = fill(store)
    lines = BytesIO()
    store.export_memories(lines, with_vectors=with_vectors)
    lines.seek(0)
    with opened(tmp_path / "other.db") as other:
        other.import_memories(lines)
        other.backfill_embeddings()
        assert later(other) == {older: [newer]}


def test_links_are_found_again_with_the_vectors_of_another_model(tmp_path: Path) -> None:
    with opened(tmp_path / "memory.db") as store:
        older, newer = fill(store)
    with SessionMemoryStore(tmp_path / "memory.db", SETTINGS, embedder=ToyEngine(16)) as store:
        store.reembed()
        assert later(store) == {}
    with opened(tmp_path / "memory.db") as store:
        store.reembed()
        assert later(store)[older] == [newer]


def test_nothing_is_named_if_the_settings_say_so(tmp_path: Path) -> None:
    with opened(tmp_path / "memory.db") as store:
        older, newer = fill(store)
    with opened(tmp_path / "memory.db", Settings(embedding_model="toy", later=False)) as store:
        assert later(store) == {}
        put(store, f"{NEW} Really.")
    with opened(tmp_path / "memory.db") as store:
        assert later(store) == {older: [newer]}


def test_a_model_that_cannot_tell_links_nothing(tmp_path: Path) -> None:
    with SessionMemoryStore(tmp_path / "memory.db", SETTINGS, embedder=ToyEngine()) as store:
        fill(store)
        assert later(store) == {}


def test_reports_on_the_progress_of_a_task_are_not_taken_for_corrections(store: SessionMemoryStore) -> None:
    for step in range(20):
        put(store, f"The nightly export was migrated to step {step} of the new pipeline.")
    with storage_of(store).read() as reader:
        assert reader.links.after((0, 0), 100) == []
