"""Exports and imports lose or double nothing, and invalid files change nothing; metadata come back as they were."""

import gzip
import hashlib
import io
import itertools
import json
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from any_json import json_objects
from engines import column, execute
from faults.effort import effort
from inside import stop_counting, storage_of
from lattice import DIMENSIONS, LatticeEmbedder
from vector_memory.domain import STORED, TRAITS, Chunk, Fingerprint, MemoryKind, NewMemory, Page, Scope
from vector_memory.domain.validation import LARGEST
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import EmbeddingUnavailableError, NotFoundError, ValidationError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.texts.chunks import MAX_CHUNKS
from vector_memory.upkeep.export_lines import new_file
from vector_memory.upkeep.transfer import Imported

SMALL = Settings(embedding_model="toy", embedding_dim=DIMENSIONS, default_chunk_size=32, default_chunk_overlap=8)
EARLIER = Path(__file__).parent / "data" / "exports" / "a6eedf16.jsonl.gz"
HEADER = {"format": "vector-memory export", "version": 1, "memories": 1}
REPORT = "# Outage\n\nThe ledger was locked.\n\n## Cause\n\n" + "The nightly job waited for a lock. " * 20


class OtherModel(LatticeEmbedder):
    """The same vectors under another name."""

    fingerprint = Fingerprint("another", DIMENSIONS, "exact", "test")


class NoModel(LatticeEmbedder):
    """An engine whose model is not there."""

    @property
    def fingerprint(self) -> Fingerprint:  # type: ignore[override]
        raise EmbeddingUnavailableError("There is no model.")

    def token_spans(self, text: str) -> Any:
        raise EmbeddingUnavailableError(f"There is no model for {len(text)} characters.")


@contextmanager
def opened(embedder: type[LatticeEmbedder] = LatticeEmbedder) -> Iterator[SessionMemoryStore]:
    """Give a new, empty memory."""
    with (
        tempfile.TemporaryDirectory() as folder,
        SessionMemoryStore(Path(folder, "memory.db"), SMALL, embedder=embedder()) as store,
    ):
        yield store


@pytest.fixture
def other() -> Iterator[SessionMemoryStore]:
    """Another memory."""
    with opened() as store:
        yield store


def exported(store: SessionMemoryStore, session_id: str | None = None, *, with_vectors: bool = True) -> io.BytesIO:
    stream = io.BytesIO()
    store.export_memories(stream, session_id, with_vectors=with_vectors)
    stream.seek(0)
    return stream


def lines_of(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def as_stream(lines: list[dict[str, Any]]) -> io.BytesIO:
    return io.BytesIO("".join(json.dumps(line) + "\n" for line in lines).encode())


class Content(NamedTuple):
    """A memory without its id, and with what is derived from it. A report is named by its place in the list."""

    memory: dict[str, Any]
    chunks: list[tuple[Chunk, bool]]
    passages: list[tuple[object, ...]] | None


def contents(store: SessionMemoryStore) -> list[Content]:
    """Return everything that is stored, in order, but for ids and turns."""
    with storage_of(store).read() as reader:
        stored = reader.upkeep.portions.memories(0, 1_000)
    places = {one.memory.id: place for place, one in enumerate(stored)}
    found = []
    for one in stored:
        memory = asdict(one.memory)
        del memory["id"], memory["turn"]
        if isinstance(report_id := memory["metadata"].get("parent_report_id"), int):
            memory["metadata"]["parent_report_id"] = places.get(report_id)
        found.append(Content(memory, [(chunk.chunk, chunk.enriched) for chunk in one.chunks], one.places()))
    return found


LEFT_OUT = {"id", "chunk_id", "memory_id", "metadata", "access_count", "accessed_at"}


def answers(store: SessionMemoryStore) -> list[Any]:
    """Return what searches find, without ids, and without the counts of readings, which follow later."""
    found: list[Any] = []
    for kind in MemoryKind:
        search = store.search_chunks if TRAITS[kind].chunked else store.search_memories
        for query in ("lock ledger", "the cause of it"):
            for one in search(query, Scope(kind=kind), Page(limit=100)).model_dump()["results"]:
                notes = [note | {"id": None, "report_id": None} for note in one.pop("observations", [])]
                found.append({name: value for name, value in one.items() if name not in LEFT_OUT} | {"notes": notes})
    return found


words = st.sampled_from(["lock", "ledger", "cause", "# Title\n", "\n\n## Part\n\n", "```\ncode\n```\n", "é", "\x1b[2J"])
texts = st.lists(words, min_size=1, max_size=60).map(" ".join).filter(str.strip)
names = st.sampled_from(["a", "b", "ä\u2028", "x y"])
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8"))
metadata = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=5).filter(lambda name: name not in ("title", "category")),
    st.recursive(scalars, lambda inner: st.lists(inner, max_size=2), max_leaves=3),
    max_size=2,
)


@st.composite
def memories(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(list(MemoryKind)))
    memory = {
        "memory_type": kind,
        "content": draw(texts),
        "agent_id": draw(names),
        "session_iter": draw(st.integers(0, 12)),
        "task_code": draw(st.none() | names),
        "title": "T" if kind is MemoryKind.KNOWLEDGE_BASE else draw(st.none() | names),
        "description": draw(st.none() | names),
        "tags": draw(st.lists(names, max_size=2)),
        "metadata": draw(metadata),
    }
    return memory if not TRAITS[kind].session_scoped else memory | {"session_id": draw(names)}


def fill(store: SessionMemoryStore, wanted: list[dict[str, Any]]) -> None:
    """Store memories; observations are about the latest report, and each fifth memory is deleted again."""
    report: int | None = None
    for number, memory in enumerate(wanted):
        about = {"parent_report_id": report} if memory["memory_type"] == MemoryKind.REPORT_OBSERVATION else {}
        try:
            stored = store.store_memory(**memory, **about)
        except ValidationError:
            continue  # a duplicate
        if memory["memory_type"] == MemoryKind.REPORT:
            report = stored.memory_id
        elif number % 5 == 4:
            store.delete_memory(stored.memory_id or 0)
        if number % 3 == 0:
            store.get_memory_by_id(report or 0) if report else None
    stop_counting(store)  # readings are written, and not counted any more


@settings(max_examples=effort(quick=15, long=300))
@given(st.lists(memories(), max_size=8))
def test_an_import_equals_the_export(wanted: list[dict[str, Any]]) -> None:
    """Texts, places, times, counts, chunks, vectors and what searches find are the same; again, nothing is added."""
    with opened() as store, opened() as other:
        fill(store, wanted)
        stop_counting(other)
        stream = exported(store)
        total = len(contents(store))
        assert other.import_memories(stream) == Imported(added=total)
        assert contents(other) == contents(store)
        assert answers(other) == answers(store)
        stream.seek(0)
        assert other.import_memories(stream) == Imported(skipped=total)
        assert without_ids(exported(other)) == without_ids(stream)


def without_ids(stream: io.BytesIO) -> list[dict[str, Any]]:
    """Return the contents of an export, without the ids of reports, which differ between files."""
    lines = lines_of(stream)
    for line in lines:
        line.get("metadata", {}).pop("parent_report_id", None)
    return lines


def test_an_export_of_an_earlier_version_whose_files_are_refused_is_imported_completely(tmp_path: Path) -> None:
    """Texts, places, times, lifetimes, chunks and vectors are as exported; links lead to the memories they led to."""
    stream = io.BytesIO(gzip.decompress(EARLIER.read_bytes()))
    wanted = without_ids(stream)
    settings = Settings(embedding_model="toy", embedding_dim=64)
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=ToyEngine(64)) as store:
        store.delete_memory(store.store_memory("input_prompt", "It takes the first id.", session_id="s").memory_id or 0)
        assert store.import_memories(stream) == Imported(added=15)
        header, *lines = without_ids(exported(store))
        assert {line.pop("trust") for line in lines} == {0}, "that version graded nothing"
        assert [header | {"deleted": None}, *lines] == [wanted[0] | {"deleted": None}, *wanted[1:]]
        (report,) = store.search_chunks("lock of the backup", Scope(kind="report", session_id="ledger")).results
        assert report.title == "Outage, corrected"
        notes = ["The backup begins at 23:50, not at 23:55.", "The backup begins at 23:55."]
        assert [note.beginning for note in report.observations] == notes
        with storage_of(store).read() as reader:
            assert reader.memories.count(Scope(as_of=STORED), without_vectors=True) == 0
            frequencies = {tag.tag: tag.frequency for tag in reader.tags.canonical()}
        assert frequencies == {"backup": 1, "ledger": 1, "module:ledger": 1, "replica": 1}


def test_vectors_that_are_not_exported_are_recomputed(store: SessionMemoryStore, other: SessionMemoryStore) -> None:
    """After a backfill the import is the same as one with vectors."""
    store.store_memory("report", REPORT, session_id="s")
    store.store_memory("system_memory", "make test", session_id="s")
    assert other.import_memories(exported(store, with_vectors=False)) == Imported(added=2, without_vectors=2)
    other.backfill_embeddings()
    assert contents(other) == contents(store)
    assert answers(other) == answers(store)


def test_a_session_is_exported_alone(store: SessionMemoryStore, other: SessionMemoryStore) -> None:
    """What other sessions and the knowledge base hold is left out; a session without memories is an error."""
    store.store_memory("report", REPORT, session_id="s")
    store.store_memory("report", REPORT, session_id="t")
    store.store_memory("knowledge_base", "Locks are held.", title="Locks")
    other.import_memories(exported(store, "t"))
    assert [session.session_id for session in other.list_sessions().sessions] == ["t"]
    assert len(contents(other)) == 1
    with pytest.raises(NotFoundError, match="Nothing is stored in this session"):
        exported(store, "u")


def test_stored_memories_are_not_duplicated(store: SessionMemoryStore, other: SessionMemoryStore) -> None:
    """The same text with the same labels is skipped, and new memories are added to the stored ones."""
    for one in (store, other):
        one.store_memory("report", REPORT, session_id="s")
    store.store_memory("report", "Something new.", session_id="s")
    other.store_memory("report", "Something else.", session_id="s")
    assert other.import_memories(exported(store)) == Imported(added=1, skipped=1)
    assert len(contents(other)) == 3


def test_a_prompt_that_was_repeated_is_imported_as_often(store: SessionMemoryStore, other: SessionMemoryStore) -> None:
    """And once only, however often the import is repeated."""
    for second in (1, 2):
        memory = NewMemory.of("input_prompt", "Go on.", session_id="s", created_at=f"2026-01-01T00:00:0{second}Z")
        store.batches.store([memory])
    assert [other.import_memories(exported(store)).added for _ in range(2)] == [2, 0]


def test_what_was_deleted_stays_gone_in_a_memory_that_imports_all(
    store: SessionMemoryStore, other: SessionMemoryStore
) -> None:
    """Of one session nothing is told; and an import brings what it has, because somebody asks for it."""
    said = [NewMemory.of("report", REPORT, session_id="s", created_at=f"2026-01-0{day}T00:00:00Z") for day in (1, 2)]
    store.batches.store(said[:1])
    before = exported(store)
    store.delete_memory(1)
    store.store_memory("report", "Something else.", session_id="t")
    other.import_memories(exported(store, "t"))
    assert len(other.batches.new_among(said).new) == 1
    for _ in range(2):
        other.import_memories(exported(store))
        assert other.batches.new_among(said) == ([], 2)
    assert other.import_memories(before).added == 1


@pytest.mark.parametrize("name", ["keys", "traces"])
def test_traces_that_are_not_as_expected_are_refused(
    name: str, store: SessionMemoryStore, other: SessionMemoryStore
) -> None:
    store.store_memory("report", REPORT, session_id="s")
    store.delete_memory(1)
    header = json.loads(exported(store).read())
    header["deleted"][name][0] = "00"
    with pytest.raises(ValidationError, match=rf"Line 1: deleted\.{name}\.0: "):
        other.import_memories(io.BytesIO(json.dumps(header).encode()))


def test_a_fork_is_independent(store: SessionMemoryStore) -> None:
    """Under another id a session is there twice; the fork's observations are about the fork's reports."""
    report = store.store_memory("report", REPORT, session_id="s").memory_id
    store.store_memory("report_observation", "It runs at noon, too.", session_id="s", parent_report_id=report)
    before = contents(store)
    assert store.import_memories(exported(store, "s"), as_session="fork") == Imported(added=2)
    assert contents(store)[:2] == before
    forked, observation = contents(store)[2:]
    assert (forked.memory["session_id"], observation.memory["session_id"]) == ("fork", "fork")
    assert observation.memory["metadata"] == {"parent_report_id": 2}


def test_several_sessions_cannot_be_imported_as_one(store: SessionMemoryStore, other: SessionMemoryStore) -> None:
    """Two sessions under one id would be mixed up: it is refused, and nothing is changed."""
    for session in ("s", "t"):
        store.store_memory("report", REPORT, session_id=session)
    with pytest.raises(ValidationError, match="Line 3: a second session"):
        other.import_memories(exported(store), as_session="fork")
    assert not contents(other)


def test_an_observation_finds_its_report_in_another_session(
    store: SessionMemoryStore, other: SessionMemoryStore
) -> None:
    """A report that was not exported is found by what it says and where; without it the observation comes alone."""
    report = store.store_memory("report", REPORT, session_id="reports").memory_id
    store.store_memory("report_observation", "It runs at noon, too.", session_id="s", parent_report_id=report)
    stream = exported(store, "s")
    assert store.import_memories(stream, as_session="fork") == Imported(added=1)
    assert contents(store)[2].memory["metadata"] == {"parent_report_id": 0}
    stream.seek(0)
    other.store_memory("report", "Another report with the same id.", session_id="reports")
    assert other.import_memories(stream) == Imported(added=1, orphaned=1)
    assert contents(other)[1].memory["metadata"] == {}


def test_the_character_nul_of_an_earlier_export_is_replaced_and_counted(
    store: SessionMemoryStore, other: SessionMemoryStore
) -> None:
    store.store_memory("report", "# Dump\n\nThe line ends \ufffd\ufffd early.", session_id="s")
    header, line = lines_of(exported(store))
    text = line["content"].replace("\ufffd", "\0")
    line |= {"content": text, "content_hash": hashlib.sha256(text.encode()).hexdigest()}
    stream = as_stream([header, line])
    assert other.import_memories(stream) == Imported(added=1, nul_characters=2)
    assert contents(other) == contents(store)
    stream.seek(0)
    assert other.import_memories(stream) == Imported(skipped=1)


def test_an_interrupted_import_is_repeated(store: SessionMemoryStore, other: SessionMemoryStore) -> None:
    """Memories added before are kept, complete, and the same import adds the rest."""
    for number in range(4):
        store.store_memory("report", f"{REPORT} {number}", session_id="s")
    stream = exported(store)

    def interrupt(done: int, total: int) -> None:
        assert total == 4
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        other.import_memories(stream, on_progress=interrupt)
    assert contents(other) == contents(store)[:2]
    stream.seek(0)
    assert other.import_memories(stream) == Imported(added=2, skipped=2)
    assert contents(other) == contents(store)


@pytest.mark.parametrize("embedder", [OtherModel, NoModel])
def test_vectors_of_another_model_are_not_imported(store: SessionMemoryStore, embedder: type[LatticeEmbedder]) -> None:
    """The memories are there, without vectors, and no vectors of a model that is not in use get into an empty file."""
    store.store_memory("report", REPORT, session_id="s")
    with opened(embedder) as other:
        assert other.import_memories(exported(store)) == Imported(added=1, without_vectors=1)
        (memory,) = contents(other)
        assert not memory.passages
        assert memory.chunks == contents(store)[0].chunks
        assert other.search_chunks("ledger", Scope(kind=MemoryKind.REPORT), Page(limit=5), mode="keyword").results


def test_a_line_needs_only_kind_agent_and_text(other: SessionMemoryStore) -> None:
    """What other programs have can be imported: chunks are cut, and the times are those of the import."""
    line = {"memory_type": "report", "agent_id": "a", "session_id": "s", "content": REPORT}
    assert other.import_memories(as_stream([HEADER, line])) == Imported(added=1, without_vectors=1)
    other.backfill_embeddings()
    with opened() as direct:
        direct.store_memory("report", REPORT, session_id="s", agent_id="a")
        (mine,), (theirs,) = contents(other), contents(direct)
    assert mine[-2:] == theirs[-2:]


def change(name: str, value: Any) -> Callable[[list[dict[str, Any]]], None]:
    """Return what gives the memory in line 3 another value."""

    def apply(lines: list[dict[str, Any]]) -> None:
        lines[2][name] = value

    return apply


def change_first(part: str, name: str, value: Any) -> Callable[[list[dict[str, Any]]], None]:
    """Return what changes its first chunk or passage."""

    def apply(lines: list[dict[str, Any]]) -> None:
        lines[2][part][0][name] = value

    return apply


FAULTS = {
    "kind": (change("memory_type", "gossip"), "Line 3: memory_type must be one of session_context"),
    "no content": (change("content", ""), "Line 3: content must not be empty"),
    "another content": (change("content", "x"), "Line 3: the content has changed since the export"),
    "surrogate": (change("title", "\ud800"), "Line 3 is not valid JSON in UTF-8"),
    "type": (change("session_iter", "1"), "Line 3: session_iter: input should be a valid integer."),
    "unknown field": (change("colour", "red"), "Line 3: colour: extra inputs are not permitted."),
    "time": (change("created_at", "yesterday"), "Line 3: created_at: must be a time with a time zone"),
    "local time": (change("created_at", "2026-01-31T12:00:00"), "Line 3: created_at: must be a time with a time zone"),
    "time before the calendar": (
        change("created_at", "0001-01-01T00:00:00+14:00"),
        "Line 3: created_at: must be a time with a time zone",
    ),
    "count": (change("access_count", -1), "Line 3: access_count: input should be greater than or equal to 0."),
    "no session": (change("session_id", None), "Line 3: session_id must be a string."),
    "metadata": (change("metadata", {"x": "y" * 30_000}), "Line 3: metadata is 30"),
    "chunk beyond": (change_first("chunks", "end", 10**6), "Line 3: a chunk or passage is outside the content."),
    "empty chunk": (change_first("chunks", "end", 0), "Line 3: a chunk or passage is outside the content."),
    "no such chunk": (
        change_first("passages", "chunk", 99),
        "Line 3: a passage belongs to a chunk that does not exist.",
    ),
    "no chunk": (change_first("passages", "chunk", None), "Line 3: a passage belongs to a chunk that does not exist."),
    "no base64": (change_first("passages", "vector", "?"), "Line 3: a vector must be 16 float32 numbers of length"),
    "not a number": (
        change_first("passages", "vector", "AADAfw==" * 12),
        "Line 3: a vector must be 16 float32 numbers",
    ),
    "too few": (change_first("passages", "vector", "AACAPw=="), "Line 3: a vector must be 16 float32 numbers"),
    "no model": (lambda lines: lines[0].pop("vectors"), "Line 2: there are vectors, but the header does not name"),
    "cut off": (lambda lines: lines.pop(), "The header says 2 memories, but there are 1: export again."),
    "no header": (lambda lines: lines.pop(0), "Line 1 is not a header: choose a file written by `vector-memory"),
    "newer": (lambda lines: lines[0].update(version=2), "The version of the export's format is not 1"),
    "empty": (lambda lines: lines.clear(), "Line 1 is not a header"),
}


@pytest.mark.parametrize(("spoil", "sentence"), FAULTS.values(), ids=FAULTS)
def test_a_file_with_a_bad_line_changes_nothing(
    store: SessionMemoryStore, other: SessionMemoryStore, spoil: Callable[[list[dict[str, Any]]], Any], sentence: str
) -> None:
    """The message names the line and what is wrong with it; the lines before it are not imported either."""
    store.store_memory("report", REPORT, session_id="s")
    store.store_memory("report", f"{REPORT} Again.", session_id="s")
    lines = lines_of(exported(store))
    spoil(lines)
    with pytest.raises(ValidationError) as refused:
        other.import_memories(as_stream(lines))
    assert str(refused.value).startswith(sentence)
    assert REPORT[:20] not in str(refused.value)
    assert not contents(other)


@pytest.mark.parametrize("line", [b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"memory_type": 1}', b"7"])
def test_a_line_that_is_not_a_memory_is_refused(other: SessionMemoryStore, line: bytes) -> None:
    """Whatever the line contains, the answer is one sentence with its number."""
    with pytest.raises(ValidationError, match=r"^Line 2"):
        other.import_memories(io.BytesIO(as_stream([HEADER]).getvalue() + line))


class Sink(io.RawIOBase):
    """Takes everything and keeps nothing."""

    def write(self, data: Any) -> int:
        return len(data)


def test_an_export_holds_one_memory_at_a_time() -> None:
    """Exporting 20 times as much needs no more memory."""
    peaks = []
    with opened(NoModel) as store:
        for number in range(40):
            store.store_memory("system_memory", f"{number} " + "many words " * 10_000, session_id=f"s{number // 2}")
        for session in ("s0", None):
            tracemalloc.start()
            store.export_memories(Sink(), session)  # type: ignore[arg-type]
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_a_file_is_complete_or_does_not_exist(tmp_path: Path) -> None:
    """A failed export leaves the file that was there as it was, and no other; one that is there is not replaced."""
    target = tmp_path / "export.jsonl"

    def write(text: str, *, overwrite: bool, fail: bool = False) -> None:
        with new_file(target, overwrite=overwrite, databases=[Path(__file__)]) as stream:
            stream.write(text.encode())
            if fail:
                raise RuntimeError

    write("first", overwrite=False)
    with pytest.raises(ValidationError, match="already exists: choose another file, or add --overwrite"):
        write("second", overwrite=False)
    with pytest.raises(RuntimeError):
        write("third", overwrite=True, fail=True)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["first"]
    write("fourth", overwrite=True)
    assert target.read_text() == "fourth"
    assert target.stat().st_mode & 0o777 == 0o600


def test_tagged_memories_bring_their_tags(store: SessionMemoryStore, other: SessionMemoryStore) -> None:
    """Category and tags are the same, and the tags are canonical; those that were so already count once more."""
    store.tagged.store("Deploys happen on Fridays.", "workflow", ["deploying", "friday"])
    store.tagged.store("Deploys are announced.", None, ["deploying"])
    other.tagged.store("Fridays are short.", None, ["friday"])
    assert other.import_memories(exported(store)) == Imported(added=2)
    expected = [note.model_dump(exclude={"id"}) for note in store.tagged.list_recent().results]
    # The one that was stored here is newer than those that were stored elsewhere before.
    assert [note.model_dump(exclude={"id"}) for note in other.tagged.list_recent().results][1:] == expected
    assert execute(other, "select tag, frequency from canonical_tags order by tag") == [("deploying", 2), ("friday", 2)]


LONG_CHUNK = {"start": 0, "end": 4, "kind": "text", "token_count": 1, "headings": ["# A"], "level": 1}
LONG_CHUNK |= {"contains_code": False, "contains_table": False, "oversized": False}
TOO_LONG: dict[str, dict[str, Any]] = {
    "heading": {"chunks": [LONG_CHUNK | {"headings": ["#" * 3_000_000]}]},
    "headings": {"chunks": [LONG_CHUNK | {"headings": ["# A"] * 21}]},
    "kind of chunk": {"chunks": [LONG_CHUNK | {"kind": "k" * 201}]},
    "title": {"title": "t" * 501},
    "description": {"description": "d" * 5_001},
    "agent": {"agent_id": "a" * 201},
    "tag": {"tags": ["t" * 101]},
    "metadata": {"metadata": {"a": "m" * 20_000}},
    "name of a field": {"n" * 3_000_000: 1},
    "note": {"memory_type": "tagged_memory", "session_id": None, "content": "n" * 10_001},
    "category": {"memory_type": "tagged_memory", "session_id": None, "metadata": {"category": [1]}},
}


@pytest.mark.parametrize("changes", TOO_LONG.values(), ids=TOO_LONG)
def test_memories_that_no_tool_would_store_are_not_imported_and_the_error_is_short(
    other: SessionMemoryStore, changes: dict[str, Any]
) -> None:
    memory = {"memory_type": "report", "agent_id": "a", "session_id": "s", "content": "Text", **changes}
    with pytest.raises(ValidationError, match=r"^Line 2: ") as refused:
        other.import_memories(as_stream([HEADER, memory]))
    assert len(str(refused.value)) < 500
    assert contents(other) == []


def test_too_many_chunks_are_not_imported_but_cut_again(other: SessionMemoryStore) -> None:
    content = "ab " * (MAX_CHUNKS + 1)
    chunks = [LONG_CHUNK | {"start": 3 * number, "end": 3 * number + 1} for number in range(MAX_CHUNKS + 1)]
    memory = {"memory_type": "report", "agent_id": "a", "session_id": "s", "content": content, "chunks": chunks}
    assert other.import_memories(as_stream([HEADER, memory])) == Imported(added=1, without_vectors=1)
    assert other.reconstruct_document(1).chunk_count < MAX_CHUNKS
    assert "b" in column(other, "select content from memory_chunks where parent_id = 1 limit 1")[0]


T = TypeVar("T")
DEFAULT_CHUNKS = Settings(embedding_model="toy", embedding_dim=DIMENSIONS)
NUMBERS = itertools.count()
CASES: list[dict[str, Any]] = [
    {"category": [1], "parent_report_id": [1]},
    {"category": 10**30, "parent_report_id": 10**30},
    {"category": {"": None}, "parent_report_id": {"a": 1}},
    {"category": True, "parent_report_id": False, "title": False},
]

a_few = settings(max_examples=effort(quick=10, long=200))


@pytest.fixture(scope="module")
def plain_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    path = tmp_path_factory.mktemp("metadata") / "memory.db"
    with SessionMemoryStore(path, DEFAULT_CHUNKS, embedder=LatticeEmbedder()) as opened:
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
    plain_store: SessionMemoryStore, kind: MemoryKind, metadata: dict[str, Any]
) -> None:
    facts = {"title": "T", "category": "general"} if kind is MemoryKind.KNOWLEDGE_BASE else {}
    sent = arguments(kind)
    receipt, problem = tried(lambda: plain_store.store_memory(kind, metadata=metadata, **sent))
    if receipt is None:
        assert "metadata" in problem
        return
    assert plain_store.get_memory_by_id(receipt.memory_id or 0).memory.metadata == metadata | facts


@pytest.mark.parametrize("kind", MemoryKind)
@a_few
@with_cases
@given(json_objects)
def test_an_import_stores_metadata_as_they_are_or_refuses_them(
    plain_store: SessionMemoryStore, kind: MemoryKind, metadata: dict[str, Any]
) -> None:
    memory = {"memory_type": kind, "metadata": metadata, **arguments(kind)}
    added, problem = tried(lambda: plain_store.import_memories(as_stream([HEADER, memory])))
    if added is None:
        assert problem.startswith("Line 2: ")
        return
    (found,) = plain_store.search_scoped(Scope(kind=kind), Page(limit=1)).results
    assert found.content == memory["content"]
    report = metadata.get("parent_report_id")
    # What may be an id means nothing in another file.
    is_orphan = kind is MemoryKind.REPORT_OBSERVATION and type(report) is int and 0 <= report < LARGEST
    expected = {name: value for name, value in metadata.items() if not (is_orphan and name == "parent_report_id")}
    assert found.metadata == expected
    plain_store.tagged.list_recent()


@pytest.mark.parametrize("metadata", [{1: 2}, {"a": (1,)}, {"a": {1}}, {"a": b"x"}], ids=str)
def test_values_that_json_would_change_are_refused(plain_store: SessionMemoryStore, metadata: dict[Any, Any]) -> None:
    with pytest.raises(ValidationError, match="only JSON values"):
        plain_store.store_memory("report", metadata=metadata, **arguments(MemoryKind.REPORT))


def test_notes_with_an_unknown_category_are_shown_as_other(tmp_path: Path) -> None:
    """Earlier releases imported them."""
    with SessionMemoryStore(tmp_path / "memory.db", DEFAULT_CHUNKS, embedder=LatticeEmbedder()) as plain_store:
        note = plain_store.tagged.store("A note.", "security").memory_id or 0
        for number, odd in enumerate(["[1]", "5", "true", '"x"', "null", '{"a": 1}']):
            plain_store.tagged.store(f"Odd {number}.")
            execute(
                plain_store,
                "update session_memories set metadata = ? where id = ?",
                f'{{"category":{odd}}}',
                note + 1 + number,
            )
        assert plain_store.tagged.stats().categories == {"other": 6, "security": 1}
        assert [found.category for found in plain_store.tagged.list_recent().results] == ["other"] * 6 + ["security"]
