"""The tools that find memories: by time, or by meaning at one of three granularities, one for each kind."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vector_memory.answers.budget import BYTES_PER_TOKEN, size, value_size
from vector_memory.answers.forms import FORM
from vector_memory.answers.models import (
    CoarseSearchResult,
    FineSearchResult,
    MediumSearchResult,
    Result,
    SearchMemoriesResult,
)
from vector_memory.domain import EVERYTHING, MemoryKind, Page, Scope, SearchMode, SearchOrder
from vector_memory.domain.validation import LARGEST, MIN_TOKENS, parse_id
from vector_memory.errors import ValidationError
from vector_memory.server.current_store import SessionMemoryStore
from vector_memory.server.tools import params

if TYPE_CHECKING:
    from vector_memory.search.answer import GrainName

SESSIONS = params.all_but(params.FILTERED, "category")
"""The filters for memories of sessions."""

KNOWLEDGE = params.all_but(params.FILTERED, "session_id", "session_iter", "task_code")
SESSION: params.Parameters = {"session_id": (params.InSession,)}
IN_SESSION = params.all_but(SESSIONS, "session_id", "task_code")

NEWEST: params.Parameters = {"query": (params.OptionalQuery, None)}
ONE: params.Parameters = {"query": (params.Query,)}
QUERIES: params.Parameters = {"queries": (params.Queries, None)}
SEVERAL: params.Parameters = {"query": (params.OneQuery, None), **QUERIES}

NEAR: params.Parameters = {"neighbours": (params.Neighbours, 1)}
PREFER: params.Parameters = {"prefer": (params.Prefer, None)}
MODE: params.Parameters = {"search_mode": (params.Mode, None), **PREFER}
DETAIL: params.Parameters = {"detail": (params.Detail, None)}
CURSOR: params.Parameters = {"cursor": (params.After, None)}
BY_TIME: params.Parameters = {"latest_first": (params.LatestFirst, True), **DETAIL, **CURSOR}
ORDER: params.Parameters = {"order": (params.Order, None), **PREFER, **DETAIL, **CURSOR}

OF_SESSION = {**SESSION, **NEWEST, **IN_SESSION}
FROM_SESSIONS = {**SEVERAL, **SESSIONS}


class AnswerForm(NamedTuple):
    """How a tool searches and answers: a method of the store, its result and grain; the end of the tool's name.

    `limit`: the default. `options`: parameters that all tools with these answers have.
    """

    search: str
    result: type[Result]
    grain: "GrainName"
    suffix: str
    limit: int
    options: params.Parameters


STATES = AnswerForm("search_memories", SearchMemoriesResult, "chunk", "", 5, BY_TIME)
WHOLE = AnswerForm("search_memories", SearchMemoriesResult, "chunk", "", 10, {**PREFER, **CURSOR})
CHUNKS = AnswerForm("search_chunks", FineSearchResult, "chunk", "_specific_chunks", 10, MODE)
SECTIONS = AnswerForm("search_sections", MediumSearchResult, "section", "_section_context", 5, MODE)
DOCUMENTS = AnswerForm("search_documents", CoarseSearchResult, "document", "_full_documents", 3, ORDER)

SUBJECTS = {MemoryKind.REPORT: "reports", MemoryKind.INPUT_PROMPT: "input prompts"}
"""Kinds that the names of tools have in the plural."""

HINTS = {
    "search_session_context": params.found_by("recall session state, where we left off"),
    "search_input_prompts": params.found_by("recall what the user asked, last time"),
    "search_system_memory": params.found_by("recall, search memory, command, configuration"),
    "search_reports_specific_chunks": params.found_by(
        "recall, search memory, find, what did we do last time, what do we know about", always=True
    ),
    "search_reports_section_context": params.found_by("recall, search memory, find, topic"),
    "search_reports_full_documents": params.found_by("recall, search memory, read report, what did we do last time"),
    "search_working_memory_specific_chunks": params.found_by("recall, search memory, notes"),
    "search_knowledge_base_specific_chunks": params.found_by("recall, search memory, knowledge, convention, decision"),
}

NAMES: dict[tuple[MemoryKind, "GrainName"], str] = {}
"""The name of each tool, by what it searches. Kinds that are not chunked have one for all grains, that of chunks."""


def searching(
    kind: MemoryKind, answers: AnswerForm, parameters: params.Parameters, description: str
) -> Callable[..., Any]:
    """Return the tool that searches memories of a kind."""

    def find(
        *,
        store: SessionMemoryStore,
        limit: int,
        offset: int,
        max_tokens: int | None,
        explain: str | int | None,
        detail: str | None = None,
        prefer: str | None = None,
        query: str | None = None,
        queries: list[str] | None = None,
        search_mode: str | None = None,
        latest_first: bool = True,
        cursor: str | None = None,
        **given: Any,
    ) -> Result:
        from vector_memory.search.probes import asked  # noqa: PLC0415 - needs numpy, and a list of tools does not

        filters = params.FILTERED.keys() & given.keys()
        scope = Scope(kind, **dict(zip(filters, map(given.pop, filters), strict=True)))
        page = Page(limit=limit, offset=offset, max_tokens=max_tokens, detail=detail, prefer=prefer, cursor=cursor)
        asks, order = asked(query, queries), given.get("order")
        if asks is None and answers.search == "search_memories":
            search = partial(store.search_scoped, scope, latest_first=latest_first)
        else:
            search = partial(getattr(store, answers.search), asks, scope, mode=search_mode, **given)
        return FORM.get().without_repeats(
            traced(store, search, asks, scope, page, explain, grain=answers.grain, mode=search_mode, order=order)
        )

    find.__annotations__["return"] = answers.result
    whole: params.Parameters = {
        "store": (params.Store,),
        **parameters,
        "limit": (params.Limit, answers.limit),
        **answers.options,
        "offset": (params.Skip, 0),
        "max_tokens": (params.MaxTokens, None),
        "explain": (params.Explain, None),
    }
    subject = SUBJECTS.get(kind, kind.replace("_", " "))
    title = f"Search {subject}{f': {answers.grain}s' if answers.suffix else ''}"
    name = NAMES[kind, answers.grain] = f"search_{subject.replace(' ', '_')}{answers.suffix}"
    return params.declared(find, name, title, description, whole, params.READS, HINTS.get(name))


TOOLS = (
    searching(MemoryKind.SESSION_CONTEXT, STATES, OF_SESSION, "Read a session's saved states, newest first."),
    searching(MemoryKind.INPUT_PROMPT, STATES, {**OF_SESSION, **NEAR}, "Read a session's user prompts, newest first."),
    searching(
        MemoryKind.SYSTEM_MEMORY, WHOLE, {**NEWEST, **SESSIONS}, "Find saved commands and configuration by meaning."
    ),
    searching(
        MemoryKind.REPORT,
        CHUNKS,
        FROM_SESSIONS,
        "Find a fact in reports: the chunks closest in meaning. Try this first.",
    ),
    searching(MemoryKind.REPORT, SECTIONS, FROM_SESSIONS, "Find full sections of reports on a topic."),
    searching(
        MemoryKind.REPORT,
        DOCUMENTS,
        {**NEWEST, **QUERIES, **SESSIONS},
        'Read whole reports: the best matches, or the newest. To look over many, send detail="lines", then read by id.',
    ),
    searching(
        MemoryKind.WORKING_MEMORY,
        CHUNKS,
        {**FROM_SESSIONS, **NEAR},
        "Find a fact in working memory: the chunks closest in meaning.",
    ),
    searching(
        MemoryKind.WORKING_MEMORY, SECTIONS, {**ONE, **SESSIONS}, "Find full sections of working memory on a topic."
    ),
    searching(
        MemoryKind.WORKING_MEMORY,
        DOCUMENTS,
        {**NEWEST, **SESSIONS},
        "Read whole working memories: the best matches, or the newest.",
    ),
    searching(
        MemoryKind.KNOWLEDGE_BASE,
        CHUNKS,
        {**SEVERAL, **KNOWLEDGE},
        "Find a fact in the knowledge base: the chunks closest in meaning.",
    ),
    searching(
        MemoryKind.KNOWLEDGE_BASE,
        SECTIONS,
        {**ONE, **KNOWLEDGE},
        "Find full sections of the knowledge base on a topic.",
    ),
    searching(
        MemoryKind.KNOWLEDGE_BASE,
        DOCUMENTS,
        {**NEWEST, **KNOWLEDGE},
        "Read whole knowledge base entries: the best matches, or the newest.",
    ),
)


# Adds a trace of the search to an answer, which shows why something was not found.
A = TypeVar("A", bound=Result)
"""A result that may have a `trace`."""

NO_ROOM = "The trace did not fit: send a larger max_tokens."


def traced(
    store: SessionMemoryStore,
    search: Callable[[Page], A],
    query: str | Sequence[str] | None,
    scope: Scope,
    page: Page,
    explain: str | int | None,
    *,
    grain: "GrainName" = "chunk",
    mode: str | None = None,
    order: str | None = None,
) -> A:
    """Return the answer of a search for a page, with a trace if one was asked for.

    The trace takes at most half of the page's tokens, and the results take the rest. Raises ValidationError.
    """
    if explain is None:
        return search(page)
    from vector_memory.search.explain import ExplainRequest, fitting  # noqa: PLC0415 - needs numpy

    if query is not None and not isinstance(query, str):
        raise ValidationError("A trace is about one question: send query alone with explain.")
    memory_id = None if explain == EVERYTHING else explained_memory(explain)
    compared = None if SearchOrder.of(order) is SearchOrder.RECENT else query
    trace = store.explaining.explain(compared, scope, ExplainRequest(page, grain, memory_id), SearchMode.of(mode))
    tokens = min(page.max_tokens or LARGEST, store.settings.max_response_tokens)
    fitted = fitting(trace, min(tokens // 2, tokens - MIN_TOKENS) * BYTES_PER_TOKEN)
    if fitted is None:
        answer = search(page)
        told = answer.model_copy(update={"message": f"{answer.message or ''} {NO_ROOM}".strip()})
        return told if size(told) <= tokens * BYTES_PER_TOKEN else answer
    taken = -(-value_size({"trace": fitted}) // BYTES_PER_TOKEN)
    return search(replace(page, max_tokens=tokens - taken)).model_copy(update={"trace": fitted})


def explained_memory(explain: str | int) -> int:
    """Return the memory id in the parameter `explain`. Raises ValidationError."""
    try:
        return parse_id("explain", explain)
    except ValidationError:
        raise ValidationError(f'explain must be "{EVERYTHING}" or the id of a memory, for example 42.') from None
