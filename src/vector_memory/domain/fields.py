"""The fields of a memory, one row each. Tables, checks, filters, tools' parameters and commands' flags derive from it.

A new one needs a row, a higher `REVISION`, and its type wherever values are typed: `MemoryFields`, `NewMemory`,
`ScopeFilters` and `Scope` in `domain`, `Memory` in `storage.records`, `MemoryEntry` in `answers.models`, and
`MemoryLine` in `upkeep.export_lines`. Then run `scripts/make_docs.py`: the list of tools is made from a file.
"""

from collections.abc import Callable, Sequence
from enum import Enum, StrEnum, auto
from functools import partial
from typing import Any, NamedTuple

from vector_memory.domain import validation
from vector_memory.domain.times import beginning_of, end_of

REVISION = 3
"""Part of the version of each engine's tables: raise it with every change of a column here."""


class MemoryKind(StrEnum):
    """The kinds of memory; the values are the `memory_type` on the wire and in the database."""

    SESSION_CONTEXT = "session_context"
    INPUT_PROMPT = "input_prompt"
    SYSTEM_MEMORY = "system_memory"
    REPORT = "report"
    REPORT_OBSERVATION = "report_observation"
    WORKING_MEMORY = "working_memory"
    KNOWLEDGE_BASE = "knowledge_base"
    TAGGED = "tagged_memory"


class Way(StrEnum):
    """How a memory came; without one, a program stored it with the library."""

    TOOL = "tool"
    HOOK = "hook"
    IMPORT = "import"
    INGEST = "ingest"
    FILE = "file"
    COMMAND = "command"
    TAGGED = "tagged"


class Trust(StrEnum):
    """How far a memory is trusted, the least first. `level`: as it is stored; normal is 0."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def level(self) -> int:
        """The number by which levels are compared."""
        return list(Trust).index(self) - 1


class State(StrEnum):
    """A memory's state, besides current: pinned, or superseded by a later one."""

    PINNED = "pinned"
    SUPERSEDED = "superseded"


class Everything(Enum):
    """A value that no caller can send: no text is equal to it."""

    STORED = "stored"


ANY, STORED = "any", Everything.STORED
"""Values of `Scope.as_of`: with superseded memories; for maintenance, also with expired ones that wait to be erased."""

AsOf = str | Everything | None

Check = Callable[[Any], Any]
"""Converts a caller's value. Raises ValidationError, which names the field."""


class FieldType(Enum):
    """The type of a field's values; each engine, the tools and the commands map it to their own types."""

    TEXT = auto()
    TIME = auto()
    NUMBER = auto()
    ITERATION = auto()
    """A number that callers may write as "v2"."""
    ID = auto()
    SWITCH = auto()
    LABELS = auto()
    OBJECT = auto()


class MemoryField(NamedTuple):
    """A column of `session_memories`, a filter of a `Scope`, or both, by its name on the wire.

    `check`: None if no caller sends it. `required`: never null. `default`: in a file, and of unreadable rows. `stored`,
    `asked`: its description as a parameter of tools that store and that search; None: no such parameter. `flag`: of
    commands that filter, with its help. `choices`: its only values. `unchecked`: values that a Scope takes unchecked.
    """

    name: str
    values: FieldType = FieldType.TEXT
    check: Check | None = None
    required: bool = False
    default: str | int | None = None
    stored: str | None = None
    asked: str | None = None
    flag: tuple[str, str] | None = None
    choices: type[StrEnum] | None = None
    unchecked: Sequence[object] = (None,)


T, F = FieldType, MemoryField


def text(name: str, most: int = validation.MAX_IDENTIFIER, **others: Any) -> MemoryField:
    """Return a field that holds up to `most` characters."""
    return MemoryField(name, FieldType.TEXT, partial(validation.check_optional_label, name, maximum=most), **others)


def choice(name: str, choices: type[StrEnum], **others: Any) -> MemoryField:
    """Return a field that holds one of several choices."""
    return MemoryField(
        name, FieldType.TEXT, partial(validation.parse_choice, name, choices=choices), choices=choices, **others
    )


MEMORY_COLUMNS = (
    choice("memory_type", MemoryKind, required=True, flag=("kind", "Only this kind.")),
    text("agent_id", required=True, stored="Default: client", asked="Filter", flag=("agent", "Only this agent.")),
    text("session_id", stored="Default: this one", asked="Filter", flag=("session", "Only this session.")),
    F("session_iter", T.ITERATION, validation.parse_iteration, required=True, default=1, stored="Default 1",
      asked="Filter", flag=("iter", "Only this iteration, such as 2 or v2.")),
    text("task_code", stored="Task label", asked="Filter", flag=("task", "Only this task.")),
    F("content", required=True),
    text("title", validation.MAX_TITLE, stored="Title"),
    text("description", validation.MAX_DESCRIPTION, stored="Summary"),
    F("tags", T.LABELS, validation.check_tags, required=True, default="[]", stored=f"Up to {validation.MAX_TAGS}",
      unchecked=(), flag=("tags", "Only memories with any of these tags; repeatable.")),
    F("metadata", T.OBJECT, required=True, default="{}", stored="Any object"),
    F("came_from", T.OBJECT, required=True, default="{}"),
    F("trust", T.NUMBER, required=True, default=Trust.NORMAL.level),
    F("content_hash", required=True),
    F("created_at", T.TIME, required=True),
    F("updated_at", T.TIME, required=True),
    F("accessed_at", T.TIME, required=True),
    F("access_count", T.NUMBER, required=True, default=0),
    F("auto_chunk", T.SWITCH, required=True, default=0),
    F("chunk_count", T.NUMBER, required=True, default=0),
    F("turn", T.ID, required=True, default=0),
)  # fmt: skip
"""The columns of `session_memories` in every engine, in this order, after the id."""

NAMED = ("session_id", "agent_id", "task_code")
"""Columns of names: a secret in one is refused, because a redacted name would be useless."""

TEXTS = [one.name for one in MEMORY_COLUMNS if one.stored and one.values in (T.TEXT, T.LABELS, T.OBJECT)]
WRITTEN = {"content", "came_from", *TEXTS}.difference(NAMED)
"""Columns from which secrets are removed."""

ONLY_FILTERS = (
    text("category", asked="Filter", flag=("category", "Only this category.")),
    text("own_agent_id"),
    F("after_id", T.ID, partial(validation.check_range, "after_id", minimum=0, maximum=validation.LARGEST)),
    F("since_id", T.ID, partial(validation.check_range, "since_id", minimum=0, maximum=validation.LARGEST)),
    F("created_after", T.TIME, partial(beginning_of, "created_after"), asked="Date or time",
      flag=("since", "Only from this date or time on, such as 2026-10.")),
    F("created_before", T.TIME, partial(end_of, "created_before"), asked="Inclusive",
      flag=("until", "Only until the end of this date or time (UTC).")),
    F("as_of", T.TIME, partial(end_of, "as_of", or_else=f'"{ANY}"'), asked=f'Time, or "{ANY}"',
      unchecked=(None, ANY, STORED),
      flag=("as-of", f'Only memories current at the end of this time; "{ANY}": superseded ones too.')),
    text("containing", validation.MAX_QUERY, flag=("containing", "Only memories with these letters in title or text.")),
    text("project", validation.MAX_QUERY, flag=("project", "Only texts of hooks and imports in this folder.")),
    choice("state", State, flag=("state", "Only pinned memories, or only superseded ones.")),
    choice("min_trust", Trust, asked="normal or high", flag=("min-trust", "Only memories trusted at least as far.")),
    F("sessions"),
)  # fmt: skip

FILTERS = {
    "kind" if one.name == "memory_type" else one.name: one
    for one in (*(column for column in MEMORY_COLUMNS if column.flag), *ONLY_FILTERS)
}
"""The fields of a Scope by their names there, in the order in which answers repeat them."""
