"""Exports memories as JSON Lines, and imports them without storing a memory twice.

An import reads the file twice, line by line: first it checks every line, then it adds each memory in one transaction.
An invalid file therefore changes nothing, and an interrupted import can be repeated.
"""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import IO, NamedTuple

import numpy as np

from vector_memory.answers.mapping import replaced_by
from vector_memory.domain import Fingerprint, MemoryKind, NewMemory, Scope, derived_from, utc_now, with_sources
from vector_memory.domain.fields import WRITTEN, Trust
from vector_memory.domain.text import counted
from vector_memory.domain.validation import MAX_IDENTIFIER, MAX_TITLE, check_label, digits
from vector_memory.errors import EmbeddingUnavailableError, NotFoundError, ValidationError
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.queries.deletions import DeletedText, DeletedTexts
from vector_memory.storage.records import Embedded, EmbeddedPassage, History, Memory
from vector_memory.texts.chunks import MAX_CHUNKS
from vector_memory.texts.redaction import redact_within
from vector_memory.upkeep import export_lines
from vector_memory.upkeep.backfill import Progress
from vector_memory.writing.indexer import Indexer
from vector_memory.writing.pending import settled
from vector_memory.writing.writer import MemoryWriter, hash_of

PARENT = "parent_report_id"

REDACTED = {*WRITTEN, "chunks"}
"""Fields of a line from which secrets are removed; those of chunks are headings."""

MAX_PASSAGES = 4 * MAX_CHUNKS
"""More than any memory has: most passages have at least 64 tokens, and each chunk at most one shorter one."""


class Exported(NamedTuple):
    """The number of memories written, and whether their vectors were written too."""

    memories: int
    with_vectors: bool


class Imported(NamedTuple):
    """The numbers of memories of an import.

    `skipped`: already stored. `without_vectors`: added, but not embedded yet. `orphaned`: observations added without
    their report, which is neither in the export nor in the memory. `nul_characters`: those that U+FFFD replaced.
    `expired`: left out, because they have expired since the export.
    """

    added: int = 0
    skipped: int = 0
    without_vectors: int = 0
    orphaned: int = 0
    nul_characters: int = 0
    expired: int = 0


class Transfer:
    """Writes memories to streams, and adds memories from streams."""

    def __init__(self, storage: Storage, indexer: Indexer, writer: MemoryWriter) -> None:
        self._storage = storage
        self._indexer = indexer
        self._writer = writer

    def write(
        self, target: IO[bytes], scope: Scope, *, with_vectors: bool, on_progress: Progress | None = None
    ) -> Exported:
        """Write the memories of a session, or all, from one snapshot. Only one memory at a time is in memory.

        Raises NotFoundError if nothing is stored in the session.
        """
        with self._storage.read() as reader:
            ids, session_id = reader.memories.ids(scope), scope.session_id
            if session_id is not None and not ids:
                raise NotFoundError("Nothing is stored in this session: `vector-memory sessions` lists the sessions.")
            model = reader.vectors.fingerprint() if with_vectors else None
            header = export_lines.Header(
                session_id=session_id,
                memories=len(ids),
                vectors=None if model is None else export_lines.ModelLine(**asdict(model)),
                deleted=traces_line(reader) if session_id is None else None,
            )
            target.write(header.encoded())
            superseded = replaced_by(reader, ids)
            for done, memory_id in enumerate(ids, start=1):
                memory = reader.memories.get(memory_id)
                line = memory_line(reader, memory, superseded.get(memory_id, ()), with_vectors=model is not None)
                target.write(line.encoded())
                if on_progress is not None:
                    on_progress(done, len(ids))
        return Exported(len(ids), model is not None)

    def read(
        self, source: IO[bytes], as_session: str | None, on_progress: Progress | None = None, most: Trust = Trust.HIGH
    ) -> Imported:
        """Add the memories of a seekable stream. `as_session` replaces the id of the one session in the export.

        Each is trusted as the export says, at `most` so far; if that says nothing, as this memory's rules say.

        If a line is invalid, this changes nothing and raises a ValidationError that gives the line's number. Raises
        QuotaExceededError when the memory is full; what was added stays.
        """
        if as_session is not None:
            check_label("The new session id", as_session, MAX_IDENTIFIER)
        redacts = self._writer.redacts()
        self._writer.require_kept(session_id=as_session)
        header, session_id = checked_header(source, one_session=as_session is not None, redacts=redacts)
        usable, hashes = self._usable(header), dict[str, str]()
        result = Imported()
        if header.deleted is not None:
            with self._storage.write() as writer:
                writer.add_deletions(traces_in(header.deleted))
        for done, (_, line) in enumerate(memory_lines(source), start=1):
            moved = line if as_session is None else renamed(line, session_id, as_session)
            moved = redacted_line(moved, hashes) if redacts else moved
            added = self._add(without_excess_chunks(moved), usable, most)
            result = Imported(*map(sum, zip(result, added, strict=True)))
            if on_progress is not None:
                on_progress(done, header.memories)
        return result

    def _usable(self, header: export_lines.Header) -> Fingerprint | None:
        """Return the fingerprint of the export's vectors if they can be used in this file, else None.

        A file without vectors accepts only those of the configured model: others could not be searched.
        """
        if header.vectors is None:
            return None
        model = header.vectors.fingerprint()
        with self._storage.read() as reader:
            present = reader.vectors.fingerprint()
        try:
            return model if model == (present or self._indexer.fingerprint) else None
        except EmbeddingUnavailableError:
            return None

    def _add(self, line: export_lines.MemoryLine, model: Fingerprint | None, most: Trust) -> Imported:
        nul_characters, line = line.content.count("\0"), export_lines.storable_line(line)
        with self._storage.read() as reader:
            if line.expires_at is not None and line.expires_at <= reader.now():
                return Imported(expired=1)
            copy, older = found_here(reader, with_report(reader, line)[0], line)
            if copy is not None and not older:
                return Imported(skipped=1)
        derived = self._indexer.derived(line.memory_type, line.title, line.content, line.stored_chunks())
        if model is not None and line.passages:
            found = embedded(line, model)
            with self._storage.read() as reader:
                links = self._indexer.links_of(reader, line.memory_type, line.content, found)
            derived = replace(derived, embedded=found, links=links)
        with self._storage.write() as writer:
            new, orphaned = with_report(writer, line)
            copy, older = found_here(writer, new, line)
            if copy is not None and max(older, default=0) < copy:
                writer.supersede(copy, older)
                return Imported(skipped=1)
            self._writer.room.require(writer)
            new = settled(writer, self._writer.graded(new, line.trust, most), hash_of(line.content))
            history = history_of(line)
            new = replace(new, supersedes=older if copy is None else (*older, copy))
            memory_id = writer.add_memory(new, derived, content_hash=hash_of(line.content), history=history)
            if line.pinned:
                writer.pin(memory_id, pinned=True)
            if new.kind is MemoryKind.TAGGED:
                for tag in new.tags:
                    writer.count_tag(tag, None, history.created_at)
        return Imported(
            added=1, without_vectors=int(derived.embedded is None), orphaned=orphaned, nul_characters=nul_characters
        )


def traces_line(reader: Reader) -> export_lines.TracesLine | None:
    """Return the traces of deleted memories; None if there are none."""
    keys, rows = reader.deletions.get_all()
    traces = [
        export_lines.TraceLine(digest=digest.hex(), created_at=made, deleted_at=gone) for digest, made, gone in rows
    ]
    return export_lines.TracesLine(keys=[key.hex() for key in keys], traces=traces) if keys else None


def traces_in(line: export_lines.TracesLine) -> DeletedTexts:
    """Return the traces of a line."""
    rows = [DeletedText(bytes.fromhex(one.digest), one.created_at, one.deleted_at) for one in line.traces]
    return DeletedTexts([bytes.fromhex(key) for key in line.keys], rows)


def memory_line(
    reader: Reader, memory: Memory, superseded: Sequence[int], *, with_vectors: bool
) -> export_lines.MemoryLine:
    """Return the line of a memory, which supersedes these."""
    passages = reader.vectors.passages_of(memory) if with_vectors else []
    fields = {name: getattr(memory, name) for name in export_lines.MemoryLine.model_fields if hasattr(memory, name)}
    parents = reader.memories.get_all(derived_from(memory.came_from)).values()
    return export_lines.MemoryLine(
        **fields | {"came_from": with_sources(memory.came_from)},
        derived_from=list(map(export_lines.MemoryKey.of, parents)),
        parent=report_of(reader, memory),
        supersedes=list(map(export_lines.MemoryKey.of, reader.memories.get_all(superseded).values())),
        evidence=[
            export_lines.EvidenceLine(**asdict(one)) for one in reader.evidence.of([memory.id]).get(memory.id, ())
        ],
        chunks=[
            export_lines.ChunkLine(
                # The original server's headings may be longer than this one allows.
                headings=[heading[:MAX_TITLE] for heading in chunk.headings[: export_lines.MAX_HEADINGS]],
                **{name: getattr(chunk, name) for name in export_lines.ChunkLine.model_fields if name != "headings"},
            )
            for chunk in (stored.chunk for stored in reader.chunks.of(memory.id))
        ],
        passages=[
            export_lines.PassageLine(
                chunk=passage.chunk,
                start=passage.start,
                end=passage.end,
                vector=base64.b64encode(passage.vector.astype("<f4").tobytes()).decode(),
                states=None if passage.states is None else base64.b64encode(passage.states).decode(),
            )
            for passage in passages
        ],
    )


def report_of(reader: Reader, memory: Memory) -> export_lines.ReportKey | None:
    """Return the key of the report that an observation is about: its id means nothing in another file."""
    report_id = report_id_in(memory.memory_type, memory.metadata)
    report = None if report_id is None else reader.memories.get_all([report_id]).get(report_id)
    return None if report is None else export_lines.ReportKey.of(report)


def report_id_in(memory_type: str, metadata: dict[str, object]) -> int | None:
    """Return the id of the report that a memory is about, if it is an observation and names one."""
    match metadata.get(PARENT):
        # Callers may store anything under this name.
        case int(report_id) if memory_type == MemoryKind.REPORT_OBSERVATION and digits(report_id).isdigit():
            return report_id
        case _:
            return None


def without_excess_chunks(line: export_lines.MemoryLine) -> export_lines.MemoryLine:
    """Return the line, without chunks and passages if there are too many; they are then derived from the text."""
    if len(line.chunks) <= MAX_CHUNKS and len(line.passages) <= MAX_PASSAGES:
        return line
    return line.model_copy(update={"chunks": [], "passages": []})


def found_here(reader: Reader, new: NewMemory, line: export_lines.MemoryLine) -> tuple[int | None, tuple[int, ...]]:
    """Return the id of a line's memory if it is stored, and what it must supersede.

    It counts as stored if it is current, or superseded but of the same time. Existing supersessions then stay
    unchanged.
    """
    at = line.created_at if new.kind is MemoryKind.INPUT_PROMPT else None  # people repeat themselves
    content_hash, older = hash_of(line.content), superseded_here(reader, line.supersedes, history_of(line).created_at)
    copy = reader.find_duplicate(new, content_hash, at)
    if copy is None and line.created_at and line.created_at in reader.times_of_duplicates(new, content_hash):
        key = {name: getattr(line, name) for name in export_lines.MemoryKey.model_fields}
        copy = reader.memories.find_copy(key | {"content_hash": content_hash})
    if copy is None or not older:
        return copy, older
    known = {copy, *(link.older_id for link in reader.lifecycle.superseding(older))}
    return copy, tuple(number for number in older if number not in known)


def superseded_here(reader: Reader, keys: Sequence[export_lines.MemoryKey], at: str) -> tuple[int, ...]:
    """Return the memories with these keys. One with the same text that was stored after a time is a different one."""
    times = {reader.memories.find_copy(key.model_dump()): key.created_at for key in keys}
    found = reader.memories.get_all([number for number in times if number is not None])
    return tuple(number for number, one in found.items() if one.created_at <= max(at, times[number]))


def with_report(reader: Reader, line: export_lines.MemoryLine) -> tuple[NewMemory, bool]:
    """Return the memory to store for a line, with its report's id in this file, and whether that report is missing.

    Its sources have the ids of this file, too.
    """
    new, parents = line.new_memory(), map(reader.memories.find_copy, map(dict, line.derived_from))
    new = replace(new, came_from=with_sources(new.came_from, [one for one in parents if one is not None]))
    if report_id_in(new.kind, new.metadata) is None:
        return new, False
    others = {name: value for name, value in new.metadata.items() if name != PARENT}
    report_id = None if line.parent is None else reader.memories.find_copy(line.parent.model_dump())
    if report_id is None:
        return replace(new, metadata=others), True
    return replace(new, metadata=others | {PARENT: report_id}, parent_report_id=report_id), False


def redacted_line(line: export_lines.MemoryLine, hashes: dict[str, str]) -> export_lines.MemoryLine:
    """Return the line without secrets, and without the chunks and vectors of a text that had some.

    `hashes`: of redacted texts, by those of the texts in the export, which later lines name; this one's is added.
    """
    kept = line.with_keys(lambda key: key.known_as(hashes))
    texts, count = redact_within(line.model_dump(include=REDACTED))
    if not count:
        return kept
    hashes[hash_of(line.content)] = hash_of(texts["content"])
    return kept.model_copy(update=texts | {"chunks": [], "passages": [], "content_hash": None})


def renamed(line: export_lines.MemoryLine, session_id: str | None, new_id: str) -> export_lines.MemoryLine:
    """Return the line with the session's new id. A parent report in another session keeps its own."""
    moved = line.with_keys(lambda key: key.moved(session_id, new_id))
    return moved.model_copy(update={"session_id": new_id}) if line.session_id == session_id else moved


def history_of(line: export_lines.MemoryLine) -> History:
    """Return when a memory was stored, changed and read. Missing times default to `created_at`, and that to now."""
    at = line.created_at or utc_now()
    is_dated = line.created_at is not None
    return History(at, line.updated_at or at, line.accessed_at or at, line.access_count, is_dated=is_dated)


def embedded(line: export_lines.MemoryLine, model: Fingerprint) -> Embedded:
    """Return the passages of a line with their vectors."""
    passages = [EmbeddedPassage(passage.chunk or 0, passage.start, passage.end) for passage in line.passages]
    vectors = np.stack([passage.numbers() for passage in line.passages])
    states = [packed for passage in line.passages if (packed := passage.packed()) is not None]
    return Embedded(passages, vectors, model, states if len(states) == len(passages) else None)


def memory_lines(source: IO[bytes]) -> Iterator[tuple[int, export_lines.MemoryLine]]:
    """Yield the memories of an export with the numbers of their lines."""
    lines = export_lines.numbered_lines(source)
    next(lines, None)
    for number, line in lines:
        yield number, export_lines.parse_memory(number, line)


def checked_header(source: IO[bytes], *, one_session: bool, redacts: bool) -> tuple[export_lines.Header, str | None]:
    """Check every line of an export; return its header and the first session id in it.

    The stream's position is unchanged afterwards. Raises ValidationError if a line is invalid, or with `one_session` if
    the export contains several sessions.
    """
    start = source.tell()
    header = export_lines.parse_header(next(export_lines.numbered_lines(source), (1, b""))[1])
    source.seek(start)
    memories_found, session_id = 0, None
    for number, line in memory_lines(source):
        export_lines.check_memory(number, line, header, redacts=redacts)
        memories_found += 1
        session_id = session_id or line.session_id
        if one_session and line.session_id not in (None, session_id):
            raise ValidationError(
                f"Line {number}: a second session, but --as needs an export of one session: export that session by its "
                "id."
            )
    if memories_found != header.memories:
        raise ValidationError(
            f"The header says {counted(header.memories, 'memory', 'memories')}, but there are {memories_found:,}: "
            "export again."
        )
    source.seek(start)
    return header, session_id
