"""The lines of an export: their fields, and how they are read and checked. docs/moving.md describes the format."""

import base64
import json
import re
import stat
import tempfile
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import not_
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal, Self, TypeVar

import numpy as np
import pydantic
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from vector_memory.domain import (
    SENT,
    SHARED_AGENT,
    TRAITS,
    Chunk,
    Evidence,
    Fingerprint,
    MemoryKind,
    NewMemory,
    Trust,
    validation,
)
from vector_memory.domain.evidence import MAX_PATH, MOST
from vector_memory.domain.text import without_nul
from vector_memory.domain.times import utc
from vector_memory.embedding.token_states import bytes_per_state
from vector_memory.errors import DatabaseError, ValidationError
from vector_memory.storage.disk.drafts import DATABASE, Rules, draft_of
from vector_memory.storage.records import Memory
from vector_memory.storage.sqlite.copying import ForeignNote, foreign_notes
from vector_memory.tagged.tags import CATEGORIES, OTHER, normalized_tag
from vector_memory.texts.redaction import require_no_secret
from vector_memory.writing.writer import hash_of

FORMAT: Final = "vector-memory export"
FORMAT_VERSION: Final = 1

MAX_LINE_BYTES = 256_000_000
"""The longest memory with vectors of 384 numbers takes 10 MB."""

SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
UNIT_TOLERANCE = 1e-3

MAX_HEADINGS = 20
"""Maximum number of headings that enclose a chunk, each at most as long as a title."""

FIELD_SHOWN = 40
"""Maximum number of characters shown of an unknown field name."""

Count = Annotated[int, Field(ge=0, le=1 << 53)]
Name = Annotated[str, Field(max_length=validation.MAX_IDENTIFIER)]
HeadingText = Annotated[str, Field(max_length=validation.MAX_TITLE)]


Sources = Annotated[
    list[Annotated[str, Field(max_length=validation.MAX_SOURCE)]], Field(max_length=validation.MAX_SOURCES)
]
MAX_FACTS = 8
"""Maximum number of facts about how a memory came."""

Time = Annotated[str, AfterValidator(utc)]


class Line(BaseModel):
    """Base of all lines."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    def encoded(self) -> bytes:
        """Return the line as UTF-8 with a line feed."""
        return json.dumps(self.model_dump(), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class ModelLine(Line):
    """The fingerprint of the vectors."""

    model: Name
    dimensions: int
    precision: Name
    engine: Name

    def fingerprint(self) -> Fingerprint:
        """Return it as a value."""
        return Fingerprint(**self.model_dump())


class TraceLine(Line):
    """The trace of a deleted memory: a keyed hash in hex, and when it was created and deleted."""

    digest: Annotated[str, Field(pattern="^([0-9a-f]{2}){16}$")]
    created_at: Time
    deleted_at: Time


class TracesLine(Line):
    """All traces of a memory, and the keys of their hashes in hex."""

    keys: list[Annotated[str, Field(pattern="^([0-9a-f]{2}){32}$")]]
    traces: list[TraceLine]


class Header(Line):
    """The first line. `session_id`: the exported session, or None for all. `vectors`: their fingerprint, if any.

    `deleted`: what is left of deleted memories, if all are exported.
    """

    format: Literal["vector-memory export"] = FORMAT
    version: Literal[1] = FORMAT_VERSION
    session_id: Name | None = None
    memories: Count
    vectors: ModelLine | None = None
    deleted: TracesLine | None = Field(default=None, exclude_if=lambda deleted: deleted is None)


class StretchLine(Line):
    """A part of a content, as a half-open range of characters."""

    start: Count
    end: Count


class ChunkLine(StretchLine):
    """A chunk; its text is that part of the content."""

    kind: Name
    token_count: Count
    headings: Annotated[list[HeadingText], Field(max_length=MAX_HEADINGS)]
    level: Count
    contains_code: bool
    contains_table: bool
    oversized: bool


class PassageLine(StretchLine):
    """A passage with its vector, little-endian float32 in base64; `chunk`: the position of its chunk, or None.

    `states`: those of its tokens, in base64, if they are kept.
    """

    chunk: Count | None
    vector: str
    states: str | None = None

    def packed(self) -> bytes | None:
        """Return the states of its tokens. Raises ValueError."""
        return None if self.states is None else base64.b64decode(self.states, validate=True)

    def numbers(self) -> NDArray[np.float32]:
        """Return the vector, shape (dimensions,). Raises ValueError."""
        return np.frombuffer(base64.b64decode(self.vector, validate=True), "<f4").astype(np.float32)


class ReportKey(Line):
    """What identifies a report in every file: its content's hash and its session, iteration, agent and task."""

    content_hash: Name
    agent_id: Name
    session_id: Name | None
    session_iter: Count
    task_code: Name | None

    @classmethod
    def of(cls, memory: Memory) -> Self:
        """Return the key of a memory."""
        return cls(**{name: getattr(memory, name) for name in cls.model_fields})

    def known_as(self, hashes: Mapping[str, str]) -> Self:
        """Return the key with the hash that its text has here, by those of the texts in the export."""
        return self.model_copy(update={"content_hash": hashes.get(self.content_hash, self.content_hash)})

    def moved(self, session_id: str | None, new_id: str) -> Self:
        """Return the key with the new id of its session if that is the one."""
        return self.model_copy(update={"session_id": new_id}) if self.session_id == session_id else self


class MemoryKey(ReportKey):
    """What identifies a memory in every file: also its kind, and its time among those with the same text."""

    memory_type: Name
    created_at: Time


class EvidenceLine(Line):
    """Lines of a file that a memory is about; see `domain.evidence`."""

    path: Annotated[str, Field(min_length=1, max_length=MAX_PATH)]
    first_line: Count | None = None
    last_line: Count | None = None
    at_commit: Name | None = None
    project: str | None = None
    lines_hash: Name | None = None
    lines_sum: Count | None = None
    file_hash: Name | None = None
    file_size: Count | None = None
    file_mtime: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None


class MemoryLine(Line):
    """A memory. Only the first three fields are required. `parent`: the report that an observation is about.

    `supersedes`, `derived_from`: the memories that it replaced, and that are sources of it, whose lines precede its
    own. `trust`: None: the rules of the memory that imports it decide.
    """

    memory_type: str
    agent_id: str
    content: str
    session_id: str | None = None
    session_iter: Annotated[int, Field(ge=0, le=999_999_999)] = 1
    task_code: str | None = None
    title: str | None = None
    description: str | None = None
    tags: list[str] = []
    metadata: dict[str, Any] = {}
    came_from: Annotated[dict[Name, Name | Sources], Field(max_length=MAX_FACTS)] = Field(
        default={}, exclude_if=lambda came_from: not came_from
    )
    trust: Annotated[int, Field(ge=Trust.LOW.level, le=Trust.HIGH.level)] | None = Field(default=None)
    content_hash: str | None = None
    created_at: Time | None = None
    updated_at: Time | None = None
    accessed_at: Time | None = None
    access_count: Count = 0
    expires_at: Time | None = Field(default=None, exclude_if=lambda at: at is None)
    pinned: bool = Field(default=False, exclude_if=lambda pinned: not pinned)
    parent: ReportKey | None = None
    supersedes: list[MemoryKey] = []
    derived_from: list[MemoryKey] = Field(default=[], max_length=validation.MAX_SOURCES, exclude_if=not_)
    evidence: list[EvidenceLine] = Field(default=[], max_length=MOST, exclude_if=not_)
    chunks: list[ChunkLine] = []
    passages: list[PassageLine] = []

    def new_memory(self) -> NewMemory:
        """Return the memory to store. Raises ValidationError."""
        return NewMemory(
            kind=validation.parse_choice("memory_type", self.memory_type, MemoryKind),
            tags=validation.check_tags(self.tags),
            metadata=validation.check_metadata(self.metadata),
            evidence=tuple(Evidence(**vars(one)) for one in self.evidence),
            **self.model_dump(include=UNCHANGED),
        )

    def with_keys(self, change: Callable[[Any], Any]) -> Self:
        """Return the line with the changed keys of the memories that it names."""
        changed = {name: list(map(change, getattr(self, name))) for name in ("supersedes", "derived_from")}
        return self.model_copy(update=changed | {"parent": self.parent and change(self.parent)})

    def stored_chunks(self) -> list[Chunk]:
        """Return the chunks to store."""
        return [
            Chunk(
                index=index,
                text=self.content[line.start : line.end],
                headings=tuple(line.headings),
                **line.model_dump(exclude={"headings"}),
            )
            for index, line in enumerate(self.chunks)
        ]


UNCHANGED = SENT.keys() - {"tags"} | {"content", "came_from", "expires_at"}
"""Fields of a line that a new memory has as they are."""

L = TypeVar("L", bound=Line)


def numbered_lines(source: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers. Raises ValidationError if a line is too long."""
    for number, line in enumerate(iter(lambda: source.readline(MAX_LINE_BYTES), b""), start=1):
        if len(line) == MAX_LINE_BYTES:
            raise ValidationError(
                f"Line {number} has {MAX_LINE_BYTES:,} bytes or more: choose a file written by `vector-memory export`."
            )
        if line.strip():
            yield number, line.removeprefix(BOM_UTF8)


def parse_header(line: bytes) -> Header:
    """Parse the first line of an export. Raises ValidationError if it is not a header, or has another version."""
    value = _json(1, line) if line.startswith(b"{") else None
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ValidationError("Line 1 is not a header: choose a file written by `vector-memory export`.")
    if value.get("version") != FORMAT_VERSION:
        raise ValidationError(
            f"The version of the export's format is not {FORMAT_VERSION}, which this release reads: upgrade "
            "vector-memory."
        )
    return _validated(Header, 1, value)


def parse_memory(number: int, line: bytes) -> MemoryLine:
    """Parse the line of a memory, without checking that it can be stored. Raises ValidationError."""
    return _validated(MemoryLine, number, _json(number, line))


def check_memory(number: int, line: MemoryLine, header: Header, *, redacts: bool) -> None:
    """Raise ValidationError unless the memory of a line can be stored. `redacts`: names may have no secrets."""
    try:
        storable_line(line).new_memory()
        if redacts:
            require_no_secret(session_id=line.session_id, agent_id=line.agent_id, task_code=line.task_code)
        problem = next(_problems(line, header.vectors), None)
    except ValidationError as error:
        problem = str(error)
    if problem:
        raise ValidationError(f"Line {number}: {problem}")


def storable_line(line: MemoryLine) -> MemoryLine:
    """Return a line whose content every engine stores: exports of other releases can contain the character NUL."""
    if "\0" not in line.content:
        return line
    return line.model_copy(update={"content": without_nul(line.content), "content_hash": None})


def _problems(line: MemoryLine, model: ModelLine | None) -> Iterator[str]:
    """Yield the problems of a memory whose own fields are valid."""
    chunked = TRAITS[validation.parse_choice("memory_type", line.memory_type, MemoryKind)].chunked
    stretches: Sequence[StretchLine] = (*line.chunks, *line.passages)
    if line.memory_type == MemoryKind.TAGGED:
        yield from _problems_of_note(line)
    if line.content_hash not in (None, hash_of(line.content)):
        yield "the content has changed since the export: its SHA-256 differs."
    if line.chunks and not chunked:
        yield f"a {line.memory_type} cannot have chunks."
    if not all(part.start < part.end <= len(line.content) for part in stretches):
        yield "a chunk or passage is outside the content."
    if line.passages and model is None:
        yield "there are vectors, but the header does not name their model."
    chunks = range(len(line.chunks)) if chunked else (None,)
    if not all(passage.chunk in chunks for passage in line.passages):
        yield "a passage belongs to a chunk that does not exist."
    if model and not all(_is_unit_vector(passage, model.dimensions) for passage in line.passages):
        yield f"a vector must be {model.dimensions} float32 numbers of length 1 in base64."


def _problems_of_note(line: MemoryLine) -> Iterator[str]:
    """Yield the problems for which the tools for tagged memories would refuse a note."""
    if len(line.content) > validation.MAX_NOTE:
        yield f"content is {len(line.content):,} characters long: a tagged memory has at most {validation.MAX_NOTE:,}."
    if line.metadata.get("category", CATEGORIES[-1]) not in CATEGORIES:
        yield f"metadata.category must be one of {', '.join(CATEGORIES)}, or omitted."


def _is_unit_vector(passage: PassageLine, dimensions: int) -> bool:
    try:
        vector, states = passage.numbers(), passage.packed() or b""
    except ValueError:
        return False
    if len(states) % bytes_per_state(dimensions):
        return False
    return len(vector) == dimensions and abs(float(np.linalg.norm(vector)) - 1) < UNIT_TOLERANCE


def _json(number: int, line: bytes) -> object:
    try:
        value = json.loads(line)
        if SURROGATE.search(line):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ValidationError(f"Line {number} is not valid JSON in UTF-8: export again.") from None
    return value


def _validated(kind: type[L], number: int, value: object) -> L:
    try:
        return kind.model_validate(value)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part)[:FIELD_SHOWN] for part in first["loc"]) or "the line"
        problem = first["msg"].removeprefix("Value error, ")
        raise ValidationError(f"Line {number}: {name}: {problem[:1].lower()}{problem[1:]}.") from None


# The files of exports and reports, and the database of the tagged memory server, which is read as an export.


@contextmanager
def new_file(target: Path, *, overwrite: bool, databases: Sequence[Path]) -> Iterator[IO[bytes]]:
    """Yield a stream to a file that exists, complete, only after the block succeeds.

    Pipes and terminals are written to directly. Raises ValidationError if the file exists and `overwrite` is false, or
    if it is one of `databases` or any other, which are never replaced; DatabaseError if it cannot be written.
    """
    if is_stream(target):
        try:
            with target.open("wb") as stream:
                yield stream
        except BrokenPipeError:  # its reader is gone, as that of standard output may be
            raise
        except OSError as error:
            raise DatabaseError(f"{target} could not be written ({error.strerror}): choose another path.") from error
        return
    with draft_of(target, Rules(overwrite=overwrite, databases=databases)) as draft:
        with draft.open() as stream:
            yield stream
        draft.publish()


def is_stream(target: Path) -> bool:
    """Whether a path is a pipe or a character device, such as a terminal."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def is_sqlite(source: IO[bytes]) -> bool:
    """Return whether a seekable stream is an SQLite database; its position is unchanged afterwards."""
    start = source.tell()
    head = source.read(len(DATABASE))
    source.seek(start)
    return head == DATABASE


@contextmanager
def notes_as_export(path: Path) -> Iterator[IO[bytes]]:
    """Yield the notes in a file as a seekable export. Raises ValidationError for any other database, DatabaseError."""
    with tempfile.TemporaryFile() as body, tempfile.TemporaryFile() as export:
        count = 0
        for note in foreign_notes(path):
            body.write(line_of_note(note).encoded())
            count += 1
        body.seek(0)
        export.write(Header(memories=count).encoded())
        export.writelines(body)
        export.seek(0)
        yield export


def line_of_note(note: ForeignNote) -> MemoryLine:
    """Return the line of a note. Its tags are written as this server compares them."""
    return MemoryLine(
        memory_type=MemoryKind.TAGGED,
        agent_id=SHARED_AGENT,
        content=note.content,
        tags=list(dict.fromkeys(filter(None, map(normalized_tag, note.tags)))),
        metadata={"category": note.category if note.category in CATEGORIES else OTHER},
        created_at=note.created_at,
        accessed_at=note.read_at,
        access_count=note.access_count,
    )
