"""The page: its routes, its write requests, and its server for one browser on this machine."""

import asyncio
import io
import json
import sys
import tempfile
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from vector_memory.domain import Scope
from vector_memory.domain.callers import Permission
from vector_memory.domain.validation import parse_id
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import AccessDeniedError, NotFoundError, ValidationError, VectorMemoryError
from vector_memory.extras.window.api import Api, PageFacts, failure_answer, scope_of
from vector_memory.extras.window.guard import Guard
from vector_memory.extras.window.page import LIVE_POLICY, page_html
from vector_memory.extras.window.page_state import Checkup, Deletions, ShownFiles, examine
from vector_memory.files import FileMemory
from vector_memory.files.memory import index_path
from vector_memory.server.current_store import current_caller
from vector_memory.server.http.asgi_guard import App, Gate
from vector_memory.server.http.serving import listen, serve_app
from vector_memory.settings import FileLocations, MemoryAddress, Settings
from vector_memory.store import SessionMemoryStore


def request_routes(
    store: SessionMemoryStore, deletions: Deletions, facts: PageFacts, checkup: Checkup, shown: ShownFiles
) -> list[Route]:
    """Return the routes of a memory's page."""
    uncounted = store.uncounted()
    api = Api(uncounted, deletions, facts, shown, checkup)
    return [*api.routes(), *Edits(uncounted, deletions, read_only=facts.read_only).routes()]


async def open_page(_request: Request) -> Response:
    """Return the page itself."""
    return HTMLResponse(page_html(), headers={"content-security-policy": f"{LIVE_POLICY}; frame-ancestors 'none'"})


ROOT = Route("/", open_page)

# Write requests: each calls the facade. A read-only page refuses them all.

AMENDED = ("title", "description", "tags")

AT_ONCE = 1_000
"""Maximum number of memories that a request deletes."""


class Edits:
    """The requests of the page that change the memory."""

    def __init__(self, store: SessionMemoryStore, deletions: Deletions, *, read_only: bool) -> None:
        self._store = store
        self._deletions = deletions
        self._read_only = read_only

    def routes(self) -> list[Route]:
        """Return the routes of all requests."""
        store, one = self._store, "/api/memories/{memory_id}"
        return [
            self._route(one, "PUT", self._amend),
            self._route(f"{one}/pin", "PUT", in_thread(store.pin)),
            self._route(f"{one}/pin", "DELETE", in_thread(store.unpin)),
            self._route(f"{one}/older/{{older_id}}", "PUT", in_thread(store.supersede)),
            self._route(f"{one}/older/{{older_id}}", "DELETE", in_thread(store.release)),
            self._route(f"{one}/copies/{{older_id}}", "PUT", in_thread(store.merge)),
            self._route(f"{one}/later", "DELETE", in_thread(store.dismiss)),
            self._route(f"{one}/hold", "POST", in_thread(by_admin(store.holding.quarantine_one))),
            self._route(f"{one}/hold", "DELETE", in_thread(by_admin(store.holding.accept_one))),
            self._route(f"{one}/hold", "PUT", in_thread(by_admin(store.holding.reject_one))),
            self._route(f"{one}/deletion", "PUT", self._delete),
            self._route(f"{one}/deletion", "DELETE", self._undo),
            self._route("/api/deletion", "PUT", self._delete_listed),
            self._route("/api/deletion", "DELETE", self._undo_all),
            self._route("/api/import", "POST", self._import),
            self._route("/api/space", "PUT", in_thread(by_admin(store.shrink))),
        ]

    def _route(self, path: str, method: str, act: Callable[[Request], Awaitable[Any]]) -> Route:
        async def endpoint(request: Request) -> Response:
            if self._read_only:
                raise AccessDeniedError("This page is read-only. Restart it without --read-only to edit.")
            return JSONResponse(await act(request))

        return Route(path, endpoint, methods=[method])

    async def _amend(self, request: Request) -> Any:
        sent = await body_of(request)
        changes = {name: sent.get(name) for name in AMENDED}
        answer = await asyncio.to_thread(self._store.amend_memory, request.path_params["memory_id"], **changes)
        return answer.model_dump(mode="json")

    async def _delete(self, request: Request) -> Any:
        """Schedule a deletion."""
        self._deletions.schedule(parse_id("memory_id", request.path_params["memory_id"]))
        return {"deleting": self._deletions.waiting()}

    async def _undo(self, request: Request) -> Any:
        """Cancel a deletion."""
        if not self._deletions.undo(parse_id("memory_id", request.path_params["memory_id"])):
            raise NotFoundError("It is too late: the memory was deleted.")
        return {"deleting": self._deletions.waiting()}

    async def _delete_listed(self, request: Request) -> Any:
        """Schedule the deletion of what the filters of an address select, latest first."""
        scope = scope_of(request)
        if replace(scope, as_of=None) == Scope():
            raise ValidationError("Choose what to delete with a filter.")
        found = await asyncio.to_thread(self._store.get_timeline, scope, AT_ONCE)
        self._deletions.schedule(*(entry.memory_id for entry in found.entries))
        return {"deleting": self._deletions.waiting()}

    async def _undo_all(self, _request: Request) -> Any:
        self._deletions.undo_all()
        return {"deleting": {}}

    async def _import(self, request: Request) -> Any:
        """Add the memories of an export, and compute their vectors in the background."""
        sent = await body_of(request)
        if not isinstance(sent.get("lines"), str):
            raise ValidationError("Choose a file that was exported.")
        source, session = io.BytesIO(sent["lines"].encode(errors="replace")), sent.get("session") or None
        added = await asyncio.to_thread(self._store.import_memories, source, as_session=session)
        self._store.start_background_work()
        return added._asdict()


def by_admin(act: Callable[..., Any]) -> Callable[..., Any]:
    """Return what only the owner of the memory, or a token for administrators, may do."""

    def allowed(*arguments: Any) -> Any:
        current_caller().require(Permission.ADMIN)
        return act(*arguments)

    return allowed


def in_thread(act: Callable[..., Any]) -> Callable[[Request], Awaitable[Any]]:
    """Return an endpoint that calls a method of the facade with the ids in the request's path."""

    async def called(request: Request) -> Any:
        answer = await asyncio.to_thread(partial(act, *request.path_params.values()))
        return answer.model_dump(mode="json")

    return called


async def body_of(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request has sent. Raises ValidationError."""
    try:
        sent = json.loads(await request.body())
    except (ValueError, RecursionError):
        sent = None
    if not isinstance(sent, dict):
        raise ValidationError("Send a JSON object.")
    return sent


# Serves the page to one browser on this machine.


def run_ui(
    address: MemoryAddress, settings: Settings, files_at: FileLocations, *, port: int, opens: bool, read_only: bool
) -> None:
    """Serve the page of a memory until a signal arrives. `port` 0: any free one. `opens`: in the user's browser."""
    model = EmbeddingModel(lambda: load_embedder(settings))
    with ExitStack() as opened:
        store = opened.enter_context(SessionMemoryStore(address, settings, model=model, read_only=read_only))
        folder, memory = opened.enter_context(tempfile.TemporaryDirectory()), None
        if files_at.folder().is_dir():
            index = index_path(files_at.index_folder(), files_at.folder(), settings.embedding_model)
            memory = opened.enter_context(FileMemory(files_at.folder(), settings, index_file=index, model=model))
        checkup = Checkup(partial(examine, address, settings))
        guard = Guard(page_app(store, str(address), checkup, memory, read_only=read_only))
        listening = listen("127.0.0.1", port)
        link = guard.link(listening.getsockname()[1])
        sys.stderr.write(f"The memory {address} is at\n  {link}\nThe link works once. Ctrl-C ends the page.\n")
        if opens:
            open_in_browser(link, Path(folder))
        serve_app(Gate(guard), [listening])


def open_in_browser(link: str, folder: Path) -> None:
    """Open a link through a file that only its owner can read: other users see the commands that start a browser."""
    file = folder / "open.html"
    file.write_text(f'<meta http-equiv="refresh" content="0; url={escape(link)}">', encoding="utf-8")
    webbrowser.open(file.as_uri())


def page_app(
    store: SessionMemoryStore, place: str, checkup: Checkup, memory: FileMemory | None = None, *, read_only: bool
) -> App:
    """Return the application of the page, without its guard."""
    deletions = Deletions(store.delete_memory)
    facts = PageFacts(place, store.is_file, read_only)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        store.start_background_work()
        if memory is not None:
            memory.start_background_work()
        yield
        await deletions.finish()

    routes = [ROOT, *request_routes(store, deletions, facts, checkup, ShownFiles(memory))]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={VectorMemoryError: failure_answer})
