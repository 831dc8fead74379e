"""Small immutable values that travel below the tool layer, and the limits every one of them keeps.

A value that exists is valid: its constructor refuses what may not be stored or asked, with a ValidationError that
says what to send instead.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from vector_memory.errors import ValidationError
from vector_memory.kinds import TRAITS, MemoryKind

MAX_CONTENT = 500_000
MAX_IDENTIFIER = 200
MAX_TITLE = 500
MAX_DESCRIPTION = 5_000
MAX_QUERY = 10_000
MAX_TAGS = 20
MAX_TAG = 100
MAX_METADATA = 20_000
MAX_DEPTH = 32
MAX_LIMIT = 100
MAX_OFFSET = 10_000
LEAST_TOKENS = 200
DEFAULT_CATEGORY = "general"

ITERATION = re.compile(r"[vV]?([0-9]{1,9})")
IDENTIFIER = re.compile(r"[0-9]{1,18}")


LARGEST = 10**18
MAX_NOTE = 10_000
"""Characters of a tagged memory."""


class Span(NamedTuple):
    """A half-open range of character offsets."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What has to be equal for two vectors to be comparable.

    `model`: the model's name. `dimensions`: the length of a vector. `precision`: of the weights, for example `fp32`.
    `engine`: the family of run-time that computes it, for example `onnxruntime`.
    """

    model: str
    dimensions: int
    precision: str
    engine: str


def utc_now() -> str:
    """Return the present moment as ISO 8601 in UTC with microseconds: one format, so that it sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def check_text(name: str, value: object, maximum: int) -> str:
    """Return `value` if it is text of 1 to `maximum` characters that UTF-8 can write, or raise a ValidationError."""
    if not isinstance(value, str):
        raise ValidationError(f"{name} must be text.")
    if not value.strip():
        raise ValidationError(f"{name} must not be empty: send 1 to {maximum:,} characters.")
    if len(value) > maximum:
        raise ValidationError(f"{name} is {len(value):,} characters long: send at most {maximum:,}.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValidationError(
            f"{name} holds a lone surrogate at character {error.start:,}: send text that UTF-8 can encode."
        ) from None
    return value


def check_optional_text(name: str, value: object, maximum: int) -> str | None:
    """Like `check_text`, but None stays None, and that is what to send instead of an empty text."""
    if isinstance(value, str) and not value.strip():
        raise ValidationError(f"{name} must not be empty: leave it out, or send 1 to {maximum:,} characters.")
    return None if value is None else check_text(name, value, maximum)


def check_range(name: str, value: object, minimum: int, maximum: int) -> int:
    """Return `value` if it is a whole number in the range, or raise a ValidationError."""
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ValidationError(f"{name} must be a whole number from {minimum:,} to {maximum:,}.")
    return value


def parse_kind(value: MemoryKind | str) -> MemoryKind:
    """Read a memory kind by its wire name."""
    try:
        return MemoryKind(value)
    except ValueError:
        raise ValidationError(f"memory_type must be one of {', '.join(MemoryKind)}.") from None


def written(value: object) -> str:
    """Return a whole number in digits; nothing for what is none, or too large for any number here."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST else ""


def parse_iteration(value: str | int) -> int:
    """Read a session iteration: `"v2"`, `"2"` and `2` all mean 2."""
    match = ITERATION.fullmatch(value if isinstance(value, str) else written(value))
    if match is None:
        raise ValidationError('session_iter must be a number such as 2, "2" or "v2".')
    return int(match[1])


def parse_id(name: str, value: str | int) -> int:
    """Read the id of a memory or chunk: a whole number, or the same as text."""
    match = IDENTIFIER.fullmatch(value.strip() if isinstance(value, str) else written(value))
    if match is None:
        raise ValidationError(f"{name} must be a whole number as returned by a store or search, for example 42.")
    return int(match[0])


def check_tags(value: Sequence[str] | None) -> tuple[str, ...]:
    """Return the tags without repeats, in order, or raise a ValidationError."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise ValidationError('tags must be a list of texts, for example ["database", "api"].')
    if len(value) > MAX_TAGS:
        raise ValidationError(f"tags holds {len(value):,} entries: send at most {MAX_TAGS}.")
    return tuple(dict.fromkeys(check_text("each tag", tag, MAX_TAG) for tag in value))


NO_JSON = (
    "metadata must hold only what JSON can write: texts, numbers, true, false, null, lists, and objects whose names "
    "are texts."
)


def check_metadata(value: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the metadata as a plain dict that JSON can write, or raise a ValidationError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValidationError('metadata must be an object, for example {"author": "me"}.')
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
        levels = depth(value)
    except (TypeError, ValueError, RecursionError):
        raise ValidationError(NO_JSON) from None
    if levels > MAX_DEPTH:
        raise ValidationError(f"metadata is nested too deeply: send at most {MAX_DEPTH} levels.")
    if len(text) > MAX_METADATA:
        raise ValidationError(f"metadata is {len(text):,} characters long as JSON: send at most {MAX_METADATA:,}.")
    if json.loads(text) != value:  # a number as a name, a tuple: they would be read back as something else
        raise ValidationError(NO_JSON)
    return dict(value)


def depth(value: object) -> int:
    """Return how many lists and objects are nested in each other."""
    parts = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(map(depth, parts), default=0) if isinstance(parts, list) else 0


def with_facts(metadata: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata with the facts that are kept there too; a caller may not say something else about them."""
    for name, fact in facts.items():
        if metadata.get(name, fact) != fact:
            raise ValidationError(f"metadata says something else about {name}: send {name} as a parameter only.")
    return metadata | facts


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A memory that is about to be stored; `of` makes one of raw values."""

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

    @classmethod
    def of(  # noqa: PLR0913 - one parameter for each field of a memory
        cls,
        kind: MemoryKind | str,
        *,
        agent_id: str,
        content: str,
        session_id: str | None,
        session_iter: str | int | None,
        task_code: str | None,
        title: str | None,
        description: str | None,
        tags: Sequence[str] | None,
        metadata: Mapping[str, Any] | None,
        category: str | None,
        parent_report_id: str | int | None,
    ) -> "NewMemory":
        """Make a memory of what a caller sent; what some kinds have besides goes into the metadata."""
        kind = parse_kind(kind)
        if kind is MemoryKind.TAGGED:
            raise ValidationError("A tagged memory is stored by the tagged tools' store_memory, which knows its tags.")
        report_id = None if parent_report_id is None else parse_id("parent_report_id", parent_report_id)
        extra: dict[str, Any] = {} if report_id is None else {"parent_report_id": report_id}
        if kind is MemoryKind.KNOWLEDGE_BASE:
            extra["title"] = check_text("title", title, MAX_TITLE)
            extra["category"] = check_optional_text("category", category, MAX_IDENTIFIER) or DEFAULT_CATEGORY
        return cls(
            kind=kind,
            agent_id=agent_id,
            content=content,
            session_id=session_id,
            session_iter=1 if session_iter is None else parse_iteration(session_iter),
            task_code=task_code,
            title=title,
            description=description,
            tags=check_tags(tags),
            metadata=with_facts(check_metadata(metadata), extra),
            parent_report_id=report_id,
        )

    def __post_init__(self) -> None:
        check_text("content", self.content, MAX_CONTENT)
        check_text("agent_id", self.agent_id, MAX_IDENTIFIER)
        if TRAITS[self.kind].session_scoped:
            check_text("session_id", self.session_id, MAX_IDENTIFIER)
        elif self.session_id is not None:
            raise ValidationError(f"A {self.kind} belongs to no session: leave session_id out.")
        check_optional_text("task_code", self.task_code, MAX_IDENTIFIER)
        check_optional_text("title", self.title, MAX_TITLE)
        check_optional_text("description", self.description, MAX_DESCRIPTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which memories a request is about; None is any, several tags are any of them. `of` takes raw values.

    `own_agent_id`: only what others than this agent stored. `after_id`: only what was stored after this memory.
    """

    kind: MemoryKind | None = None
    agent_id: str | None = None
    session_id: str | None = None
    session_iter: int | None = None
    task_code: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    own_agent_id: str | None = None
    after_id: int | None = None

    @classmethod
    def of(  # noqa: PLR0913 - one parameter for each filter
        cls,
        kind: MemoryKind | str | None = None,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        session_iter: str | int | None = None,
        task_code: str | None = None,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        own_agent_id: str | None = None,
    ) -> "Scope":
        """Make a scope of what a caller sent."""
        return cls(
            kind=None if kind is None else parse_kind(kind),
            agent_id=agent_id,
            session_id=session_id,
            session_iter=None if session_iter is None else parse_iteration(session_iter),
            task_code=task_code,
            category=category,
            tags=check_tags(tags),
            own_agent_id=own_agent_id,
        )

    def __post_init__(self) -> None:
        for name in ("agent_id", "session_id", "task_code", "category", "own_agent_id"):
            check_optional_text(name, getattr(self, name), MAX_IDENTIFIER)

    def as_filters(self) -> dict[str, Any]:
        """Return the fields that narrow the scope, by their wire names."""
        named = {
            "memory_type": self.kind and str(self.kind),
            "agent_id": self.agent_id,
            "session_id": self.session_id,
            "session_iter": self.session_iter,
            "task_code": self.task_code,
            "category": self.category,
            "tags": list(self.tags),
            "own_agent_id": self.own_agent_id,
        }
        return {name: value for name, value in named.items() if value not in (None, [])}


class SearchMode(StrEnum):
    """What a search compares: meaning and words, meaning only, or words only."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    KEYWORD = "keyword"

    @classmethod
    def of(cls, value: "SearchMode | str | None") -> "SearchMode | None":
        """Read a mode by its wire name; None stays None."""
        try:
            return None if value is None else cls(value)
        except ValueError:
            raise ValidationError(f"search_mode must be one of {', '.join(cls)}.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which results are wanted: `limit` of them after the first `offset`; and how many tokens the answer may have.

    `max_tokens` None: as many as the settings allow.
    """

    limit: int
    offset: int = 0
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        check_range("limit", self.limit, 1, MAX_LIMIT)
        check_range("offset", self.offset, 0, MAX_OFFSET)
        if self.max_tokens is not None:
            check_range("max_tokens", self.max_tokens, LEAST_TOKENS, LARGEST)

    @property
    def end(self) -> int:
        """The number of results up to the last one wanted."""
        return self.offset + self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a document. `text` is `document[start:end]`, always.

    `headings`: the enclosing headings with their marks, outermost first, as in `("# Title", "## Section")`.
    `level`: depth 1-6 of the innermost heading, 0 without one. `kind`: `section`, `text` or `code_block`.
    `oversized`: longer than the chunk size: a code fence, which is kept whole, or in a document of too many chunks.
    """

    index: int
    text: str
    start: int
    end: int
    kind: str
    token_count: int
    headings: tuple[str, ...]
    level: int
    contains_code: bool
    contains_table: bool
    oversized: bool

    def position(self, sibling_count: int) -> float:
        """Return the place among the document's chunks as a ratio: 0 for the first, 1 for the last."""
        return self.index / (sibling_count - 1) if sibling_count > 1 else 0.0

    @property
    def header_path(self) -> str:
        """The headings joined with ` > `, as in `# Title > ## Section`."""
        return " > ".join(self.headings)
