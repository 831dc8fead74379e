# ruff: noqa: PLR0913 - a command's parameters are its flags
"""The command that searches the memory, and how it prints what was found."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from vector_memory.answers.models import FoundChunk, FoundMemory, FoundSection
from vector_memory.cli.commands.show import without_superseded
from vector_memory.cli.flags import (
    TO_BEGIN,
    Filters,
    StoreFlags,
    Switch,
    require_session,
)
from vector_memory.cli.terminal import console, grid, moment, one_line, print_json, printable, score_column, status
from vector_memory.domain import MemoryKind, Page, Scope, SearchMode, best_of
from vector_memory.domain.text import counted
from vector_memory.errors import ConfigurationError, EmbeddingUnavailableError
from vector_memory.search.across import Answer, Found
from vector_memory.search.answer import GrainName
from vector_memory.search.explain import ExplainRequest, Trace
from vector_memory.search.messages import NO_CLOSE_MATCH, somewhere_else
from vector_memory.settings import MAX_RESPONSE_TOKENS
from vector_memory.store import SessionMemoryStore
from vector_memory.texts.terms import query_terms, terms, with_letters_for_marks

EMPTY = f"The memory is empty. {TO_BEGIN}"
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
    copies: Annotated[bool, Switch(help="Show near copies as separate results.")] = False,
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
        search = AskedMemory(store, question, grain, mode)
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


class AskedMemory:
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
        answer = self._store.across.one(self._query, scope, page, self._grain, self._mode)
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
        """Yield how each search found its results; for one memory, only in the scope of its kind."""
        stored = None if why_not is None else self._store.explaining.kind_of(why_not, "--why-not")
        kinds = {scope.kind for scope in scopes}
        for scope in scopes:
            missed = why_not if scope.kind == (stored if stored in kinds else scopes[0].kind) else None
            shown = self._shown.get(scope.kind)
            asked = page if shown is None else replace(page, limit=page.end, offset=0)
            trace = self._store.explaining.explain(
                self._query, scope, ExplainRequest(asked, self._grain, missed, shown), self._mode
            )
            if trace["candidates"] or "memory" in trace:
                yield trace

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


# Output of `search`: each result's score, origin, and text with the query's words highlighted.


MEASURES = ("rank", "memory", "id", "score", "cosine", "words", "late", "has", "lacks", "")

LINES_SHOWN = 4
WORD = re.compile(r"\w[\w./:@#-]*\w(?:\+\+|\#)?|\w(?:\+\+|\#)?")
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+|\n\s*\n")
DROPPED = re.compile(r"<!--.*?-->|^ {0,3}#{1,6} [^\n]*|^ *(```|~~~)[^\n]*|^ *> ?|-{3,}", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[(?P<label>[^\]]*)\](\([^)]*\)|\[[^\]]*\])")
EMPHASIS = re.compile(r"`|\*+")
CELLS = re.compile(r"[ \t]*\|(?:[ \t|]|:?-{3,}:?|\n(?=[ \t]*\|))*")
HEADING_MARKS = re.compile(r"(?:^|(?<= > ))#{1,6} +")


def print_findings(found: Sequence[Found], message: str, query: str, *, full: bool) -> None:
    """Print results, best first, and the message; a warning precedes the results."""
    out = console()
    if found and NO_CLOSE_MATCH in message:
        out.print(Text(f"{NO_CLOSE_MATCH}\n", style="yellow"))
        message = message.replace(f" {NO_CLOSE_MATCH}", "")
    wanted = set(query_terms(query))
    for result in found:
        text = text_of_result(result)
        shown = printable(text) if full else excerpt_line(text, wanted, LINES_SHOWN * (out.width - 8))
        out.print(_heading(result, out.width))
        out.print(Padding(marked(shown, wanted), (0, 0, 0, 6)))
        out.print()
    out.print(Text(one_line(message), style="dim" if found else "yellow"))


def marked(text: str, wanted: set[str]) -> Text:
    """Return a text with the query's words highlighted."""
    shown = Text(text)
    for word in WORD.finditer(with_letters_for_marks(text)):
        if wanted & set(terms(text[slice(*word.span())])):
            shown.stylize("bold yellow", *word.span())
    return shown


def without_marks(text: str) -> str:
    """Return Markdown as plain text, without headings, fences, comments, link targets and emphasis."""
    return EMPHASIS.sub("", LINK.sub(r"\g<label>", DROPPED.sub(" ", CELLS.sub(" · ", text))))


def excerpt_line(text: str, wanted: set[str], length: int) -> str:
    """Return about `length` characters of a text on one line, starting with the sentence with most of the words."""
    sentences = [line for part in SENTENCE_END.split(without_marks(text)) if (line := one_line(part).strip(" ·"))]
    start = max(range(len(sentences)), key=lambda at: len(wanted & set(terms(sentences[at]))), default=0)
    shown = " ".join(sentences[start:]) or one_line(text)
    if len(shown) > length:
        shown = f"{shown[:length].rsplit(' ', 1)[0]} …"
    return f"… {shown}" if start else shown


def _heading(result: Found, width: int) -> Table:
    """Return a result's score, kind and origin."""
    memory_id = result.id if isinstance(result, FoundMemory) else result.memory_id
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(width=4, style="cyan")
    table.add_column(max_width=width - 6, overflow="fold")
    path = path_of(result)
    title = one_line(result.title or "") or path.partition(" > ")[0] or f"{result.memory_type} {memory_id}"
    lines = [Text(title, style="bold")]
    if path and path != title:
        lines.append(Text(path, style="green"))
    lines.append(Text(_origin(result, memory_id), style="dim"))
    for one in result.later:
        said = f": {one_line(one.beginning)}" if one.beginning else ""
        lines.append(Text(f"later on this subject: {one.id} of {moment(one.created_at)}{said}", style="yellow"))
    if result.copies:
        numbers = ", ".join(map(str, result.copies))
        lines.append(Text(f"the same in {numbers}", style="dim"))
    table.add_row(score_column(result.score), Text("\n").join(lines))
    return table


def path_of(result: Found) -> str:
    """Return the headings above a result."""
    return "" if isinstance(result, FoundMemory) else one_line(HEADING_MARKS.sub("", result.header_path))


def _origin(result: Found, memory_id: int) -> str:
    place = [
        f"{result.memory_type} {memory_id}",
        one_line(result.agent_id or ""),
        result.session_id and f"session {one_line(result.session_id)} v{result.session_iter}",
        result.task_code and f"task {one_line(result.task_code)}",
        moment(result.created_at or ""),
    ]
    return " · ".join(part for part in place if part)


def text_of_result(result: Found) -> str:
    """Return the text of a result."""
    match result:
        case FoundChunk():
            return result.chunk_content
        case FoundSection():
            return result.section_content
        case FoundMemory():
            return result.content


def print_traces(traces: Sequence[Trace], *, candidates: bool) -> None:
    """Print traces, one for each kind that was searched; without `candidates` only the verdict on one memory."""
    out = console()
    for trace in traces:
        if candidates:
            filters = ", ".join(f"{name}={one_line(str(value))}" for name, value in trace["filters"].items())
            out.print(Text(f"\n{filters}", style="bold"))
            out.print(Text(f"{trace['compared']}; candidates: {trace['candidates_compared']:,}", style="dim"))
            out.print(_candidates(trace))
        if "memory" in trace:
            out.print(Text(f"Memory {trace['memory']['id']}: {trace['memory']['why']}", style="yellow"))


def _candidates(trace: Trace) -> Table:
    table = grid(MEASURES)
    for name, column in zip(MEASURES, table.columns, strict=True):
        column.justify, column.overflow = "left" if name in ("has", "lacks", "") else "right", "fold"
    for one in trace["candidates"]:
        measures = ("-" if one[name] is None else f"{one[name]:.3f}" for name in ("score", "cosine", "words", "late"))
        words = (one_line(" ".join(named)) for named in (_found(one), one["lacks"]))
        cells = (str(one["rank"]), str(one["memory_id"]), str(one["id"]), *measures, *words, one["fate"])
        table.add_row(*map(Text, cells))
    return table


def _found(candidate: Trace) -> list[str]:
    """Return the words that a candidate has; in brackets those that only its title or its headings have."""
    return [f"({word})" if word in candidate["in_headings"] else word for word in candidate["has"]]
