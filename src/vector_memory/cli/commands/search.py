# ruff: noqa: PLR0913 - a command's parameters are its flags
"""The command that searches the memory."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from cyclopts import Parameter

from vector_memory.cli.commands.search_output import print_findings, print_traces
from vector_memory.cli.commands.show import without_superseded
from vector_memory.cli.flags import (
    Filters,
    StoreFlags,
    Switch,
    require_session,
)
from vector_memory.cli.terminal import print_json, status
from vector_memory.domain import MemoryKind, Page, Scope, SearchMode, best_of
from vector_memory.domain.text import counted
from vector_memory.errors import ConfigurationError, EmbeddingUnavailableError
from vector_memory.search.across import Answer, Found
from vector_memory.search.answer import GrainName
from vector_memory.search.explaining import Asked, Trace
from vector_memory.search.messages import NO_CLOSE_MATCH, somewhere_else
from vector_memory.settings import MAX_RESPONSE_TOKENS
from vector_memory.store import SessionMemoryStore

EMPTY = "The memory is empty."
NO_RESULTS = "No memories match: leave out a filter, or use other words."


def search(
    *query: Annotated[str, Parameter(help="What to find: a question, a phrase, a name.")],
    grain: Annotated[GrainName, Parameter(help="Size of a result.")] = "chunk",
    filters: Filters = Filters(),
    mode: Annotated[
        SearchMode | None, Parameter(help="Search by meaning, words or both. Default: --search-mode.")
    ] = None,
    limit: Annotated[int, Parameter(help="Maximum number of results (1-100).")] = 5,
    offset: Annotated[int, Parameter(help="Skip the first results.")] = 0,
    prefer: Annotated[
        Literal["latest"] | None, Parameter(help="Among results on one subject, put the latest first.")
    ] = None,
    copies: Annotated[bool, Switch(help="Show near copies as results of their own.")] = False,
    full: Annotated[bool, Switch(help="Print whole texts.")] = False,
    explain: Annotated[bool, Switch(help="Print how each candidate was measured.")] = False,
    why_not: Annotated[str | None, Parameter(help="Explain why the memory with this id was not found.")] = None,
    here: StoreFlags = StoreFlags(),
) -> None:
    """Search by meaning and words.

    Without --kind, each kind is searched separately and the results are merged by score.

    Memories that are not split into chunks, such as prompts, are found as a whole at any grain.
    """
    if not query:
        raise ConfigurationError("Enter what to find: a question, a phrase, a name.")
    question = " ".join(query)
    settings = here.settings.model_copy(update={"max_response_tokens": MAX_RESPONSE_TOKENS})
    scopes = [filters.scope(one) for one in ([filters.kind] if filters.kind else MemoryKind)]
    if filters.session_id is not None:
        with here.opened() as storage:
            require_session(storage, filters.session_id)
    with replace(here, settings=settings).store(read_only=True) as store, status("Loading the embedding model ..."):
        search = Search(store, question, grain, mode)
        page = Page(limit=limit, offset=offset, prefer=prefer, copies=copies)
        found, message = (search.one if filters.kind else search.all)(scopes, page)
        traces = list(search.traces(scopes, page, why_not)) if explain or why_not else []
    if here.as_json:
        results = [result.model_dump(mode="json") for result in found]
        trace = {"trace": traces} if traces else {}
        print_json(
            {"success": True, "message": message, "query": question, "grain": grain, "results": results, **trace}
        )
    else:
        print_findings(found, message, question, full=full)
        print_traces(traces, candidates=explain)


class Search:
    """A query to a memory."""

    def __init__(self, store: SessionMemoryStore, query: str, grain: GrainName, mode: SearchMode | None) -> None:
        self._store = store
        self._query = query
        self._grain = grain
        self._mode = mode
        self._shown: dict[MemoryKind | None, range] = {}

    def one(self, scopes: Sequence[Scope], page: Page) -> tuple[list[Found], str]:
        """Return the results in a single scope, and a message."""
        (scope,) = scopes
        answer = self._ask(scope, page)
        notes = [*self._notes([answer], answer.results)]
        if answer.elsewhere:
            notes.append(somewhere_else(answer.elsewhere))
        if answer.next_offset is not None:
            notes.append(f"For more, repeat with --offset {answer.next_offset}.")
        return list(answer.results), " ".join(notes)

    def all(self, scopes: Sequence[Scope], page: Page) -> tuple[list[Found], str]:
        """Return the merged results of all scopes, and a message."""
        merged = self._store.across.several(self._query, scopes, page, self._grain, self._mode)
        self._shown = merged.shown
        return merged.results, " ".join(self._notes(merged.answers, merged.results))

    def traces(self, scopes: Sequence[Scope], page: Page, why_not: str | None) -> Iterator[Trace]:
        """Yield how each search came to its results; of a memory, only in the scope of its own kind."""
        stored = None if why_not is None else self._store.explaining.kind_of(why_not, "--why-not")
        kinds = {scope.kind for scope in scopes}
        for scope in scopes:
            missed = why_not if scope.kind == (stored if stored in kinds else scopes[0].kind) else None
            shown = self._shown.get(scope.kind)
            asked = page if shown is None else replace(page, limit=page.end, offset=0)
            trace = self._store.explaining.explain(
                self._query, scope, Asked(asked, self._grain, missed, shown), self._mode
            )
            if trace["candidates"] or "memory" in trace:
                yield trace

    def _ask(self, scope: Scope, page: Page) -> Answer:
        return self._store.across.one(self._query, scope, page, self._grain, self._mode)

    def _notes(self, answers: Sequence[Answer], found: Sequence[Found]) -> Iterator[str]:
        stats = self._store.get_memory_stats()
        yield f"{counted(len(found), 'result')}." if found else NO_RESULTS if stats.total_memories else EMPTY
        problem = self._problem(answers)
        if problem:
            yield f"Found by words only. {problem}"
        elif found and best_of([answer.confidence for answer in answers]) in {"related", "weak"}:
            yield NO_CLOSE_MATCH
        if superseded := sum(answer.superseded for answer in answers):
            yield f"{without_superseded(superseded)}."
        if stats.without_vectors:
            memories = counted(stats.without_vectors, "memory lacks", "memories lack")
            advice = "" if problem else ": run `vector-memory backfill`"
            yield f"{memories} vectors and may be found by words only{advice}."

    def _problem(self, answers: Sequence[Answer]) -> str | None:
        """Return why nothing was compared by meaning, if it should have been."""
        meant = (self._mode or self._store.settings.search_mode) is not SearchMode.KEYWORD
        if not meant or any(answer.confidence for answer in answers):
            return None
        try:
            self._store.explaining.require_comparable()
        except EmbeddingUnavailableError as error:
            return str(error)
        return None
