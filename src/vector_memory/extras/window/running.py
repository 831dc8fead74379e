"""Serves the page to one browser on this machine."""

import asyncio
import sys
import tempfile
import webbrowser
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from html import escape
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import VectorMemoryError
from vector_memory.extras.window.api import PageFacts, refused
from vector_memory.extras.window.guard import Guard
from vector_memory.extras.window.page_state import Checkup, Deletions, ShownFiles, examine
from vector_memory.extras.window.routes import ROOT, request_routes
from vector_memory.files import FileMemory
from vector_memory.files.memory import index_path
from vector_memory.server.http.asgi_guard import App, Gate, TimedConnection
from vector_memory.server.http.serving import DrainingServer, listen
from vector_memory.settings import FileLocations, MemoryAddress, Settings
from vector_memory.store import SessionMemoryStore


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
        gate = Gate(guard)
        config = uvicorn.Config(
            gate,
            http=TimedConnection,
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            lifespan="on",
        )
        asyncio.run(DrainingServer(config, gate, None).serve(sockets=[listening]))


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
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={VectorMemoryError: refused})
