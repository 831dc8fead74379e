"""Adds a trace of the search to an answer, which shows why something was not found."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from vector_memory.domain import Page, Scope, SearchMode, SearchOrder
from vector_memory.domain.search_request import EVERYTHING
from vector_memory.domain.validation import LARGEST, MIN_TOKENS, parse_id
from vector_memory.errors import ValidationError
from vector_memory.results.budget import BYTES_PER_TOKEN
from vector_memory.results.sessions import Result
from vector_memory.results.shortening import size, value_size
from vector_memory.server.current_store import SessionMemoryStore

if TYPE_CHECKING:
    from vector_memory.search.explaining import Grain

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
    grain: "Grain" = "chunk",
    mode: str | None = None,
    order: str | None = None,
) -> A:
    """Return the answer of a search for a page, with a trace if one was asked for.

    The trace takes at most half of the page's tokens, and the results take the rest. Raises ValidationError.
    """
    if explain is None:
        return search(page)
    from vector_memory.search.explaining import Asked, fitting  # noqa: PLC0415 - needs numpy

    if query is not None and not isinstance(query, str):
        raise ValidationError("A trace is about one question: send query alone with explain.")
    memory_id = None if explain == EVERYTHING else explained_memory(explain)
    compared = None if SearchOrder.of(order) is SearchOrder.RECENT else query
    trace = store.explaining.explain(compared, scope, Asked(page, grain, memory_id), SearchMode.of(mode))
    tokens = min(page.max_tokens or LARGEST, store.settings.max_response_tokens)
    fitted = fitting(trace, min(tokens // 2, tokens - MIN_TOKENS) * BYTES_PER_TOKEN)
    if fitted is None:
        answer = search(page)
        told = answer.model_copy(update={"message": f"{answer.message or ''} {NO_ROOM}".strip()})
        return told if size(told) <= tokens * BYTES_PER_TOKEN else answer
    taken = -(-value_size({"trace": fitted}) // BYTES_PER_TOKEN)
    return search(replace(page, max_tokens=tokens - taken)).model_copy(update={"trace": fitted})


def explained_memory(explain: str | int) -> int:
    """Return the id of a memory that the parameter `explain` names. Raises ValidationError."""
    try:
        return parse_id("explain", explain)
    except ValidationError:
        raise ValidationError(f'explain must be "{EVERYTHING}" or the id of a memory, for example 42.') from None
