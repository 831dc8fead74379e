"""A stored memory exists once, with all derived from it; one that others have replaced is kept and left out."""

import hashlib
import io
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import counts, writer_of
from inside import database_of, storage_of
from lattice import LatticeEmbedder
from memory_files import locked
from vector_memory.answers.models import Result
from vector_memory.domain import Fingerprint, MemoryKind, Page, Scope
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DuplicateMemoryError, EmbeddingUnavailableError, NotFoundError, ValidationError
from vector_memory.search.explain import ExplainRequest
from vector_memory.settings import Settings
from vector_memory.storage import postings
from vector_memory.storage.sqlite.database import Connection, Database
from vector_memory.store import SessionMemoryStore

CSV, PARQUET = "# Export\n\nThe export writes CSV.", "# Export\n\nThe export writes Parquet."
QUERY = "what does the export write"
PAST, BETWEEN, LATER = "2026-01-01T08:00Z", "2026-01-02", "2026-01-03T08:00Z"

Look = Callable[[SessionMemoryStore, str | None], Result]


def reports(as_of: str | None) -> Scope:
    return Scope(MemoryKind.REPORT, session_id="s", as_of=as_of)


LOOKS: dict[str, Look] = {
    "chunks": lambda store, as_of: store.search_chunks(QUERY, reports(as_of)),
    "chunks of all sessions": lambda store, as_of: store.search_chunks(QUERY, Scope(MemoryKind.REPORT, as_of=as_of)),
    "chunks by words": lambda store, as_of: store.search_chunks("writes", reports(as_of), mode="keyword"),
    "several questions": lambda store, as_of: store.search_chunks([QUERY, "CSV"], reports(as_of)),
    "sections": lambda store, as_of: store.search_sections(QUERY, reports(as_of)),
    "documents": lambda store, as_of: store.search_documents(QUERY, reports(as_of)),
    "the newest documents": lambda store, as_of: store.search_documents(None, reports(as_of)),
    "listed": lambda store, as_of: store.search_scoped(reports(as_of)),
    "changes": lambda store, as_of: store.search_changes(Scope(session_id="s", as_of=as_of)),
    "the best changes": lambda store, as_of: store.search_changes(Scope(session_id="s", as_of=as_of), query=QUERY),
    "context": lambda store, as_of: store.load_session_context_for_task("s", as_of=as_of),
    "timeline": lambda store, as_of: store.get_timeline(Scope(session_id="s", as_of=as_of)),
}


def found_in(answer: Any) -> dict[int, list[int]]:
    """Return the memories of an answer, and what it says has replaced each."""
    each = next(getattr(answer, name) for name in ("results", "entries", "recent_reports") if hasattr(answer, name))
    return {getattr(one, "memory_id", None) or one.id: one.superseded_by for one in each}


@pytest.fixture
def pair(store: SessionMemoryStore) -> tuple[int, int]:
    """A report, and a later one that supersedes it."""
    old = store.store_memory("report", CSV, session_id="s", created_at=PAST).memory_id
    new = store.store_memory("report", PARQUET, session_id="s", created_at=LATER, supersedes=[old])
    assert (new.message or "").endswith(f"It supersedes {old}.")
    return old, new.memory_id


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_superseded_memory_is_left_out_counted_and_found_as_of_then_or_any_time(
    store: SessionMemoryStore, pair: tuple[int, int], look: Look
) -> None:
    old, new = pair
    now = look(store, None)
    assert found_in(now) == {new: []}
    assert now.superseded == 1
    anything = look(store, "any")
    assert found_in(anything) == {old: [new], new: []}
    assert "superseded" not in anything.model_dump()
    assert found_in(look(store, BETWEEN)) == {old: [new]}
    assert found_in(look(store, "2025")) == {}
    assert found_in(look(store, "2026-01-03")) == {new: []}
    assert found_in(look(store, "2026-01-03T07:59:59Z")) == {old: [new]}
    store.delete_memory(new)
    assert found_in(look(store, None)) == {old: []}
    assert found_in(look(store, BETWEEN)) == {old: []}


@pytest.mark.usefixtures("pair")
def test_a_search_says_what_it_left_out_and_as_of_is_among_its_filters(store: SessionMemoryStore) -> None:
    assert "1 superseded memory left out." in (store.search_chunks(QUERY, reports(None)).message or "")
    assert store.search_documents(QUERY, reports("any")).filters["as_of"] == "any"
    assert store.search_documents(QUERY, reports(BETWEEN)).filters["as_of"] == "2026-01-02T23:59:59.999999+00:00"


def test_reading_by_id_says_what_replaced_a_memory_and_what_it_replaced(
    store: SessionMemoryStore, pair: tuple[int, int]
) -> None:
    old, new = pair
    chunk = store.search_chunks(QUERY, reports("any")).results[-1]
    for read in (
        lambda number: store.get_memory_by_id(number).memory,
        store.reconstruct_document,
        lambda number: store.expand_chunk_context(
            next(one.chunk_id for one in store.search_chunks(QUERY, reports("any")).results if one.memory_id == number)
        ),
    ):
        assert (read(old).superseded_by, read(old).supersedes) == ([new], [])
        assert (read(new).superseded_by, read(new).supersedes) == ([], [old])
    assert chunk.memory_id in pair
    assert (
        not {"superseded_by", "supersedes"}
        & store.reconstruct_document(store.store_memory("report", "Alone.", session_id="s").memory_id)
        .model_dump()
        .keys()
    )


def test_an_agent_that_catches_up_is_told_what_a_new_memory_replaced(
    store: SessionMemoryStore, pair: tuple[int, int]
) -> None:
    old, new = pair
    (told,) = store.search_changes(Scope(session_id="s"), since=old).results
    assert (told.id, told.supersedes) == (new, [old])


@pytest.mark.parametrize("kind", [kind for kind in MemoryKind if kind is not MemoryKind.TAGGED])
def test_every_kind_of_memory_can_supersede_any(store: SessionMemoryStore, kind: MemoryKind) -> None:
    place = {"title": "T"} if kind is MemoryKind.KNOWLEDGE_BASE else {"session_id": "s"}
    note = store.tagged.store("The port is 80.").memory_id
    newer = store.store_memory(kind, "The port is 81.", supersedes=[note, str(note)], **place).memory_id
    assert store.tagged.list_recent().results == []
    assert store.tagged.list_recent().superseded == store.tagged.search("port").superseded == 1
    found = store.tagged.search("port", as_of="any").results
    assert [(one.id, one.superseded_by) for one in found] == [(note, [newer])]
    latest = store.tagged.store("The port is 82.", supersedes=[newer]).memory_id
    assert store.get_memory_by_id(newer).memory.superseded_by == [latest]
    assert store.tagged.get(latest).memory.supersedes == [newer]


@pytest.mark.parametrize("missing", [99, 10**15])
def test_what_does_not_exist_cannot_be_superseded_and_nothing_is_stored(
    store: SessionMemoryStore, missing: int
) -> None:
    for keep in (
        partial(store.store_memory, "report", "New.", session_id="s", supersedes=[missing]),
        partial(store.tagged.store, "New.", supersedes=[missing]),
    ):
        with pytest.raises(NotFoundError, match=f"There is no memory {missing} to supersede"):
            keep()
    with pytest.raises(ValidationError, match="supersedes must be a list"):
        store.store_memory("report", "New.", session_id="s", supersedes=7)  # type: ignore[arg-type]
    assert store.count_memories() == 0


def test_a_memory_supersedes_only_what_was_stored_before_it(store: SessionMemoryStore, pair: tuple[int, int]) -> None:
    old, new = pair
    for number in (old, new):
        with pytest.raises(
            ValidationError, match=f"Memory {new} was not stored before memory {number}, and only later"
        ):
            store.supersede(number, new)
    with pytest.raises(NotFoundError, match="There is no memory 99"):
        store.supersede(99, old)


def test_a_stored_memory_can_supersede_others_and_release_them(store: SessionMemoryStore) -> None:
    numbers = [store.store_memory("report", f"Text {number}.", session_id="s").memory_id for number in range(3)]
    first, second, third = numbers
    assert store.supersede(third, first, str(second)).supersedes == [first, second]
    assert found_in(store.get_timeline(Scope(session_id="s"))) == {third: []}
    released = store.release(third, first)
    assert (released.supersedes, released.message) == ([second], f"Memory {third} no longer supersedes {first}.")
    assert found_in(store.get_timeline(Scope(session_id="s"))) == {first: [], third: []}
    with pytest.raises(ValidationError, match=f"Memory {third} does not supersede memory {first}"):
        store.release(third, first)
    with pytest.raises(ValidationError, match="at least one"):
        store.supersede(third)


def test_a_memory_is_released_past_one_that_has_expired_and_is_not_erased(store: SessionMemoryStore) -> None:
    ids: list[int] = []
    for text in ("one", "two", "three"):
        ids.append(store.store_memory("report", text, session_id="s", agent_id="a", supersedes=ids[-1:]).memory_id)
    first, second, third = ids
    with storage_of(store).write() as writer:
        writer.expire(second, "2020-01-01T00:00:00.000000+00:00")
    assert store.get_memory_by_id(first).memory.superseded_by == [third]
    assert store.release(third, first).supersedes == []
    assert store.get_memory_by_id(first).memory.superseded_by == []
    assert set(found_in(store.search_chunks("one", reports(None)))) == {first, third}


def test_a_text_may_come_back_after_it_was_superseded(store: SessionMemoryStore, pair: tuple[int, int]) -> None:
    old, new = pair
    again = store.store_memory("report", CSV, session_id="s", supersedes=[new]).memory_id
    assert found_in(store.get_timeline(Scope(session_id="s"))) == {again: []}
    with pytest.raises(DuplicateMemoryError):
        store.store_memory("report", CSV, session_id="s", supersedes=[new])
    store.delete_memory(new)
    assert store.get_memory_by_id(old).memory.superseded_by == [again]


def test_the_same_text_can_replace_itself(store: SessionMemoryStore, pair: tuple[int, int]) -> None:
    _, new = pair
    again = store.store_memory("report", PARQUET, session_id="s", task_code=None, supersedes=[new]).memory_id
    assert found_in(store.get_timeline(Scope(session_id="s"))) == {again: []}


@pytest.mark.parametrize("bad", ["yesterday", "stored", "", "2026-13", "ANY"])
def test_a_bad_time_is_refused_with_what_to_send(store: SessionMemoryStore, bad: str) -> None:
    with pytest.raises(ValidationError, match='as_of must be "any", or a date or time, such as'):
        store.search_chunks("x", Scope(MemoryKind.REPORT, as_of=bad))


def test_an_observation_that_corrects_is_named_first_and_marked(store: SessionMemoryStore) -> None:
    report = store.store_memory("report", CSV, session_id="s").memory_id
    observe = partial(store.store_memory, "report_observation", session_id="s", parent_report_id=report)
    first = observe("It runs at night.").memory_id
    correction = observe("Not CSV: Parquet.", corrects=True).memory_id
    last = observe("On Sundays, too.", metadata={"corrects": "no"}).memory_id
    for number in range(20):
        observe(f"Addition {number}.")
    another = observe("Not at night: at noon.", corrects=True).memory_id
    notes = store.get_memory_by_id(report).observations
    assert [note.id for note in notes if note.corrects] == [note.id for note in notes[:2]] == [correction, another]
    assert len(notes) == 20
    assert not {first, last} & {note.id for note in notes[:2]}
    assert not any("corrects" in note.model_dump() for note in notes[2:])
    assert store.search_chunks(QUERY, reports(None)).results[0].observations[0].id == correction
    assert store.search_chunks([QUERY, "CSV"], reports(None)).results[0].observations[0].id == correction
    assert store.load_session_context_for_task("s").observations[0].id == correction
    assert store.get_memory_by_id(correction).memory.metadata == {"parent_report_id": report, "corrects": True}
    with pytest.raises(ValidationError, match="corrects needs parent_report_id"):
        store.store_memory("report_observation", "x", session_id="s", corrects=True)


def test_a_superseded_observation_is_not_named(store: SessionMemoryStore) -> None:
    report = store.store_memory("report", CSV, session_id="s").memory_id
    observe = partial(store.store_memory, "report_observation", session_id="s", parent_report_id=report)
    first = observe("Wrong.").memory_id
    second = observe("Right.", supersedes=[first]).memory_id
    assert [note.id for note in store.search_chunks(QUERY, reports(None)).results[0].observations] == [second]
    assert [note.id for note in store.search_chunks(QUERY, reports("any")).results[0].observations] == [first, second]


def test_a_limited_view_supersedes_nothing_of_others_and_does_not_see_what_they_replaced_it_with(
    store: SessionMemoryStore,
) -> None:
    mine, theirs = (store.store_memory("report", CSV, session_id=name).memory_id for name in ("mine", "theirs"))
    view = store.limited_to(["mine"])
    with pytest.raises(NotFoundError, match=f"There is no memory {theirs} to supersede"):
        view.store_memory("report", PARQUET, session_id="mine", supersedes=[theirs])
    own = view.store_memory("report", PARQUET, session_id="mine", supersedes=[mine]).memory_id
    for newer, older in ((own, theirs), (theirs, mine)):
        with pytest.raises(NotFoundError):
            view.supersede(newer, older)
    store.supersede(own, theirs)
    assert view.get_memory_by_id(own).memory.supersedes == [mine]
    hidden = store.store_memory("report", "Elsewhere.", session_id="theirs", supersedes=[own]).memory_id
    assert view.get_memory_by_id(own).memory.superseded_by == []
    assert store.get_memory_by_id(own).memory.superseded_by == [hidden]
    answer = view.search_chunks(QUERY, Scope(MemoryKind.REPORT))
    assert (found_in(answer), answer.superseded) == ({}, 2)
    with pytest.raises(NotFoundError):
        view.release(hidden, own)


def exported(store: SessionMemoryStore, **options: Any) -> bytes:
    store.export_memories(stream := io.BytesIO(), **options)
    return stream.getvalue()


def test_an_export_has_superseded_memories_and_an_import_restores_who_supersedes_whom(
    store: SessionMemoryStore, pair: tuple[int, int], tmp_path: Path
) -> None:
    old, new = pair
    latest = store.store_memory("report", CSV, session_id="s", supersedes=[new]).memory_id
    text = exported(store)
    assert len(text.splitlines()) == 4
    with SessionMemoryStore(tmp_path / "other.db", Settings(embedding_model="toy")) as other:
        other.store_memory("input_prompt", "So that ids differ.", session_id="other")
        for added in (3, 0):
            assert other.import_memories(io.BytesIO(text)).added == added
        links = {
            entry.memory_id - 1: [number - 1 for number in entry.superseded_by]
            for entry in other.get_timeline(Scope(session_id="s", as_of="any")).entries
        }
        assert links == {old: [new], new: [latest], latest: []}
        assert other.import_memories(io.BytesIO(text), as_session="t").added == 3
        assert len(other.get_timeline(Scope(session_id="t")).entries) == 1
        assert json.loads(exported(other, session_id="s").splitlines()[0])["memories"] == 3


@pytest.mark.parametrize("there", [(CSV, PARQUET), (PARQUET, CSV), (PARQUET,)], ids=["both", "reversed", "newer"])
def test_an_import_supersedes_what_is_current_here_though_the_newer_text_is_stored_already(
    store: SessionMemoryStore, pair: tuple[int, int], tmp_path: Path, there: tuple[str, ...]
) -> None:
    assert pair
    text = exported(store)
    with SessionMemoryStore(tmp_path / "other.db", Settings(embedding_model="toy")) as other:
        for content in there:
            other.store_memory("report", content, session_id="s", created_at=PAST if content == CSV else LATER)
        other.import_memories(io.BytesIO(text))
        (entry,) = other.get_timeline(Scope(session_id="s")).entries
        assert other.get_memory_by_id(entry.memory_id).memory.content == PARQUET
        assert other.import_memories(io.BytesIO(text)).added == 0
        assert [one.memory_id for one in other.get_timeline(Scope(session_id="s")).entries] == [entry.memory_id]


def test_an_old_history_does_not_supersede_what_was_stored_after_it(tmp_path: Path) -> None:
    def fields(minute: int) -> dict[str, Any]:
        return {"memory_type": "report", "session_id": "s", "created_at": f"2026-05-01T10:{minute:02}:00Z"}

    settings = Settings(embedding_model="toy")
    with SessionMemoryStore(tmp_path / "source.db", settings) as source:
        old = source.store_memory(content=CSV, **fields(1)).memory_id
        source.store_memory(content=PARQUET, supersedes=[old], **fields(2))
        history = exported(source)
    with SessionMemoryStore(tmp_path / "target.db", settings) as target:
        again = target.store_memory(content=CSV, **fields(3)).memory_id
        assert target.import_memories(io.BytesIO(history)).added == 1
        assert target.get_memory_by_id(again).memory.superseded_by == []


@pytest.mark.usefixtures("pair")
def test_an_export_as_of_a_time_has_what_was_current_then(store: SessionMemoryStore) -> None:
    _, old_line = exported(store, as_of=BETWEEN).splitlines()
    assert json.loads(old_line)["content"] == CSV
    _, new_line = exported(store, session_id="s", as_of="2027").splitlines()
    assert json.loads(new_line)["content"] == PARQUET


def test_pages_of_a_search_have_no_gaps_where_memories_are_superseded(store: SessionMemoryStore) -> None:
    numbers = [store.store_memory("report", f"Export {n} writes.", session_id="s").memory_id for n in range(12)]
    store.supersede(numbers[-1], *numbers[::2])
    scope, seen = reports(None), list[int]()
    for offset in range(0, 8, 2):
        seen += [one.memory_id for one in store.search_chunks("writes", scope, Page(limit=2, offset=offset)).results]
    assert sorted(seen) == sorted(numbers[1::2])


def test_a_trace_says_what_superseded_a_memory_or_that_it_was_not_current_then(
    store: SessionMemoryStore, pair: tuple[int, int]
) -> None:
    old, new = pair

    def why(as_of: str | None) -> str:
        asked = ExplainRequest(Page(), "chunk", old)
        return str(store.explaining.explain(QUERY, reports(as_of), asked)["memory"].get("why", ""))

    assert f"superseded by {new}" in why(None)
    assert why("2026-02") == "It is outside the filters: as_of."
    assert "outside" not in why("any") + why(BETWEEN)


def test_a_near_copy_is_merged_into_the_newer_one_with_its_tags_and_pin(store: SessionMemoryStore) -> None:
    text = "The nightly export writes its files to the share."
    old = store.store_memory("report", text, session_id="s", tags=["export", "files"]).memory_id
    new = store.store_memory("report", f"{text} It needs an hour.", session_id="s", tags=["time", "files"]).memory_id
    store.pin(old)
    assert store.merge(new, old).supersedes == [old]
    kept = store.get_memory_page(new).memory
    assert (kept.tags, kept.pinned, kept.supersedes) == (["time", "files", "export"], True, [old])


def test_what_says_less_than_another_memory_is_not_merged_with_it(store: SessionMemoryStore) -> None:
    text = "The nightly export writes its files to the share."
    old = store.store_memory("report", f"{text} It needs an hour.", session_id="s", tags=["a"]).memory_id
    new = store.store_memory("report", text, session_id="s").memory_id
    with pytest.raises(ValidationError, match=f"does not repeat all of memory {old}:"):
        store.merge(new, old)
    with pytest.raises(ValidationError, match="was not stored before"):
        store.merge(old, new)
    kept = store.get_memory_page(new).memory
    assert (kept.tags, kept.supersedes) == ([], [])


DOCUMENT = "# Title\n\nintro words here\n\n" + "\n\n".join(
    f"## Section {number}\n\n" + f"word{number} " * 60 for number in range(3)
)


def test_the_receipt_says_what_was_stored(store: SessionMemoryStore) -> None:
    receipt = store.store_memory("report", DOCUMENT, agent_id="explorer", session_id="s", session_iter="v3")
    assert receipt.success
    assert (receipt.memory_id, receipt.memory_type, receipt.agent_id, receipt.session_id) == (
        1,
        "report",
        "explorer",
        "s",
    )
    assert receipt.content_hash == hashlib.sha256(DOCUMENT.encode()).hexdigest()[:16]
    assert receipt.chunks_created == counts(store)["memory_chunks"] > 3
    assert store.get_memory_by_id(1).memory.created_at == receipt.created_at


def test_every_passage_has_one_vector(store: SessionMemoryStore) -> None:
    store.store_memory("report", DOCUMENT, session_id="s")
    found = counts(store)
    assert found["memory_passages"] == found["vectors"] > found["memory_chunks"]
    store.store_memory("input_prompt", DOCUMENT, session_id="s")
    assert counts(store)["memory_passages"] == counts(store)["vectors"] > found["vectors"]


@pytest.mark.parametrize("kind", ["session_context", "input_prompt", "system_memory", "report_observation"])
def test_kinds_that_are_not_chunked_have_no_chunks_however_long(store: SessionMemoryStore, kind: str) -> None:
    assert store.store_memory(kind, DOCUMENT, session_id="s").chunks_created == 0


@pytest.mark.parametrize("kind", ["report", "working_memory", "knowledge_base"])
def test_a_short_document_is_one_chunk(store: SessionMemoryStore, kind: str) -> None:
    session = None if kind == "knowledge_base" else "s"
    assert store.store_memory(kind, "short", session_id=session, title="t").chunks_created == 1


def test_the_same_content_with_the_same_labels_is_refused_with_its_id(store: SessionMemoryStore) -> None:
    first = store.store_memory("report", DOCUMENT, session_id="s", task_code="t")
    before = counts(store)
    with pytest.raises(DuplicateMemoryError, match="already exists with id 1") as caught:
        store.store_memory("report", DOCUMENT, session_id="s", session_iter="v1", task_code="t", title="other")
    assert caught.value.memory_id == first.memory_id
    assert counts(store) == before


def test_an_observation_may_name_a_stored_report_only(store: SessionMemoryStore) -> None:
    report = store.store_memory("report", "a report", session_id="s").memory_id
    prompt = store.store_memory("input_prompt", "a prompt", session_id="s").memory_id
    noted = store.store_memory("report_observation", "also this", session_id="s", parent_report_id=report)
    assert store.get_memory_by_id(noted.memory_id or 0).memory.metadata == {"parent_report_id": report}
    for missing in (prompt, 99):
        with pytest.raises(NotFoundError, match="There is no report"):
            store.store_memory("report_observation", "more", session_id="s", parent_report_id=missing)


def test_an_untitled_document_takes_its_first_heading_as_title(store: SessionMemoryStore) -> None:
    for content, title in ((DOCUMENT, "Title"), ("plain text", None)):
        receipt = store.store_memory("report", content, session_id="s")
        assert store.reconstruct_document(receipt.memory_id or 0).title == title


@given(
    st.text(
        st.one_of(st.sampled_from("#`\n -|>~*\r\t"), st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        min_size=1,
    ).filter(str.strip)
)
def test_every_text_can_be_read_back_exactly_as_stored(store: SessionMemoryStore, content: str) -> None:
    try:
        memory_id = store.store_memory("report", content, session_id="s").memory_id
    except DuplicateMemoryError as error:
        memory_id = error.memory_id
    assert store.reconstruct_document(memory_id or 0).content == content


def test_the_title_and_heading_in_front_of_a_passage_reach_the_vector_only_if_enrichment_is_on(tmp_path: Path) -> None:
    found = {}
    for enriched in (False, True):
        settings = Settings(embedding_model="toy", embedding_dim=16, enable_enrichment=enriched)
        with SessionMemoryStore(tmp_path / f"{enriched}.db", settings, embedder=LatticeEmbedder()) as store:
            store.store_memory("report", "some words", session_id="s", title="Title")
            found[enriched] = store.search_chunks("some words", Scope("report"), Page(limit=1)).results[0]
    assert found[False].similarity == 1.0
    assert found[True].similarity < 1.0
    assert found[True].chunk_content == "some words"


class NoModel:
    """An engine that cannot be loaded."""

    def __getattr__(self, name: str) -> object:
        raise EmbeddingUnavailableError("There is no model: run vector-memory fetch-model.")


def test_without_a_model_everything_is_stored_and_the_receipt_says_what_is_missing(
    tmp_path: Path, settings: Settings
) -> None:
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=NoModel()) as store:  # type: ignore[arg-type]
        receipt = store.store_memory("report", DOCUMENT, session_id="s")
        assert receipt.success
        assert "searchable by words, but not yet by meaning. There is no model" in (receipt.message or "")
        assert store.reconstruct_document(receipt.memory_id or 0).content == DOCUMENT
        with pytest.raises(EmbeddingUnavailableError, match="fetch-model"):
            store.search_chunks("word1", Scope("report"), Page(limit=3), mode="vector")


def test_vectors_of_another_model_never_mix_with_the_files(tmp_path: Path, settings: Settings) -> None:
    class OtherEmbedder(LatticeEmbedder):
        fingerprint = Fingerprint("other", 16, "exact", "test")

    path = tmp_path / "memory.db"
    with SessionMemoryStore(path, settings, embedder=LatticeEmbedder()) as store:
        store.store_memory("report", "first", session_id="s")
    with SessionMemoryStore(path, settings, embedder=OtherEmbedder()) as store:
        assert "computed with lattice" in (store.store_memory("report", "second", session_id="s").message or "")
        assert counts(store)["vectors"] == 1
        with pytest.raises(EmbeddingUnavailableError, match="lattice"):
            store.search_chunks("first", Scope("report"), Page(limit=3), mode="vector")


def test_a_failed_write_leaves_nothing_of_a_memory(store: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValidationError("no")

    before = counts(store)
    monkeypatch.setattr(writer_of(store), "add_passages", fail)
    with pytest.raises(ValidationError):
        store.store_memory("report", DOCUMENT, session_id="s")
    assert counts(store) == before


def test_two_threads_that_store_the_same_at_once_store_it_once(store: SessionMemoryStore) -> None:
    def attempt(_: int) -> str:
        try:
            return f"stored {store.store_memory('report', DOCUMENT, session_id='s').memory_id}"
        except DuplicateMemoryError as error:
            return f"exists {error.memory_id}"

    with ThreadPoolExecutor(8) as pool:
        outcomes = Counter(pool.map(attempt, range(8)))
    assert outcomes == {"stored 1": 1, "exists 1": 7}


@contextmanager
def lock_measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Give a list of the seconds of processor time that each write transaction of the block takes."""
    seconds, write = [], Database.write

    @contextmanager
    def measured(database: Database) -> Iterator[Connection]:
        with write(database) as connection:
            start = time.thread_time()
            yield connection
        seconds.append(time.thread_time() - start)

    with monkeypatch.context() as patch:
        patch.setattr(Database, "write", measured)
        yield seconds


@pytest.mark.sqlite("the lock is measured in its Database")
@pytest.mark.parametrize(
    "text",
    ["".join(f"word{number} in a sentence of {number} words. " for number in range(13_000)), "# a\n" * 25_000],
    ids=["a long report", "headings"],
)
def test_storing_a_long_report_holds_the_write_lock_for_at_most_a_tenth_of_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    with SessionMemoryStore(tmp_path / "memory.db", Settings(embedding_model="toy"), embedder=ToyEngine()) as store:
        with lock_measured(monkeypatch) as seconds:
            start = time.thread_time()
            store.store_memory("report", text, session_id="s")
        assert max(seconds) < (time.thread_time() - start) / 10


@pytest.mark.sqlite("takes the lock of the file")
@pytest.mark.parametrize("kind", ["report", "system_memory"])
def test_words_are_prepared_before_the_write_lock_is_taken(
    store: SessionMemoryStore, path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    prepared, cut = [], postings.terms
    database_of(store).create()

    def noted(text: str) -> list[str]:
        with locked(path):
            prepared.append(text)
        return cut(text)

    monkeypatch.setattr(postings, "terms", noted)
    store.store_memory(kind, DOCUMENT, session_id="s")
    assert prepared


@pytest.mark.parametrize(
    ("given", "kept"),
    [("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00Z"), ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z")],
)
def test_a_memory_keeps_the_time_that_it_is_given(given: str, kept: str, store: SessionMemoryStore) -> None:
    receipt = store.store_memory("input_prompt", "Why?", session_id="s", created_at=given)
    assert store.get_memory_by_id(receipt.memory_id).memory.created_at == receipt.created_at == kept


def test_a_time_in_the_future_becomes_the_present(store: SessionMemoryStore) -> None:
    receipt = store.store_memory("input_prompt", "Why?", session_id="s", created_at="2999-01-01T00:00:00Z")
    assert receipt.created_at < "2999"


@pytest.mark.parametrize("given", ["2026-01-31T12:00:00", "yesterday", "", 12])
def test_a_time_without_a_zone_is_refused(given: Any, store: SessionMemoryStore) -> None:
    with pytest.raises(ValidationError, match="created_at must be a time with a time zone"):
        store.store_memory("input_prompt", "Why?", session_id="s", created_at=given)
