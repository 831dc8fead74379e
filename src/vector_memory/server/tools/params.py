"""The parameters that several tools share, each described once, and the store that every tool receives.

Pydantic checks types only. Ranges and lengths are checked once, below the tools, by values whose errors say what to
send instead; limits that a client should know beforehand are added to the JSON schema by hand. Descriptions are short
because an agent reads all of them, for every tool, before its first call.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

from fastmcp.dependencies import Depends
from fastmcp.server.dependencies import get_context
from fastmcp.tools import tool
from mcp_types import ToolAnnotations
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    WithJsonSchema,
)

from vector_memory.domain import LATEST, LINES, CameFrom, SearchMode, SearchOrder, Way
from vector_memory.domain.fields import FILTERS, MEMORY_COLUMNS, FieldType
from vector_memory.domain.validation import MAX_CONTENT, MAX_LIMIT
from vector_memory.server.conversation import client_of
from vector_memory.server.current_store import SessionMemoryStore, current_caller, store_of_caller

READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
"""A tool that counts accesses still only reads: stored memories do not change."""

STORES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
"""Adds a memory. A repeated call is refused as a duplicate and changes nothing."""

DELETES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)

CLEANS_UP = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)
"""Deletes what is old: the same call tomorrow deletes more."""


def found_by(hint: str, *, always: bool = False) -> dict[str, object]:
    """Return the words for which Claude Code's tool search finds a tool; with `always`, the model sees it at once."""
    return {"anthropic/searchHint": hint} | ({"anthropic/alwaysLoad": True} if always else {})


@contextmanager
def current_store() -> Iterator[SessionMemoryStore]:
    """Yield the store of the current call.

    It is yielded, not returned: the injection would enter and exit a returned context manager, closing the store.
    """
    yield store_of_caller(get_context().lifespan_context)


async def current_progress() -> Callable[[int, int], None]:
    """Return a callback that reports progress to a client that asked for it; call it from any thread.

    The callback does not wait for the client, and a client that has left does not make the call fail.
    """
    session, loop = get_context().session, asyncio.get_running_loop()

    def report(done: int, total: int) -> None:
        sending = session.report_progress(done, total, f"Embedded {done:,} of {total:,} passages.")
        asyncio.run_coroutine_threadsafe(sending, loop)

    return report


def from_json(value: object) -> object:
    """Parse what a client sent as JSON text in place of a list, object or number; return any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


FromJson = BeforeValidator(from_json)


def _whole(value: object) -> object:
    """Return a number without decimals, such as 1.0, as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Strict, because pydantic would read true as the number 1, "nan" as a number, and 0 or "off" as false.
Number = Annotated[StrictInt, BeforeValidator(_whole)]
"""For parameters that also accept text: text is never parsed as a number."""
WholeNumber = Annotated[Number, FromJson]
Id = Number | Annotated[str, WithJsonSchema({"type": "integer"})]
TextOrNumber = str | Annotated[Number, WithJsonSchema({"type": "string"})]
"""Both accept text or a number. The schema names only the usual type: Gemini refuses lists of types."""
Switch = Annotated[StrictBool, FromJson]


def _year_as_text(value: object) -> object:
    """Return a year that a client sent as a number as text; the domain checks it."""
    return str(value) if isinstance(value, int) and value >= FIRST_YEAR else value


FIRST_YEAR = 1970
"""Smaller numbers are not years."""


def current_way() -> CameFrom:
    """Return how a memory of the current call comes, for its record."""
    context = get_context()
    token = current_caller().name
    return CameFrom(by=Way.TOOL, client=client_of(context), **({"token": token} if token else {}))


Store = Annotated[SessionMemoryStore, Depends(current_store)]
CurrentWay = Annotated[CameFrom, Depends(current_way)]
OnProgress = Annotated[Callable[[int, int], None], Depends(current_progress)]

Parameters = Mapping[str, tuple[Any, ...]]
"""Each parameter's annotation, followed by its default unless it is required."""

SENT_AS: dict[FieldType, tuple[Any, ...]] = {
    FieldType.TEXT: (str,),
    FieldType.TIME: (str, BeforeValidator(_year_as_text)),
    FieldType.NUMBER: (WholeNumber,),
    FieldType.ITERATION: (Id,),
    # Stop at the first bad tag: a million bad tags give one message.
    FieldType.LABELS: (list[str], Field(fail_fast=True), FromJson),
    FieldType.OBJECT: (dict[str, object], FromJson),
}
"""What a client sends for a field, and how it is read."""


def optional(values: FieldType, description: str) -> tuple[Any, None]:
    """Return an optional parameter."""
    sent, *readers = SENT_AS[values]
    return Annotated[sent | None, Field(description=description), *readers], None


def all_but(parameters: Parameters, *names: str) -> Parameters:
    """Return all parameters but those with these names."""
    return {name: facts for name, facts in parameters.items() if name not in names}


STORED: Parameters = {one.name: optional(one.values, one.stored) for one in MEMORY_COLUMNS if one.stored}
"""The fields that can be stored with a text."""

FILTERED: Parameters = {one.name: optional(one.values, one.asked) for one in FILTERS.values() if one.asked}
"""The filters of searches."""

if TYPE_CHECKING:
    OfAgent = str | None
    OfSession = str | None
    CreatedAfter = str | None
    CreatedBefore = str | None
    AsOf = str | None
else:
    OfAgent, OfSession = FILTERED["agent_id"][0], FILTERED["session_id"][0]
    CreatedAfter, CreatedBefore, AsOf = (FILTERED[name][0] for name in ("created_after", "created_before", "as_of"))

InSession = Annotated[str, Field(description='Session id, or "last"')]
LatestIteration = Annotated[Id | None, Field(description="Iteration; default: the latest")]

# Content.
Content = Annotated[str, Field(description=f"Text, up to {MAX_CONTENT} characters")]
Document = Annotated[str, Field(description=f"Markdown with headings, up to {MAX_CONTENT} characters")]
TtlDays = Annotated[StrictFloat | None, Field(description="Days to keep"), FromJson]
Sources = Annotated[
    list[str] | None, Field(description="URLs, files, memory:ID it comes from", fail_fast=True), FromJson
]
Supersedes = Annotated[list[WholeNumber] | None, Field(description="Ids it replaces", fail_fast=True), FromJson]


class EvidenceRef(BaseModel):
    """Lines of a file in the project."""

    path: str
    lines: Annotated[TextOrNumber | None, WithJsonSchema({"type": "string"})] = None
    commit: Annotated[str | None, WithJsonSchema({"type": "string"})] = None


def _as_sent(files: list[EvidenceRef] | None) -> list[dict[str, Any]] | None:
    return None if files is None else [one.model_dump(exclude_none=True) for one in files]


Evidence = Annotated[
    list[EvidenceRef] | None,
    Field(description='Files it is about; lines: "42-60"', fail_fast=True),
    FromJson,
    AfterValidator(_as_sent),
]

# Queries and limits.
Query = Annotated[str, Field(description="Question")]
OneQuery = Annotated[str | None, Field(description="Question")]
Queries = Annotated[list[str] | None, Field(description="Up to 5 queries"), FromJson]
OptionalQuery = Annotated[str | None, Field(description="Default: newest")]
Limit = Annotated[WholeNumber, Field(description=f"Up to {MAX_LIMIT}")]
Skip = Annotated[WholeNumber, Field(description="next_offset")]
After = Annotated[str | None, Field(description="next_cursor")]
MaxTokens = Annotated[WholeNumber | None, Field(description="Limit")]
Explain = Annotated[TextOrNumber | None, Field(description='Id of a missing memory, or "all": explains why')]
Detail = Annotated[str | None, Field(description="One line each", json_schema_extra={"enum": [LINES]})]
Neighbours = Annotated[WholeNumber, Field(description="Around short hits")]
Mode = Annotated[str | None, Field(description="Default hybrid", json_schema_extra={"enum": list(SearchMode)})]
Prefer = Annotated[str | None, Field(description="For what changes", json_schema_extra={"enum": [LATEST]})]
LatestFirst = Annotated[Switch, Field(description="false: oldest first")]
Order = Annotated[
    str | None,
    Field(description="Default: relevance with query, else recent", json_schema_extra={"enum": list(SearchOrder)}),
]

# Ids, as returned by a store or search.
MemoryId = Annotated[Id, Field(description="From a store or search")]
ChunkId = Annotated[Id, Field(description="chunk_id from a search")]
ReportId = Annotated[Id | None, Field(description="The report")]
Corrects = Annotated[Switch, Field(description="Corrects it")]
Offset = Annotated[
    WholeNumber, Field(description="content_end of the previous answer", json_schema_extra={"minimum": 0})
]


def declared(
    function: Callable[..., Any],
    name: str,
    title: str,
    description: str,
    parameters: Parameters,
    annotations: ToolAnnotations,
    meta: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Declare a function that takes any keyword as a tool with these parameters: FastMCP reads its signature."""
    function.__name__, function.__doc__ = name, description
    function.__annotations__ = {one: facts[0] for one, facts in parameters.items()} | {
        "return": function.__annotations__["return"]
    }
    function.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(one, Parameter.KEYWORD_ONLY, annotation=facts[0], default=(*facts[1:], Parameter.empty)[0])
            for one, facts in parameters.items()
        ],
        return_annotation=function.__annotations__["return"],
    )
    return tool(title=title, annotations=annotations, meta=meta)(function)
