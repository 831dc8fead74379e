"""What every engine promises about memories, sessions, names, tags, and traces of what was deleted."""

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine_memories import (
    MODEL,
    OTHER_MODEL,
    Engine,
    add,
    chunks_in,
    content_hash,
    derived,
    found_by_words,
    new_memory,
    unit_vector,
)
from vector_memory.domain import MemoryKind, NewMemory, Project, Scope, utc_now
from vector_memory.errors import EmbeddingUnavailableError, NotFoundError
from vector_memory.storage.base import Storage
from vector_memory.storage.queries import keywords
from vector_memory.storage.queries.deletions import DeletedTexts
from vector_memory.storage.records import History, RecallCounts, Span, Told

SESSIONS = map("session {}".format, count())

contents = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=45).filter(str.strip)
kinds = st.sampled_from([MemoryKind.REPORT, MemoryKind.INPUT_PROMPT, MemoryKind.WORKING_MEMORY])
agents, tasks, iterations = st.sampled_from("ab"), st.sampled_from([None, "t"]), st.sampled_from([1, 2])
tags = st.lists(st.sampled_from(["one", "two", "drei"]), max_size=3, unique=True).map(tuple)
metadata = st.dictionaries(st.sampled_from(["category", "note", "n"]), st.sampled_from(["x", "", 1, None, [True]]))
fields = st.fixed_dictionaries(
    {"agent_id": agents, "task_code": tasks, "session_iter": iterations, "tags": tags, "metadata": metadata}
)
scopes = st.fixed_dictionaries(
    {},
    optional={
        "kind": kinds,
        "agent_id": agents,
        "task_code": st.just("t"),
        "session_iter": iterations,
        "category": st.just("x"),
        "tags": st.lists(st.sampled_from(["one", "nowhere"]), min_size=1, unique=True),
        "own_agent_id": agents,
    },
)
# The memory is the same in all examples: each has a session of its own.
several = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@several
@given(content=contents, kind=kinds, values=fields, title=st.none() | contents, with_vectors=st.booleans())
def test_an_added_memory_is_read_back(
    storage: Storage, content: str, kind: MemoryKind, values: dict[str, Any], title: str | None, with_vectors: bool
) -> None:
    new = new_memory(content, kind, session_id=next(SESSIONS), title=title, **values)
    made = derived(new, MODEL if with_vectors else None)
    with storage.write() as writer:
        history = History("2026-01-01", "2026-01-02", "2026-01-03", 4)
        memory_id = writer.add_memory(new, made, content_hash="abc", history=history)
        assert writer.memories.get(memory_id).content == content
    with storage.read() as reader:
        memory = reader.memories.get(memory_id)
        assert reader.memories.get_all([memory_id, 10**9]) == {memory_id: memory}
        chunks, passages = reader.chunks.of(memory_id), reader.vectors.passages_of(memory)
    for name in ("agent_id", "session_id", "session_iter", "task_code", "content", "title", "description", "metadata"):
        assert getattr(memory, name) == getattr(new, name)
    assert (memory.memory_type, memory.tags, memory.content_hash) == (kind, list(new.tags), "abc")
    assert (memory.created_at, memory.updated_at, memory.accessed_at, memory.access_count) == history[:4]
    assert [chunk.chunk for chunk in chunks] == made.chunks
    assert (memory.chunked, memory.chunk_count) == (kind is not MemoryKind.INPUT_PROMPT, len(chunks))
    assert {chunk.memory_id for chunk in chunks} <= {memory_id}
    vectors = made.embedded.vectors if made.embedded else []
    assert [passage.vector.tolist() for passage in passages] == [vector.tolist() for vector in vectors]
    expected = [(chunk.index, chunk.start, chunk.end) for chunk in made.chunks] or [(None, 0, len(content))]
    assert [passage[:3] for passage in passages] == (expected if with_vectors else [])


def test_the_character_nul_in_metadata_is_read_back(storage: Storage) -> None:
    report = add(storage, new_memory("A text", metadata={"note": "\0", "category": "\0"}))
    with storage.read() as reader:
        assert reader.memories.get(report).metadata["note"] == "\0"
        assert reader.sessions.find_names("session_id", "\0", Scope(), 9) == ([], 0)


def is_in(scope: Scope, new: NewMemory) -> bool:
    """Tell in plain Python what a scope means."""
    return all(
        (
            scope.kind in (None, new.kind),
            scope.agent_id in (None, new.agent_id),
            scope.task_code in (None, new.task_code),
            scope.session_iter in (None, new.session_iter),
            scope.category in (None, new.metadata.get("category")),
            scope.own_agent_id is None or new.agent_id != scope.own_agent_id,
            not scope.tags or set(scope.tags) & set(new.tags),
        )
    )


@several
@given(
    memories=st.lists(st.tuples(kinds, fields, st.booleans(), st.sampled_from(["2026-01-01", "2026-01-02"]))),
    scope=scopes,
    limit=st.integers(1, 4),
)
def test_a_scope_matches_exactly_its_filters(
    storage: Storage, memories: list[tuple[MemoryKind, dict[str, Any], bool, str]], scope: dict[str, Any], limit: int
) -> None:
    session = next(SESSIONS)
    stored: dict[int, tuple[NewMemory, bool, str]] = {}
    with storage.write() as writer:
        for kind, values, with_vectors, at in memories:
            new = new_memory("x", kind, session_id=session, **values)
            made = derived(new, MODEL if with_vectors else None)
            memory_id = writer.add_memory(new, made, content_hash="", history=History(at, at, at, is_dated=True))
            stored[memory_id] = (new, with_vectors, at)
    wanted = Scope(session_id=session, **scope)
    inside = {memory_id: known for memory_id, known in stored.items() if is_in(wanted, known[0])}
    newest = sorted(inside, key=lambda one: (inside[one][0].session_iter, inside[one][2], one), reverse=True)
    with storage.read() as reader:
        assert reader.memories.ids(wanted) == list(inside)
        assert reader.memories.count(wanted) == len(inside)
        assert reader.memories.count(wanted, without_vectors=True) == sum(not known[1] for known in inside.values())
        late = sum(known[2] == "2026-01-02" for known in inside.values())
        assert reader.memories.count(wanted, since="2026-01-02") == late
        by_kind = [str(known[0].kind) for known in inside.values()]
        assert reader.memories.count_by(wanted, "kind") == {kind: by_kind.count(kind) for kind in sorted({*by_kind})}
        named = [category_of(known[0]) for known in inside.values()]
        assert reader.memories.count_by(wanted, "category") == {name: named.count(name) for name in sorted({*named})}
        on = [tag for known in inside.values() for tag in known[0].tags]
        assert reader.memories.count_by(wanted, "tag") == {tag: on.count(tag) for tag in sorted({*on})}
        pages = [reader.memories.page(wanted, limit, offset) for offset in range(0, len(inside) + 1, limit)]
        assert [memory.id for page in pages for memory in page] == newest
        assert [memory.id for memory in reader.memories.page(wanted, limit, order="oldest")] == newest[::-1][:limit]
        moments = reader.sessions.timeline(wanted, 10**6, 1)
        assert [moment.memory_id for moment in moments] == sorted(inside, key=lambda one: (inside[one][2], one))


def category_of(new: NewMemory) -> str:
    category = new.metadata.get("category")
    return category if isinstance(category, str) else ""


def test_a_missing_memory_is_an_error(storage: Storage) -> None:
    with storage.read() as reader:
        with pytest.raises(NotFoundError):
            reader.memories.get(1)
        assert reader.memories.get_all([1]) == reader.memories.origins([1]) == {}
        assert reader.chunks.get(1) is None
        assert reader.chunks.of(1) == reader.chunks.outlines([1]) == []


OTHER_LABELS = {
    "agent_id": "b", "session_id": "t", "session_iter": 2, "task_code": "t", "kind": MemoryKind.INPUT_PROMPT,
}  # fmt: skip


@pytest.mark.parametrize("change", [{name: value} for name, value in OTHER_LABELS.items()], ids=OTHER_LABELS)
def test_the_same_text_is_a_duplicate_only_with_the_same_labels(storage: Storage, change: dict[str, Any]) -> None:
    new, elsewhere = new_memory("same"), new_memory("same", **change)
    memory_id = add(storage, new)
    with storage.read() as reader:
        assert reader.find_duplicate(new, content_hash(new)) == memory_id
        assert reader.find_duplicate(new, "another hash") is None
        times = reader.times_of_duplicates(new, content_hash(new))
        assert times == [reader.memories.get(memory_id).created_at]
        assert reader.find_duplicate(new, content_hash(new), times[0]) == memory_id
        assert reader.find_duplicate(new, content_hash(new), "2001-02-03T04:05:06.000000+00:00") is None
        assert reader.times_of_duplicates(elsewhere, content_hash(new)) == []
        assert reader.find_duplicate(elsewhere, content_hash(new)) is None


def test_a_report_is_found_by_its_text_and_labels(storage: Storage) -> None:
    new = new_memory("findings", task_code="t")
    memory_id = add(storage, new)
    place = {"content_hash": content_hash(new), "agent_id": "a", "session_id": "s", "session_iter": 1, "task_code": "t"}
    with storage.read() as reader:
        assert reader.memories.find_copy(place) == memory_id
        assert reader.memories.find_copy(place | {"task_code": None}) is None


def test_chunks_are_read_by_id_by_position_and_without_their_texts(storage: Storage) -> None:
    text = "".join(map(str, range(40)))
    other, memory_id = add(storage, new_memory("0123456789 other")), add(storage, new_memory(text))
    with storage.read() as reader:
        chunks = reader.chunks.of(memory_id)
        assert [chunk.chunk for chunk in chunks] == chunks_in(text)
        assert [reader.chunks.get(chunk.id) for chunk in chunks] == chunks
        assert reader.chunks.of(memory_id, 1, 3) == chunks[1:4]
        assert reader.chunks.of(memory_id, -5, 0) == chunks[:1]
        assert reader.chunks.of(memory_id, len(chunks) - 1) == chunks[-1:]
        outlines = reader.chunks.outlines([memory_id, other])
    expected = [(one.id, memory_id, one.chunk.start, one.chunk.end, one.chunk.headings) for one in chunks]
    assert ([outline.memory_id for outline in outlines[:2]], outlines[2:]) == ([other] * 2, expected)


def test_deleting_a_memory_removes_its_chunks_and_vectors_and_nothing_else(storage: Storage) -> None:
    kept, gone = add(storage, new_memory("0123456789 kept")), add(storage, new_memory("0123456789 gone"))
    with storage.write() as writer:
        assert writer.delete(gone) == 2
        assert writer.delete(gone) is None
    assert storage.purge_deleted()
    with storage.read() as reader:
        assert reader.memories.ids(Scope()) == [kept]
        assert reader.chunks.of(gone) == []
        assert len(reader.chunks.of(kept)) == len(reader.vectors.passages_of(reader.memories.get(kept))) == 2
        assert reader.vectors.mean_vectors([kept, gone])[0].tolist() == [kept]
        assert reader.sessions.statistics().total_chunks == 2


def test_reads_are_counted_one_by_one(storage: Storage) -> None:
    first, second = add(storage, new_memory("first")), add(storage, new_memory("second"))
    with storage.write() as writer:
        writer.record_access([first, first, second, 10**9], "2027")
        writer.record_access([first], "2026-06")
    with storage.read() as reader:
        found = reader.memories.get_all([first, second])
    assert [(found[one].access_count, found[one].accessed_at) for one in (first, second)] == [(3, "2027"), (1, "2027")]


def test_what_was_told_is_used_once_it_is_read_within_a_day(storage: Storage) -> None:
    first, second = add(storage, new_memory("first")), add(storage, new_memory("second"))
    told = Told("one", "gemini", is_recap=True, tokens=9, told_at=utc_now(), memory_ids=[first, second, 10**9])
    with storage.write() as writer:
        writer.record_told(told)
        writer.record_told(told._replace(told_at=utc_now(25 * 3600), is_recap=False))
        writer.record_told(told._replace(session_id="two", client="qwen"))
    counts = RecallCounts(client="gemini", sessions=1, tokens_per_session=18, recaps=1, recalls=1, used=0)
    used = []
    for ids in ([], [second], [first]):
        with storage.write() as writer:
            writer.record_access(ids, "2027")
        with storage.read() as reader:
            gemini, qwen = reader.sessions.statistics().recalls
        assert replace(gemini, used=0) == counts
        used.append((gemini.used, qwen.used))
    assert used == [(0, 0), (1, 1), (1, 1)]


def test_the_means_of_vectors_are_those_of_all_passages_and_read_without_their_much_longer_states(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_id, prompt = (
        add(storage, new) for new in (new_memory("0123456789abc"), new_memory("p", MemoryKind.INPUT_PROMPT))
    )
    without = add(storage, new_memory("without"), model=None)
    with storage.read() as reader:
        fetch, asked = reader.connection.fetch, list[str]()
        monkeypatch.setattr(reader.connection, "fetch", lambda make, sql, *_: asked.append(sql) or fetch(make, sql, *_))
        ids, means = reader.vectors.mean_vectors([without, prompt, memory_id])
    assert ids.tolist() == [memory_id, prompt]
    assert means[0] == pytest.approx((unit_vector("0123456789") + unit_vector("abc")) / 2)
    assert means[1] == pytest.approx(unit_vector("p"))
    assert "states" not in "".join(asked)


def test_vectors_of_two_models_are_not_mixed(storage: Storage) -> None:
    with storage.read() as reader:
        assert reader.vectors.fingerprint() is None
        reader.vectors.require_comparable(OTHER_MODEL)
    add(storage, new_memory("first"))
    with storage.read() as reader:
        assert reader.vectors.fingerprint() == MODEL
        reader.vectors.require_comparable(MODEL)
        with pytest.raises(EmbeddingUnavailableError):
            reader.vectors.require_comparable(OTHER_MODEL)
    new = new_memory("second")
    made = derived(new, OTHER_MODEL)
    with storage.write() as writer:
        with pytest.raises(EmbeddingUnavailableError):
            writer.add_memory(new, made, content_hash="", history=History("2026", "2026", "2026"))
        assert writer.memories.count(Scope()) == 1
    with storage.read() as reader:
        assert reader.sessions.statistics().total_memories == reader.sessions.statistics().total_chunks == 1


def test_a_memory_without_vectors_is_completed_once(storage: Storage) -> None:
    prompt = new_memory("prompt", MemoryKind.INPUT_PROMPT)
    ids = [add(storage, new, model=None) for new in (new_memory("0123456789 report"), prompt)]
    gone = add(storage, new_memory("gone"), model=None)
    with storage.read() as reader:
        missing = [reader.vectors.next_without_vectors(after) for after in (0, ids[0], ids[1], gone)]
        assert [memory and memory.id for memory in missing] == [*ids, gone, None]
    with storage.write() as writer:
        writer.delete(gone)
        for memory, new in zip(missing, (new_memory("0123456789 report"), prompt, new_memory("gone")), strict=False):
            assert writer.add_vectors(memory, derived(new), after=0, is_last=True) is (memory.id != gone)
            assert not writer.add_vectors(memory, derived(new), after=0, is_last=True)
    with storage.read() as reader:
        assert reader.vectors.next_without_vectors(0) is None
        assert [len(reader.vectors.passages_of(memory)) for memory in reader.memories.get_all(ids).values()] == [2, 1]
        assert reader.memories.get(ids[0]).chunk_count == len(reader.chunks.of(ids[0])) == 2


def test_a_clean_up_finds_old_memories_and_the_tagged_ones_that_were_read_least(storage: Storage) -> None:
    notes = [add(storage, new_memory(name, MemoryKind.TAGGED), at=at) for name, at in (("n", "2020"), ("m", "2021"))]
    young = add(storage, new_memory("young"), at="2026")
    later, earlier = add(storage, new_memory("0123456789 a"), at="2022"), add(storage, new_memory("b"), at="2020")
    with storage.write() as writer:
        writer.record_access([notes[0]], "2026")
    with storage.read() as reader:
        old = reader.memories.expendable(Scope(created_before="2024"))
        assert [(memory.id, memory.chunk_count) for memory in old] == [(earlier, 1), (later, 2)]
        tagged = reader.memories.expendable(Scope(MemoryKind.TAGGED, created_before="2024"))
        assert [memory.id for memory in tagged] == notes[::-1]
        assert young not in [memory.id for memory in reader.memories.expendable(Scope(created_before="2025"))]


@pytest.mark.parametrize("kind", [MemoryKind.REPORT, MemoryKind.KNOWLEDGE_BASE])
def test_words_added_in_one_transaction_are_told_apart_although_memories_are_deleted_between(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, kind: MemoryKind
) -> None:
    monkeypatch.setattr(keywords, "UNITS_PER_BLOCK", 2)
    added: dict[int, str] = {}
    with storage.write() as writer:
        for number in range(8):
            new = new_memory(f"common a{number}", kind)
            if number in (0, 2, 6):  # a writer then remembers where the words belong
                assert writer.find_duplicate(new, content_hash(new)) is None
            made, history = derived(new, None), History("2026-01-01", "2026-01-01", "2026-01-01")
            memory_id = writer.add_memory(new, made, content_hash=content_hash(new), history=history)
            if number in (2, 4, 5):
                writer.delete(memory_id)
            else:
                added[memory_id] = f"a{number}"
    assert found_by_words(storage, "common", kind) == sorted(added)
    for memory_id, word in added.items():
        assert found_by_words(storage, word, kind) == [memory_id]


@pytest.fixture
def filled(storage: Storage) -> Storage:
    """Two sessions, knowledge that belongs to none, and a memory without vectors."""
    add(storage, new_memory("0123456789 first", task_code="Task-1"), at="2026-01-01")
    add(storage, new_memory("prompt", MemoryKind.INPUT_PROMPT, agent_id="b", session_iter=2), at="2026-01-02")
    add(storage, new_memory("other", session_id="t", agent_id="b"), at="2026-01-03", model=None)
    add(storage, new_memory("known", MemoryKind.KNOWLEDGE_BASE, agent_id="c"), at="2026-01-04")
    return storage


def test_sessions_are_listed_by_their_latest_activity(filled: Storage) -> None:
    with filled.read() as reader:
        listed, total = reader.sessions.page(Scope(), 10, 10)
        assert ([session.session_id for session in listed], total) == (["t", "s"], 2)
        assert (listed[1].agent_id, listed[1].agents, listed[1].agent_count) == ("b", ["a", "b"], 2)
        assert (listed[1].memory_count, listed[1].latest_activity) == (2, "2026-01-02")
        assert listed[1].memory_types == {"input_prompt": 1, "report": 1}
        short, total = reader.sessions.page(Scope(), 1, 1)
        assert ([session.session_id for session in short], total) == (["t"], 2)
        own, total = reader.sessions.page(Scope(agent_id="a"), 10, 10)
        assert ([(session.session_id, session.memory_count) for session in own], total) == ([("s", 1)], 1)


def test_a_session_and_the_whole_memory_are_counted(filled: Storage) -> None:
    with filled.read() as reader:
        session, nothing = map(reader.sessions.counts, ("s", "nobody"))
        whole = reader.sessions.statistics()
    assert (session.memory_counts, session.agent_counts) == ({"input_prompt": 1, "report": 1}, {"a": 1, "b": 1})
    assert (session.total_memories, session.total_chunks, session.latest_iteration) == (2, 2, 2)
    assert (session.earliest_created, session.latest_created) == ("2026-01-01", "2026-01-02")
    assert (nothing.total_memories, nothing.latest_iteration, nothing.earliest_created) == (0, None, None)
    assert whole.memory_counts == {"input_prompt": 1, "knowledge_base": 1, "report": 2}
    assert (whole.total_memories, whole.total_chunks, whole.total_sessions, whole.total_agents) == (4, 4, 2, 3)
    assert (whole.without_vectors, whole.embedding_model) == (1, "test")
    assert (whole.earliest_created, whole.latest_created) == ("2026-01-01", "2026-01-04")
    assert whole.database_bytes > 0


def test_what_has_expired_is_not_counted(filled: Storage) -> None:
    with filled.write() as writer:
        for number in (3, 4):
            writer.expire(number, "2026-01-05")
    with filled.read() as reader:
        whole = reader.sessions.statistics()
        assert reader.memories.count_by(Scope(), "kind") == {"input_prompt": 1, "report": 1}
    assert (whole.total_memories, whole.total_chunks, whole.total_sessions, whole.total_agents) == (2, 2, 1, 2)
    assert (whole.without_vectors, whole.earliest_created, whole.latest_created) == (0, "2026-01-01", "2026-01-02")


def test_a_part_of_a_text_is_found_letter_by_letter(storage: Storage) -> None:
    texts = ("100% done", "1000 done", "snake_case", "snakeXcase", "C:\\temp", "\u00c4RGER")
    for text in texts:
        add(storage, new_memory(text, title="Note"))
    with storage.read() as reader:

        def found(part: str) -> list[str]:
            having = reader.sessions.newest(Scope(containing=part))
            return [moment.beginning for moment in reader.sessions.moments(having, 20)]

        assert (found("0% D"), found("e_c"), found("c:\\T")) == (["100% done"], ["snake_case"], ["C:\\temp"])
        assert (found("rger"), found("note"), found("nowhere")) == (["\u00c4RGER"], [*texts], [])


def test_names_that_start_with_a_part_come_before_names_that_contain_it(storage: Storage) -> None:
    for session in ("beta", "Alphabet", "alpha", "gamma"):
        add(storage, new_memory(session, session_id=session, task_code="T"))
    with storage.read() as reader:
        assert reader.sessions.find_names("session_id", "BET", Scope(), 10) == (["beta", "Alphabet"], 2)
        assert reader.sessions.find_names("session_id", "", Scope(), 1) == (["gamma"], 4)
        assert reader.sessions.find_names("task_code", "", Scope(session_id="alpha"), 10) == (["T"], 1)
        assert reader.sessions.find_names("agent_id", "%", Scope(), 10) == ([], 0)


def test_a_timeline_contains_the_beginnings_of_the_newest_texts_oldest_first(filled: Storage) -> None:
    with filled.read() as reader:
        moments = reader.sessions.timeline(Scope(), 2, 4)
    found = [(moment.beginning, moment.content_length, moment.chunk_count) for moment in moments]
    assert found == [("othe", 5, 1), ("know", 5, 1)]


def test_tags_are_counted_for_each_memory_and_listed_by_frequency(storage: Storage) -> None:
    with storage.write() as writer:
        for tag in ("zeta", "beta", "alpha", "zeta"):
            writer.count_tag(tag, None, "2026")
    with storage.read() as reader:
        listed = [(tag.tag, tag.frequency, tag.created_at) for tag in reader.tags.canonical()]
        assert listed == [("zeta", 2, "2026"), ("alpha", 1, "2026"), ("beta", 1, "2026")]
        assert [tag.tag for tag in reader.tags.canonical(["beta", "unknown", "zeta"])] == ["zeta", "beta"]
        assert reader.tags.canonical([]) == []


def test_tags_have_vectors_of_the_memorys_model_or_none(storage: Storage) -> None:
    dimensions = MODEL.dimensions
    with storage.write() as writer:
        writer.adopt_fingerprint(MODEL)
        writer.count_tag("first", unit_vector("first"), "2026")
        writer.count_tag("second", None, "2026")
        writer.count_tag("first", None, "2026")
    with storage.read() as reader:
        known = reader.tags.vectors_of(dimensions)
        assert (known.tags, known.missing()) == (["first", "second"], ["second"])
        assert known.vectors.tolist() == [unit_vector("first").tolist(), [0.0] * dimensions]
        assert reader.tags.vectors_of(dimensions + 1).missing() == ["first", "second"]
    with storage.write() as writer:
        writer.set_tag_vectors({"second": unit_vector("second"), "unknown": unit_vector("unknown")}, MODEL)
        with pytest.raises(EmbeddingUnavailableError):
            writer.set_tag_vectors({"first": unit_vector("other")}, OTHER_MODEL)
    with storage.read() as reader:
        assert reader.vectors.fingerprint() == MODEL
        assert reader.tags.vectors_of(dimensions).missing() == []
        assert reader.tags.vectors_of(dimensions).vectors[0].tolist() == unit_vector("first").tolist()


def prompt(session: str, at: str, folder: str | None = None, **fields: object) -> NewMemory:
    metadata = {} if folder is None else {"project": folder}
    return new_memory(at, MemoryKind.INPUT_PROMPT, session_id=session, metadata=metadata, **fields)


def test_the_latest_session_of_a_project_is_the_one_in_which_the_user_spoke_last(storage: Storage) -> None:
    mine, shared = Project("/work/mine", owns_memory=True), Project("/work/mine", owns_memory=False)
    dated = shared.session_on("2026-01-09")
    add(storage, new_memory("report", session_id=dated), at="2026-01-09")
    with storage.read() as reader:
        assert (reader.sessions.latest(mine), reader.sessions.latest(shared)) == (dated, dated)
        assert reader.sessions.latest(mine, dated) is None
        assert reader.sessions.latest(Project("/elsewhere/mine", owns_memory=False)) is None
        assert reader.sessions.latest(Project("/work/other", owns_memory=False)) is None
    for day, (session, folder) in enumerate({"a": "/work/mine", "b": "/elsewhere", "c": None}.items(), 1):
        add(storage, prompt(session, f"{day}", folder), at=f"2026-01-0{day}")
    with storage.read() as reader:
        assert (reader.sessions.latest(mine), reader.sessions.latest(shared)) == ("b", "a")
        assert (reader.sessions.latest(mine, "b"), reader.sessions.latest(shared, "a")) == ("a", dated)


def test_what_agents_left_since_a_time_is_that_of_the_session_and_of_sessions_without_prompts(storage: Storage) -> None:
    for session in ("user", "other"):
        add(storage, prompt(session, session), at="2026-01-01")
    for session in ("user", "other", "agent", "besides", "agent"):
        for at in ("2026-01-01", "2026-01-03"):
            add(storage, new_memory(f"{session} report", session_id=session), at=at)
    span = Span(session_id="user", since=(0, "2026-01-02"), besides="besides")
    with storage.read() as reader:
        left = reader.sessions.left_since(span, MemoryKind.REPORT, 9, 5)
        assert [moment.session_id for moment in left] == ["user", "agent", "agent"]
        assert (left[0].beginning, left[0].content_length, left[0].content_bytes) == ("user ", 11, 11)
        assert reader.sessions.left_since(span, MemoryKind.REPORT, 1, 5) == left[-1:]


def test_observations_are_those_on_the_reports_the_last_ones_oldest_first(storage: Storage) -> None:
    first, second = add(storage, new_memory("first")), add(storage, new_memory("second"))
    seen = [
        add(storage, new_memory(text, MemoryKind.REPORT_OBSERVATION, metadata={"parent_report_id": report}))
        for text, report in (("one", first), ("two", second), ("three", first))
    ]
    with storage.read() as reader:
        found = reader.memories.observations_on([first, second], 2, 3, Scope())
        told = [(one.id, one.report_id, one.beginning) for one in found]
        assert told == [(seen[1], second, "two"), (seen[2], first, "thr")]
        assert [one.id for one in reader.memories.observations_on([first], 9, 3, Scope())] == [seen[0], seen[2]]
        assert reader.memories.origins([second, 10**9])[second].memory_type == "report"


def test_the_same_observation_on_another_report_and_knowledge_of_another_category_are_no_duplicates(
    storage: Storage,
) -> None:
    def seen(report: object) -> NewMemory:
        return new_memory("same", MemoryKind.REPORT_OBSERVATION, metadata={"parent_report_id": report})

    def known(category: str) -> NewMemory:
        return new_memory("same", MemoryKind.KNOWLEDGE_BASE, metadata={"category": category})

    stored = [add(storage, seen(7)), add(storage, known("a"))]
    with storage.read() as reader:
        assert [reader.find_duplicate(new, content_hash(new)) for new in (seen(7), known("a"))] == stored
        for new in (seen(8), seen("7"), known("b")):
            assert reader.find_duplicate(new, content_hash(new)) is None


SECRET = new_memory("my vault word is zanzibar", MemoryKind.INPUT_PROMPT)
OWN = new_memory("another word", MemoryKind.INPUT_PROMPT)
AT = "2026-01-02T03:04:05.000006+00:00"


def traces_in(storage: Storage) -> DeletedTexts:
    with storage.read() as reader:
        return reader.deletions.get_all()


def add_and_delete(storage: Storage, *, for_good: bool = True) -> None:
    memory_id = add(storage, SECRET, at=AT)
    with storage.write() as writer:
        assert writer.delete(memory_id, for_good=for_good) == 0


def test_a_deleted_memory_is_recognized_by_its_text_kind_and_session(storage: Storage) -> None:
    add_and_delete(storage)
    known = [content_hash(SECRET)]
    with storage.read() as reader:
        (trace,) = reader.deletions.of(SECRET, known)
        assert trace.created_at == AT < trace.deleted_at <= reader.now()
        assert reader.deletions.of(replace(SECRET, agent_id="b"), ["another hash", *known]) == [trace]
        assert not reader.deletions.of(replace(SECRET, session_id="t"), known)
        assert not reader.deletions.of(replace(SECRET, kind=MemoryKind.REPORT), known)
        assert not reader.deletions.of(SECRET, ["another hash"])


def test_a_trace_holds_no_text_and_no_hash_that_can_be_computed_without_the_key(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The same memory leaves another trace in each file or schema."""
    other = Engine(engine.open_at, tmp_path_factory.mktemp("other"), [])
    for storage in (engine.storage, other.open()):
        add_and_delete(storage)
    ((key,), (mine,)), (_, (others,)) = traces_in(engine.storage), traces_in(other.storage)
    other.storage.close()
    assert len(key) == 32
    assert mine.digest != others.digest
    assert content_hash(SECRET)[:32] != mine.digest.hex()


def test_what_is_replaced_or_has_no_source_leaves_no_trace(storage: Storage) -> None:
    add_and_delete(storage, for_good=False)
    note = add(storage, new_memory("a note", MemoryKind.TAGGED))
    with storage.write() as writer:
        writer.delete(note)
    assert traces_in(storage) == DeletedTexts([], [])


def test_a_memory_is_deleted_with_its_trace_or_not_at_all(storage: Storage) -> None:
    memory_id = add(storage, SECRET)

    def delete_and_fail() -> None:
        with storage.write() as writer:
            writer.delete(memory_id)
            writer.memories.get(memory_id)

    with pytest.raises(NotFoundError):
        delete_and_fail()
    assert traces_in(storage) == DeletedTexts([], [])
    with storage.read() as reader:
        assert reader.memories.get(memory_id).content == SECRET.content


def test_a_memory_that_is_deleted_twice_leaves_one_trace_until_it_is_wanted_again(storage: Storage) -> None:
    for _ in range(2):
        add_and_delete(storage)
    assert len(traces_in(storage).rows) == 1
    with storage.write() as writer:
        writer.forget_deletions(SECRET, [content_hash(SECRET)])
    assert traces_in(storage).rows == []


def test_traces_of_another_memory_are_recognized_beside_its_own(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Engine(engine.open_at, tmp_path_factory.mktemp("other"), [])
    add_and_delete(other.open())
    memory_id = add(engine.storage, OWN)
    with engine.storage.write() as writer:
        writer.delete(memory_id)
        for _ in range(2):
            writer.add_deletions(traces_in(other.storage))
        assert len(writer.deletions.of(SECRET, [content_hash(SECRET)])) == 1
        assert len(writer.deletions.of(OWN, [content_hash(OWN)])) == 1
    other.storage.close()
