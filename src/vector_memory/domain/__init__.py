"""The kinds of memory, and the immutable values passed between layers.

Values are always valid: constructors raise a ValidationError that says what to send instead.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, cast, get_args

from vector_memory.domain import validation
from vector_memory.domain.evidence import Evidence as Evidence
from vector_memory.domain.evidence import parse_evidence
from vector_memory.domain.fields import ANY as ANY
from vector_memory.domain.fields import FILTERS, MEMORY_COLUMNS
from vector_memory.domain.fields import STORED as STORED
from vector_memory.domain.fields import AsOf as AsOf
from vector_memory.domain.fields import Everything as Everything
from vector_memory.domain.fields import MemoryKind as MemoryKind
from vector_memory.domain.fields import State as State
from vector_memory.domain.fields import Trust as Trust
from vector_memory.domain.fields import Way as Way
from vector_memory.domain.text import Chunk as Chunk
from vector_memory.domain.text import Fingerprint as Fingerprint
from vector_memory.domain.text import Span as Span
from vector_memory.domain.times import check_lifetime, past_time
from vector_memory.domain.times import utc_now as utc_now
from vector_memory.errors import ValidationError

NAME_SHOWN = 100
"""Maximum number of characters of the folder's name in the names of sessions."""

MARK = 6
"""Number of a hash's digits that distinguish folders with the same name in a shared memory."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project. `folder`: its real path. `owns_memory`: the memory's file is in it and holds no other project."""

    folder: str
    owns_memory: bool

    @classmethod
    def at(cls, folder: Path, memory: Path | None) -> "Project":
        """Return the project in a folder. `memory`: the file of its memory; None: it is on a database server."""
        return cls(str(folder).encode(errors="replace").decode(), memory is not None and memory.is_relative_to(folder))

    def session_on(self, date: str) -> str:
        """Return the day's session for a client that names none; unique to the project within the memory."""
        name = Path(self.folder).name[:NAME_SHOWN] or "project"
        mark = "" if self.owns_memory else f"{hashlib.sha256(self.folder.encode()).hexdigest()[:MARK]}-"
        return f"{name}-{mark}{date}"


MAIN_AGENT = "main-orchestrator"
"""The agent of session contexts and input prompts, unless another is named."""

OWN_MEMORIES = "own-memories"
"""The session of what clients remember by themselves. No user spoke in it."""

SHARED_AGENT = "shared"
"""The agent id of tagged memories, which belong to no agent."""


@dataclass(frozen=True, slots=True)
class KindTraits:
    """How memories of one kind are handled.

    `chunked`: split into chunks that searches return separately. `session_scoped`: belongs to a session and an
    iteration. `enriched`: if enrichment is on, its passages are embedded with the title and heading in front.
    """

    chunked: bool
    session_scoped: bool = True
    enriched: bool = False


TRAITS: dict[MemoryKind, KindTraits] = {
    MemoryKind.SESSION_CONTEXT: KindTraits(chunked=False),
    MemoryKind.INPUT_PROMPT: KindTraits(chunked=False),
    MemoryKind.SYSTEM_MEMORY: KindTraits(chunked=False),
    MemoryKind.REPORT: KindTraits(chunked=True, enriched=True),
    MemoryKind.REPORT_OBSERVATION: KindTraits(chunked=False),
    MemoryKind.WORKING_MEMORY: KindTraits(chunked=True),
    MemoryKind.KNOWLEDGE_BASE: KindTraits(chunked=True, session_scoped=False, enriched=True),
    MemoryKind.TAGGED: KindTraits(chunked=False, session_scoped=False),
}
DEFAULT_CATEGORY = "general"

SENT = {one.name: one.check for one in MEMORY_COLUMNS if one.check is not None and one.stored is not None}
"""The checks of the columns that a caller may send, without the metadata."""

PARSED = {"session_iter", "tags"}
"""Columns whose values callers may send in other types."""


class CameFrom(TypedDict, total=False):
    """How a memory came, through which client and token, and what it was derived from.

    `sources`: URLs, paths, and memories such as "memory:12". `marked`: the text looks like instructions to a model.
    """

    by: str
    client: str
    token: str
    sources: list[str]
    marked: str


MEMORY = "memory:"
"""Begins a source that is a memory, before its id."""


def derived_from(came_from: Mapping[str, Any]) -> list[int]:
    """Return the ids of the memories among the sources."""
    named = [one.removeprefix(MEMORY) for one in came_from.get("sources", ()) if one.startswith(MEMORY)]
    return [int(one) for one in named if one.isdecimal() and len(one) < len(str(validation.LARGEST))]


def with_sources(came_from: Mapping[str, Any], memory_ids: Iterable[int] = ()) -> CameFrom:
    """Return how a memory came, derived from these memories instead of others."""
    others = [one for one in came_from.get("sources", ()) if not one.startswith(MEMORY)]
    sources = [*others, *(f"{MEMORY}{number}" for number in memory_ids)]
    kept = {name: value for name, value in came_from.items() if name != "sources"}
    return cast("CameFrom", kept | ({"sources": sources} if sources else {}))


class MemoryFields(TypedDict, total=False):
    """The optional fields of a new memory. `NewMemory.of` checks which kinds need which."""

    agent_id: str | None
    session_id: str | None
    session_iter: str | int | None
    task_code: str | None
    title: str | None
    description: str | None
    tags: Sequence[str] | None
    metadata: Mapping[str, Any] | None
    category: str | None
    parent_report_id: str | int | None
    corrects: bool
    created_at: str | None
    supersedes: Sequence[str | int] | None
    ttl_days: float | None
    expires_at: str | None
    sources: Sequence[str] | None
    came_from: CameFrom
    evidence: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A memory to be stored; `of` creates one from a caller's values. `created_at`: None for now.

    `supersedes`: the ids of memories it replaces. `expires_at`: None for never. `ttl_days`: instead, the number of days
    from storing it, by the clock of the database. `awaits`: the rule that holds it back until a person accepts it.
    `evidence`: the files that it is about. `trust`: the level of a `Trust`.
    """

    kind: MemoryKind
    agent_id: str
    content: str
    session_id: str | None = None
    session_iter: int = 1
    task_code: str | None = None
    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    parent_report_id: int | None = None
    created_at: str | None = None
    supersedes: tuple[int, ...] = ()
    expires_at: str | None = None
    ttl_days: float | None = None
    came_from: CameFrom = field(default_factory=CameFrom)
    trust: int = Trust.NORMAL.level
    awaits: str | None = None
    evidence: tuple[Evidence, ...] = ()

    @classmethod
    def of(cls, kind: MemoryKind | str, content: str, **fields: Unpack[MemoryFields]) -> "NewMemory":
        """Create a memory from a caller's values. Fields that only some kinds have are also kept in the metadata."""
        kind = validation.parse_choice("memory_type", kind, MemoryKind)
        if kind is MemoryKind.TAGGED:
            raise ValidationError("Store tagged memories with store_memory, which normalizes their tags.")
        parent = fields.get("parent_report_id")
        report_id = None if parent is None else validation.parse_id("parent_report_id", parent)
        extra: dict[str, Any] = {} if report_id is None else {"parent_report_id": report_id}
        if corrects := fields.get("corrects"):
            if not isinstance(corrects, bool):
                raise ValidationError("corrects must be true or false.")
            if report_id is None:
                raise ValidationError("corrects needs parent_report_id: the report that is partly wrong.")
            extra["corrects"] = True
        if kind is MemoryKind.KNOWLEDGE_BASE:
            extra["title"] = validation.check_label("title", fields.get("title"), validation.MAX_TITLE)
            category = validation.check_optional_label("category", fields.get("category"), validation.MAX_IDENTIFIER)
            extra["category"] = category or DEFAULT_CATEGORY
        sent: dict[str, Any] = {"agent_id": MAIN_AGENT}
        for name, check in SENT.items():
            if (value := fields.get(name)) is not None:
                sent[name] = check(value) if name in PARSED else value
        created_at, ttl_days = fields.get("created_at"), fields.get("ttl_days")
        came_from = fields.get("came_from") or CameFrom()
        if sources := validation.check_sources(fields.get("sources")):
            came_from = {**came_from, "sources": sources}
        return cls(
            kind=kind,
            content=content,
            metadata=validation.with_facts(validation.check_metadata(fields.get("metadata")), extra),
            parent_report_id=report_id,
            created_at=None if created_at is None else past_time("created_at", created_at),
            supersedes=validation.parse_ids("supersedes", fields.get("supersedes")),
            expires_at=check_lifetime(ttl_days, fields.get("expires_at")),
            ttl_days=ttl_days,
            came_from=came_from,
            evidence=parse_evidence(fields.get("evidence")),
            **sent,
        )

    def __post_init__(self) -> None:
        validation.check_label("content", self.content, validation.MAX_CONTENT)
        validation.check_label("agent_id", self.agent_id, validation.MAX_IDENTIFIER)
        if TRAITS[self.kind].session_scoped:
            validation.check_label("session_id", self.session_id, validation.MAX_IDENTIFIER)
        elif self.session_id is not None:
            raise ValidationError(f"A {self.kind} belongs to no session: omit session_id.")
        for name, check in SENT.items():
            if name not in PARSED and (value := getattr(self, name)) is not None:
                check(value)


class Window(TypedDict, total=False):
    """Filters by time; see `Scope`."""

    created_after: str | None
    created_before: str | None
    as_of: str | None


class ScopeFilters(TypedDict, total=False):
    """The filters of a Scope, as callers send them, without the kind."""

    agent_id: str | None
    session_id: str | None
    session_iter: str | int | None
    task_code: str | None
    category: str | None
    tags: Sequence[str] | None
    own_agent_id: str | None
    after_id: int | None
    since_id: int | None
    containing: str | None
    project: str | None
    state: State | str | None
    min_trust: Trust | str | None
    sessions: tuple[str, ...] | None
    created_after: str | None
    created_before: str | None
    as_of: AsOf


UNTOLD = {"after_id", "since_id", "sessions"}
"""Filters that no caller sends."""


@dataclass(frozen=True, slots=True, init=False)
class Scope:
    """Filters for memories. None matches any value; any one of several tags is enough.

    `session_iter`: 2, "2" and "v2" mean the same. `own_agent_id`: only memories of other agents. `after_id`: only
    memories stored after this one; `since_id`: those that a person has released since, too. `created_after`,
    `created_before`: a year, month, day or time, by default in UTC, both inclusive; kept as the first and last
    moment of the window. `as_of`: memories current at the end of such a period, or "any" to include superseded
    memories; None: current ones, or with the `state` "superseded" the others. `containing`: a part of the title or
    the text; ASCII letters match in either case. `project`: the folder that hooks and imports put into the
    metadata. `min_trust`: the least that is enough. `sessions`: the only ones that the caller may see. Raises
    ValidationError.
    """

    kind: MemoryKind | None
    agent_id: str | None
    session_id: str | None
    session_iter: int | None
    task_code: str | None
    category: str | None
    tags: tuple[str, ...]
    own_agent_id: str | None
    after_id: int | None
    since_id: int | None
    containing: str | None
    project: str | None
    state: State | None
    min_trust: Trust | None
    sessions: tuple[str, ...] | None
    created_after: str | None
    created_before: str | None
    as_of: AsOf

    def __init__(self, kind: MemoryKind | str | None = None, **filters: Unpack[ScopeFilters]) -> None:
        given: dict[str, Any] = {"kind": kind, **filters}
        for name, one in FILTERS.items():
            value = given.pop(name, None)
            if one.check is not None and value not in one.unchecked:
                value = one.check(value)
            object.__setattr__(self, name, value)
        if given:
            raise TypeError(f"Scope has no {', '.join(given)}.")
        if self.state is State.SUPERSEDED and self.as_of is None:
            object.__setattr__(self, "as_of", ANY)
        if self.created_after and self.created_before and self.created_after > self.created_before:
            raise ValidationError("created_after is later than created_before: nothing can be between them.")

    @classmethod
    def checked(cls, value: object) -> "Scope":
        """Return `value` if it is a Scope. Raises ValidationError."""
        if not isinstance(value, cls):
            raise ValidationError("scope must be a Scope.")
        return value

    def require_chunks(self) -> None:
        """Raise ValidationError if memories of the scope's kind are not split into chunks."""
        if self.kind is not None and not TRAITS[self.kind].chunked:
            raise ValidationError(f"Memories of kind {self.kind} are not split into chunks: use search_memories.")

    def as_filters(self) -> dict[str, Any]:
        """Return the filters that are set, by their wire names."""
        named = {one.name: getattr(self, name) for name, one in FILTERS.items() if name not in UNTOLD}
        return {
            name: list(value) if isinstance(value, tuple) else str(value) if isinstance(value, StrEnum) else value
            for name, value in named.items()
            if value not in (None, ())
        }


# Parameters of a search: what it compares, the order of results, and their number.


EVERYTHING = "all"
"""The value of `explain` for only the candidates, without a missing memory or file."""

LAST = "last"
"""The word for the session before this one."""


class SearchMode(StrEnum):
    """What a search compares: meaning and words, only meaning, or only words."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    KEYWORD = "keyword"

    @classmethod
    def of(cls, value: "SearchMode | str | None") -> "SearchMode | None":
        """Parse a mode from its wire name; None stays None."""
        return None if value is None else validation.parse_choice("search_mode", value, cls)


class SearchOrder(StrEnum):
    """The order of whole documents: the newest first, or the best match first."""

    RECENT = "recent"
    RELEVANCE = "relevance"

    @classmethod
    def of(cls, value: "SearchOrder | str | None") -> "SearchOrder | None":
        """Parse an order from its wire name; None stays None."""
        return None if value is None else validation.parse_choice("order", value, cls)


class FileSource(StrEnum):
    """The files to search: all, the daily logs, or the other files."""

    ALL = "all"
    MEMORY = "memory"
    DAILY = "daily"


LINES = "lines"

LATEST = "latest"

MAX_NOTES = 50
"""Maximum number of tagged memories in a page."""

MatchLevel = Literal["strong", "related", "weak"]
"""How well a result matches: it probably answers, it is on the topic, or neither."""


def best_of(levels: Sequence[MatchLevel | None]) -> MatchLevel | None:
    """Return the best of several levels; None if there is none."""
    return next((level for level in get_args(MatchLevel) if level in levels), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The requested page of results: up to `limit` (1-100) after skipping `offset`, in at most `max_tokens`.

    `max_tokens`: None: the configured maximum. `detail`: "lines": one line per memory, in searches for whole memories.
    `prefer`: "latest": among results on one subject, the latest comes first. `copies`: keep near copies separate.
    `is_part`: part of a joint answer to several questions, which makes the selection: weak matches follow the others,
    and long texts are not cut. `only_here`: search no other scope if nothing matches well. `cursor`: instead of an
    offset, the `next_cursor` of a list. Raises ValidationError.
    """

    limit: int = 10
    offset: int = 0
    max_tokens: int | None = None
    detail: str | None = None
    prefer: str | None = None
    copies: bool = False
    is_part: bool = False
    only_here: bool = False
    cursor: str | None = None

    def __post_init__(self) -> None:
        if self.detail not in (None, LINES):
            raise ValidationError(f'detail must be "{LINES}": leave it out for whole texts.')
        if self.prefer not in (None, LATEST):
            raise ValidationError(f'prefer must be "{LATEST}": leave it out for the best match first.')
        validation.check_range("limit", self.limit, 1, validation.MAX_LIMIT)
        validation.check_range("offset", self.offset, 0, validation.MAX_OFFSET)
        if self.cursor is not None and self.offset:
            raise ValidationError("Send cursor or offset, not both.")
        if self.max_tokens is not None:
            validation.check_range("max_tokens", self.max_tokens, validation.MIN_TOKENS, validation.LARGEST)

    @classmethod
    def checked(cls, value: object) -> "Page":
        """Return `value` if it is a Page. Raises ValidationError."""
        if not isinstance(value, cls):
            raise ValidationError("page must be a Page.")
        return value

    @classmethod
    def of_notes(cls, limit: int, offset: int, prefer: str | None = None, cursor: str | None = None) -> "Page":
        """Return a page of tagged memories. Raises ValidationError."""
        return cls(
            limit=validation.check_range("limit", limit, 1, MAX_NOTES), offset=offset, prefer=prefer, cursor=cursor
        )

    @property
    def folds(self) -> bool:
        """Whether near copies are merged into the newest; a line always stands for one memory."""
        return not self.copies and self.detail != LINES

    @property
    def end(self) -> int:
        """The number of results up to the end of this page."""
        return self.offset + self.limit
