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
from vector_memory.server.tools.params import (
    FILTERED,
    READS,
    After,
    Detail,
    Explain,
    InSession,
    LatestFirst,
    Limit,
    MaxTokens,
    Mode,
    Neighbours,
    OneQuery,
    OptionalQuery,
    Order,
    Parameters,
    Prefer,
    Queries,
    Query,
    Skip,
    Store,
    all_but,
    declared,
    found_by,
)

if TYPE_CHECKING:
    from vector_memory.search.answer import GrainName

SESSIONS = all_but(FILTERED, "category")
"""The filters for memories of sessions."""

KNOWLEDGE = all_but(FILTERED, "session_id", "session_iter", "task_code")
SESSION: Parameters = {"session_id": (InSession,)}
IN_SESSION = all_but(SESSIONS, "session_id", "task_code")

NEWEST: Parameters = {"query": (OptionalQuery, None)}
ONE: Parameters = {"query": (Query,)}
QUERIES: Parameters = {"queries": (Queries, None)}
SEVERAL: Parameters = {"query": (OneQuery, None), **QUERIES}

NEAR: Parameters = {"neighbours": (Neighbours, 1)}
PREFER: Parameters = {"prefer": (Prefer, None)}
MODE: Parameters = {"search_mode": (Mode, None), **PREFER}
DETAIL: Parameters = {"detail": (Detail, None)}
CURSOR: Parameters = {"cursor": (After, None)}
BY_TIME: Parameters = {"latest_first": (LatestFirst, True), **DETAIL, **CURSOR}
ORDER: Parameters = {"order": (Order, None), **PREFER, **DETAIL, **CURSOR}
NO_MORE: Parameters = {}


class AnswerForm(NamedTuple):
    """How a tool searches and answers: a method of the store, its result and grain; the end of its name and title.

    `limit`: the default. `options`: parameters that all tools with these answers have.
    """

    search: str
    result: type[Result]
    grain: "GrainName"
    suffix: str
    word: str
    limit: int
    options: Parameters


STATES = AnswerForm("search_memories", SearchMemoriesResult, "chunk", "", "", 5, BY_TIME)
WHOLE = AnswerForm("search_memories", SearchMemoriesResult, "chunk", "", "", 10, {**PREFER, **CURSOR})
CHUNKS = AnswerForm("search_chunks", FineSearchResult, "chunk", "_specific_chunks", ": chunks", 10, MODE)
SECTIONS = AnswerForm("search_sections", MediumSearchResult, "section", "_section_context", ": sections", 5, MODE)
DOCUMENTS = AnswerForm("search_documents", CoarseSearchResult, "document", "_full_documents", ": documents", 3, ORDER)


def searching(
    kind: MemoryKind,
    subject: str,
    answers: AnswerForm,
    description: str,
    parameters: Parameters,
    hint: str = "",
    *,
    always: bool = False,
    more: Parameters = NO_MORE,
) -> Callable[..., Any]:
    """Return the tool that searches memories of a kind. `more`: options that only this tool has."""

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

        filters = FILTERED.keys() & given.keys()
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
    whole: Parameters = {
        "store": (Store,),
        **parameters,
        "limit": (Limit, answers.limit),
        **answers.options,
        **more,
        "offset": (Skip, 0),
        "max_tokens": (MaxTokens, None),
        "explain": (Explain, None),
    }
    name, title = f"search_{subject.replace(' ', '_')}{answers.suffix}", f"Search {subject}{answers.word}"
    return declared(find, name, title, description, whole, READS, found_by(hint, always=always) if hint else None)


TOOLS = (
    searching(
        MemoryKind.SESSION_CONTEXT,
        "session context",
        STATES,
        "Read a session's saved states, newest first.",
        {**SESSION, **NEWEST, **IN_SESSION},
        "recall session state, where we left off",
    ),
    searching(
        MemoryKind.INPUT_PROMPT,
        "input prompts",
        STATES,
        "Read a session's user prompts, newest first.",
        {**SESSION, **NEWEST, **IN_SESSION},
        "recall what the user asked, last time",
        more=NEAR,
    ),
    searching(
        MemoryKind.SYSTEM_MEMORY,
        "system memory",
        WHOLE,
        "Find saved commands and configuration by meaning.",
        {**NEWEST, **SESSIONS},
        "recall, search memory, command, configuration",
    ),
    searching(
        MemoryKind.REPORT,
        "reports",
        CHUNKS,
        "Find a fact in reports: the chunks closest in meaning. Try this first.",
        {**SEVERAL, **SESSIONS},
        "recall, search memory, find, what did we do last time, what do we know about",
        always=True,
    ),
    searching(
        MemoryKind.REPORT,
        "reports",
        SECTIONS,
        "Find full sections of reports on a topic.",
        {**SEVERAL, **SESSIONS},
        "recall, search memory, find, topic",
    ),
    searching(
        MemoryKind.REPORT,
        "reports",
        DOCUMENTS,
        'Read whole reports: the best matches, or the newest. To look over many, send detail="lines", then read by id.',
        {**NEWEST, **QUERIES, **SESSIONS},
        "recall, search memory, read report, what did we do last time",
    ),
    searching(
        MemoryKind.WORKING_MEMORY,
        "working memory",
        CHUNKS,
        "Find a fact in working memory: the chunks closest in meaning.",
        {**SEVERAL, **SESSIONS},
        "recall, search memory, notes",
        more=NEAR,
    ),
    searching(
        MemoryKind.WORKING_MEMORY,
        "working memory",
        SECTIONS,
        "Find full sections of working memory on a topic.",
        {**ONE, **SESSIONS},
    ),
    searching(
        MemoryKind.WORKING_MEMORY,
        "working memory",
        DOCUMENTS,
        "Read whole working memories: the best matches, or the newest.",
        {**NEWEST, **SESSIONS},
    ),
    searching(
        MemoryKind.KNOWLEDGE_BASE,
        "knowledge base",
        CHUNKS,
        "Find a fact in the knowledge base: the chunks closest in meaning.",
        {**SEVERAL, **KNOWLEDGE},
        "recall, search memory, knowledge, convention, decision",
    ),
    searching(
        MemoryKind.KNOWLEDGE_BASE,
        "knowledge base",
        SECTIONS,
        "Find full sections of the knowledge base on a topic.",
        {**ONE, **KNOWLEDGE},
    ),
    searching(
        MemoryKind.KNOWLEDGE_BASE,
        "knowledge base",
        DOCUMENTS,
        "Read whole knowledge base entries: the best matches, or the newest.",
        {**NEWEST, **KNOWLEDGE},
    ),
)


# Adds a trace of the search to an answer, which shows why something was not found.

if TYPE_CHECKING:
    from vector_memory.search.answer import GrainName

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
