"""The page's read requests, answered with JSON: each calls the facade, on a view that counts no reads."""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from contextvars import Context
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import cache
from heapq import merge
from inspect import iscoroutinefunction
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, cast, get_args

from fastmcp import Client, FastMCP
from fastmcp.client.client import CallToolResult
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from vector_memory.answers.models import FoundMemory
from vector_memory.answers.overview import TimelineEntry, TimelineResult
from vector_memory.domain import ANY, MemoryKind, Page, Scope, SearchMode, best_of, utc_now
from vector_memory.domain.callers import Permission
from vector_memory.domain.fields import FILTERS as FIELDS
from vector_memory.domain.validation import LARGEST, MAX_LIMIT, parse_choice
from vector_memory.errors import NotFoundError, ValidationError, VectorMemoryError
from vector_memory.extras.window.page import render
from vector_memory.extras.window.page_state import FILE, Checkup, Deletions, ShownFiles
from vector_memory.files.memory import ListedFile
from vector_memory.search.across import Found
from vector_memory.search.answer import GrainName
from vector_memory.search.explain import ExplainRequest, Trace
from vector_memory.server.app import create_server
from vector_memory.server.current_store import current_caller
from vector_memory.server.tools import offered
from vector_memory.server.tools.searching import NAMES
from vector_memory.settings import Answers, ServerOptions, Toolset
from vector_memory.storage.cancellation import Call, current_call
from vector_memory.storage.records import NamedBy
from vector_memory.store import SessionMemoryStore
from vector_memory.texts.terms import query_terms
from vector_memory.texts.tokens import find_token_counter

SESSIONS = 100
FOUND = 20
"""Results of a search, and the largest sessions."""

RENAMED = {"iter": "iteration", "containing": "text"}

FILTERS = {
    RENAMED.get(one.flag[0], one.flag[0]): name
    for name, one in FIELDS.items()
    if one.flag is not None and one.name not in ("tags", "as_of")
}
"""The filters of a list as addresses name them, and as a Scope does. `tag` may be repeated; `state` may be "any"."""

AROUND_WORDS = ".,;:!?\"'()[]"

PIECE = 2**16


class PageFacts(NamedTuple):
    """Facts about a memory for the page. `place`: where it is, in words. `is_file`: its file can be downloaded."""

    place: str
    is_file: bool
    read_only: bool


class Api:
    """The requests of the page that change nothing."""

    def __init__(
        self, store: SessionMemoryStore, deletions: Deletions, facts: PageFacts, files: ShownFiles, checkup: Checkup
    ) -> None:
        self._store = store
        self._deletions = deletions
        self._facts = facts
        self._files = files
        self._checkup = checkup
        self._agent = AgentAnswers(store)

    def routes(self) -> list[Route]:
        """Return the routes of all requests."""
        reads: dict[str, Callable[..., Any]] = {
            "state": self.state,
            "home": self.home,
            "checkup": self._checkup.report,
            "names/{column}": self.names,
            "memories": self.memories,
            "memories/{memory_id}": self.memory,
            "search": self.search,
            "explain": self.explain,
            "answer": self.answer,
            "export": self.export,
            "chart": self.chart,
            "review": self.review,
            "file": self._files.file,
            "backup": self.backup,
            "space": self.space,
        }
        return [Route(f"/api/{path}", abandonable(endpoint)) for path, endpoint in reads.items()]

    async def state(self, _request: Request) -> Response:
        """Return what the page polls several times a second: whether anything changed, and what will be deleted."""
        # A database server's version takes a round trip.
        version = await asyncio.to_thread(lambda: f"{self._store.version()}.{self._files.version()}")
        waiting = {"deleting": self._deletions.waiting(), "failed": self._deletions.failures}
        return JSONResponse(
            {"version": version, "read_only": self._facts.read_only, "files": bool(self._files), **waiting}
        )

    def home(self, _request: Request) -> Response:
        """Return the activity of the last day, or of the day up to the last store, and the latest sessions."""
        stats = self._store.get_memory_stats()
        until = min(stats.latest_created or utc_now(), utc_now())
        now = datetime.fromisoformat(utc_now())
        if now - datetime.fromisoformat(until) < timedelta(hours=23):
            until = now.isoformat()
        since = (datetime.fromisoformat(until) - timedelta(hours=23)).replace(minute=0, second=0, microsecond=0)
        activity = self._store.get_activity(Scope(created_after=since.isoformat()))
        sessions = self._store.list_sessions(SESSIONS)
        return JSONResponse(
            {
                **self._facts._asdict(),
                "stats": stats.model_dump(mode="json"),
                "since": since.isoformat(),
                "until": until,
                "hours": activity.model_dump(mode="json")["hours"],
                "sessions": sessions.model_dump(mode="json")["sessions"],
                "total_sessions": sessions.total_sessions,
            }
        )

    def names(self, request: Request) -> Response:
        """Return names in use that contain a part: of agents, sessions or tasks, or tags."""
        column, part = request.path_params["column"], request.query_params.get("part", "")
        if column not in get_args(NamedBy):
            raise NotFoundError("Ask for session_id, agent_id or task_code.")
        names, total = self._store.find_names(column, part, request.query_params.get("session"))
        return JSONResponse({"names": names, "total": total})

    def memories(self, request: Request) -> Response:
        """Return a page of memories and files, newest first, with the totals and the number left out."""
        limit, offset = (number_of(request, name, default) for name, default in (("limit", 100), ("offset", 0)))
        only_files = request.query_params.get("kind") == FILE
        scope = scope_of(request, FILTERS.keys() - {"kind"} if only_files else FILTERS)
        files = self._files.listed(scope)
        start = max(0, offset - len(files))  # all files may be among those before
        found = TimelineResult() if only_files else self._store.get_timeline(scope, limit + len(files), start)
        both: Iterator[ListedFile | TimelineEntry] = merge(files, reversed(found.entries), key=changed_at, reverse=True)
        return JSONResponse(
            {
                "memories": [
                    self._files.entry(one) if isinstance(one, ListedFile) else one.model_dump(mode="json")
                    for one in islice(both, offset - start, offset - start + limit)
                ],
                "total": found.total_memories + len(files),
                "files": len(files),
                "superseded": found.superseded,
            }
        )

    def memory(self, request: Request) -> Response:
        """Return a memory with everything around it, its text also as HTML."""
        page = self._store.get_memory_page(request.path_params["memory_id"])
        return JSONResponse({**page.model_dump(mode="json"), "html": render(page.memory.content)})

    def search(self, request: Request) -> Response:
        """Return the results of a search, best first, as agents find them; of all kinds also passages of files."""
        if request.query_params.get("kind") == FILE:
            query = request.query_params.get("q", "")
            return JSONResponse(results_in(query, self._files.found(query, FOUND)))
        query, scope, grain, mode = question_of(request)
        page = Page(limit=FOUND)
        if scope.kind is None:
            merged = self._store.across.several(query, [*kinds_of(scope)], page, grain, mode)
            results, answers = merged.results, merged.answers
        else:
            answers = [self._store.across.one(query, scope, page, grain, mode)]
            results = list(answers[0].results)
        found = [as_listed(result) for result in results]
        if scope == Scope():
            of_files = [one for one in self._files.found(query, FOUND) if one.get("match") != "weak"]
            found = [*merge(found, of_files, key=lambda one: one["score"] or 0, reverse=True)][:FOUND]
        return JSONResponse(
            results_in(query, found)
            | {
                "confidence": best_of([answer.confidence for answer in answers]),
                "weak": sum(answer.weak for answer in answers),
                "message": answers[0].message if scope.kind else None,
            }
        )

    def explain(self, request: Request) -> Response:
        """Return how each candidate was scored, by kind; for the memory `missed`, why it was not found.

        `memories`: what the candidates are called. `words`: the question's word of each term.
        """
        query, scope, grain, mode = question_of(request)
        missed = request.query_params.get("missed") or None
        stored = None if missed is None else self._store.explaining.kind_of(missed)
        scopes, traces, page = [*kinds_of(scope)], list[Trace](), Page(limit=FOUND)
        merged = scope.kind is None and self._store.across.several(query, scopes, page, grain, mode).shown
        explained = stored if stored in [one.kind for one in scopes] else scopes[0].kind
        for one in scopes:
            wanted = missed if one.kind == explained else None
            asked = ExplainRequest(page, grain, wanted, merged[one.kind] if merged else None)
            trace = self._store.explaining.explain(query, one, asked, mode)
            if trace["candidates"] or "memory" in trace:
                traces.append(trace)
        ids = {one["memory_id"] for trace in traces for one in trace["candidates"]}
        ids |= {trace["memory"]["id"] for trace in traces if "memory" in trace}
        names = {one.memory_id: asdict(one) for one in self._store.explaining.named(sorted(ids))}
        return JSONResponse({"traces": traces, "memories": names, "words": whole_words(query)})

    async def answer(self, request: Request) -> Response:
        """Return the answer that an agent gets to the question, character for character."""
        query, scope, grain, _ = question_of(request)
        is_lean = request.query_params.get("form") == "lean"
        return JSONResponse(await self._agent.ask(query, scope, grain, is_lean=is_lean))

    def export(self, request: Request) -> Response:
        """Return a session, or all, as JSON Lines, as `vector-memory export` writes them."""
        stream = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it was sent
        try:
            self._store.export_memories(stream, request.query_params.get("session") or None)
        except VectorMemoryError:
            stream.close()
            raise
        stream.seek(0)
        return download(stream, "memories.jsonl", "application/jsonl")

    def chart(self, request: Request) -> Response:
        """Return the data of a timeline and a map, for the memories that filters select."""
        return JSONResponse(self._store.get_chart(scope_of(request)))

    def review(self, request: Request) -> Response:
        """Return what may be out of date, likely contradictions first; what is held back only to administrators."""
        found = self._store.review_for_people(request.query_params.get("session") or None, MAX_LIMIT)
        may_hold = current_caller().may(Permission.ADMIN)
        return JSONResponse(
            found.model_dump(mode="json", exclude=set() if may_hold else {"held"}) | {"may_hold": may_hold}
        )

    def space(self, _request: Request) -> Response:
        """Return the largest sessions and kinds, what is superseded, and the room in the file."""
        sizes, room = self._store.get_space(FOUND)
        return JSONResponse({**sizes, "room": room._asdict() if room and self._facts.is_file else None})

    def backup(self, _request: Request) -> Response:
        """Return a copy of the memory's file."""
        self._store.version()  # raises if it is gone, without saying where it was
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "memory.db"
            self._store.back_up(copy)
            stream = copy.open("rb")  # it can be read after the folder is gone
        return download(stream, "memory-backup.db", "application/vnd.sqlite3")


def abandonable(endpoint: Callable[..., Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that stops reading when the browser no longer waits, as when somebody keeps typing."""

    async def answered(request: Request) -> Response:
        before = current_call.set(call := Call())
        watching = asyncio.create_task(cancel_if_gone(request, call))
        try:
            answer = endpoint(request) if iscoroutinefunction(endpoint) else run_in_threadpool(endpoint, request)
            return cast("Response", await answer)
        finally:
            watching.cancel()
            current_call.reset(before)  # recording the request is not cancelled with it

    return answered


async def cancel_if_gone(request: Request, call: Call) -> None:
    """Cancel a call when the browser has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass  # the body
    call.cancelled = True


def scope_of(request: Request, names: Collection[str] = FILTERS) -> Scope:
    """Return the scope that the filters of an address select. `names`: other filters are ignored.

    Raises ValidationError.
    """
    given = request.query_params
    wanted: Mapping[str, Any] = {FILTERS[name]: value for name, value in given.items() if value and name in names}
    if wanted.get("state") == ANY:
        wanted = {**wanted, "state": None, "as_of": ANY}
    return Scope(**wanted, tags=given.getlist("tag") or None)


def number_of(request: Request, name: str, default: int) -> int:
    """Return a whole number of an address. Raises ValidationError."""
    given = request.query_params.get(name, str(default))
    if not given.isdecimal() or len(given) >= len(str(LARGEST)):
        raise ValidationError(f"{name} must be a whole number.")
    return int(given)


def question_of(request: Request) -> tuple[str, Scope, GrainName, SearchMode | None]:
    """Return the query, the scope, the grain and the mode that an address names. Raises ValidationError."""
    given = request.query_params
    grain = given.get("grain", "chunk")
    if grain not in get_args(GrainName):
        raise ValidationError("grain must be chunk, section or document.")
    mode = parse_choice("mode", given["mode"], SearchMode) if given.get("mode") else None
    return given.get("q", ""), scope_of(request), cast("GrainName", grain), mode


def changed_at(one: ListedFile | TimelineEntry) -> str:
    """Return by which time a list is sorted."""
    return one.changed_at if isinstance(one, ListedFile) else one.created_at


def kinds_of(scope: Scope) -> Iterator[Scope]:
    """Yield a scope for each kind of memory in it."""
    for kind in MemoryKind if scope.kind is None else [scope.kind]:
        yield replace(scope, kind=kind)


def results_in(query: str, found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return an answer of results, with the terms that the page marks in them."""
    marked = [*query_terms(query), *dict.fromkeys(whole_words(query).values())]
    return {"results": found, "terms": marked, "confidence": None, "weak": 0, "message": None}


def whole_words(query: str) -> dict[str, str]:
    """Map the terms of a query to its words."""
    words = [word.strip(AROUND_WORDS) for word in reversed(query.split())]
    known = query_terms(query)
    return {term: word for word in words for term in query_terms(word) if term in known}


def as_listed(result: Found) -> dict[str, Any]:
    """Return a result under the same names in every grain."""
    fields = result.model_dump(mode="json")
    text = next(fields.pop(name) for name in ("chunk_content", "section_content", "content") if name in fields)
    unit = fields.get("chunk_id") or result.memory_id
    path = "" if isinstance(result, FoundMemory) else result.header_path
    return {**fields, "memory_id": result.memory_id, "unit": unit, "text": text, "path": path}


def download(stream: IO[bytes], name: str, media_type: str) -> Response:
    """Return an answer that the browser saves as a file; the stream is closed after it."""
    headers = {"content-disposition": f'attachment; filename="{name}"'}

    def pieces() -> Iterator[bytes]:
        with stream:
            yield from iter(lambda: stream.read(PIECE), b"")

    return StreamingResponse(pieces(), media_type=media_type, headers=headers)


def failure_answer(_request: Request, error: Exception) -> Response:
    """Return an error of this package as an answer."""
    code = error.code if isinstance(error, VectorMemoryError) else "Error"
    status = 404 if isinstance(error, NotFoundError) else 400 if isinstance(error, ValidationError) else 503
    return JSONResponse({"error": code, "message": str(error)}, status)


# Answers of the tools, character for character as an agent gets them.


class AgentAnswers:
    """Calls the search tools as an agent would, on a store of this process."""

    def __init__(self, store: SessionMemoryStore) -> None:
        self._store = store
        self._server = cache(self._make_server)
        self._count = cache(lambda: find_token_counter(None))

    async def ask(self, query: str, scope: Scope, grain: GrainName, *, is_lean: bool) -> dict[str, Any] | None:
        """Return the call of the tool for a question, its answer and how many tokens it has; None: there is no tool."""
        kind = scope.kind or MemoryKind.REPORT
        tool = "search_memories" if kind is MemoryKind.TAGGED else NAMES.get((kind, grain), NAMES.get((kind, "chunk")))
        if tool is None:
            return None
        [offer] = [one for one in offered([Toolset.SESSION, Toolset.TAGGED]) if one.name == tool]
        filters, known = scope.as_filters(), offer.parameters["properties"]
        arguments = {name: value for name, value in filters.items() if name in known} | {"query": query}
        server = self._server(Answers.LEAN if is_lean else Answers.FULL)
        # In a context of its own: with the token of this request, the tool would look for its namespace.
        answer = await asyncio.create_task(called(server, tool, arguments), context=Context())
        text = "\n".join(part.text for part in answer.content if part.type == "text")
        text = text or json.dumps(answer.structured_content, ensure_ascii=False)
        return {"tool": tool, "arguments": arguments, "text": text, "tokens": self._count()(text)}

    def _make_server(self, answers: Answers) -> FastMCP:
        options = ServerOptions(toolsets="session,tagged", answers=answers, read_only=True)
        return create_server(lambda: nullcontext(self._store), options)


async def called(server: FastMCP, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    """Return the answer of a tool."""
    async with Client(server) as client:
        answer: CallToolResult = await client.call_tool(tool, arguments, raise_on_error=False)
    return answer
