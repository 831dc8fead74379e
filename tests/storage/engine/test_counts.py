"""What every engine promises about sessions, names and tags."""

import pytest

from engine_memories import MODEL, OTHER_MODEL, add, content_hash, new_memory, unit_vector
from vector_memory.domain import MemoryKind, NewMemory, Project, Scope
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Span


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
        session, nothing, whole = (
            reader.sessions.counts("s"),
            reader.sessions.counts("nobody"),
            reader.sessions.statistics(),
        )
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
            return [
                moment.beginning
                for moment in reader.sessions.moments(reader.sessions.newest(Scope(containing=part)), 20)
            ]

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
    assert [(moment.beginning, moment.content_length, moment.chunk_count) for moment in moments] == [
        ("othe", 5, 1),
        ("know", 5, 1),
    ]


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
        assert [moment.memory_id for moment in reader.sessions.left_since(span, MemoryKind.REPORT, 1, 5)] == [
            left[-1].memory_id
        ]


def test_observations_are_those_on_the_reports_the_last_ones_oldest_first(storage: Storage) -> None:
    first, second = add(storage, new_memory("first")), add(storage, new_memory("second"))
    seen = [
        add(storage, new_memory(text, MemoryKind.REPORT_OBSERVATION, metadata={"parent_report_id": report}))
        for text, report in (("one", first), ("two", second), ("three", first))
    ]
    with storage.read() as reader:
        found = reader.memories.observations_on([first, second], 2, 3, Scope())
        assert [(one.id, one.report_id, one.beginning) for one in found] == [
            (seen[1], second, "two"),
            (seen[2], first, "thr"),
        ]
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
