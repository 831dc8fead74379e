"""Builds the MCP server around a store, and runs it over standard input and output."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider
from fastmcp.server.middleware import Middleware
from mcp_types import JSONRPCRequest

from vector_memory import __version__
from vector_memory.domain import Project
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import ConfigurationError, VectorMemoryError
from vector_memory.files import FileMemory, index_path
from vector_memory.server import guide
from vector_memory.server.completions import add_completions
from vector_memory.server.conversation import Conversation
from vector_memory.server.current_store import MEMORY
from vector_memory.server.fastmcp_adapter import MemoryServer, RequestStateSecurity, serve_streams
from vector_memory.server.hooks import HookTools
from vector_memory.server.instructions import instructions_for
from vector_memory.server.prompts import add_prompts
from vector_memory.server.resources import add_resources
from vector_memory.server.shutdown import end_process, stop_on_signals
from vector_memory.server.stdio import Wire, take_standard_streams
from vector_memory.server.tools import may_wait_to_write, offered
from vector_memory.server.tools.failures import UnknownTools
from vector_memory.settings import (
    FileLocations,
    MemoryAddress,
    Profile,
    ServerOptions,
    Settings,
    Toolset,
    project_folder,
)
from vector_memory.settings.repository import real_path
from vector_memory.store import SessionMemoryStore
from vector_memory.tenancy.namespaces import Namespaces

logger = logging.getLogger(__name__)

SECONDS_UNASKED = 0.3
"""Background work starts after this delay: clients list the tools at once, and both would be slower."""

SECONDS_BETWEEN_LOOKS = 1.0


NO_PROJECT = Project("", owns_memory=True)
"""For a server that was not started in a project: all sessions belong to one."""


IN_STORE = {Toolset.SESSION, Toolset.TAGGED}
"""The toolsets that work on the store."""


Part = SessionMemoryStore | Namespaces | FileMemory
"""What a server works with."""


class OverHttp(NamedTuple):
    """What a server over HTTP adds. Its clients are on other machines, so no tool writes files on this one.

    `auth`: who may come in. `middleware`: what they may do. `questions`: seals what a client sends back with the
    user's answer, so that any worker can continue.
    """

    auth: AuthProvider | None = None
    middleware: Sequence[Middleware] = ()
    questions: RequestStateSecurity | None = None


def create_server(
    open_store: Callable[[], AbstractContextManager[SessionMemoryStore | Namespaces]],
    offer: ServerOptions = ServerOptions(),
    open_files: Callable[[], AbstractContextManager[FileMemory]] | None = None,
    project: Project = NO_PROJECT,
    over_http: OverHttp | None = None,
) -> FastMCP:
    """Return a server that offers these tools. It opens what they need when it starts, and closes it when it ends."""
    conversation: dict[str, Any] = {}
    if Toolset.SESSION in offer.chosen():
        conversation = {"conversation": Conversation(project, not offer.read_only, over_http is not None)}

    @asynccontextmanager
    async def lifespan(_server: FastMCP) -> AsyncIterator[dict[str, Any]]:
        with ExitStack() as stack:
            parts: dict[str, Part] = {}
            if not IN_STORE.isdisjoint(offer.chosen()):
                parts[MEMORY] = stack.enter_context(open_store())
            if Toolset.FILES in offer.chosen() and open_files is not None:
                parts["files"] = stack.enter_context(open_files())
            background = asyncio.create_task(work_in_background(parts.values()))
            try:
                yield parts | conversation
            finally:
                background.cancel()

    server = MemoryServer(
        "vector-memory",
        instructions=instructions_for(offer, over_http=over_http is not None),
        version=__version__,
        lifespan=lifespan,
        auth=over_http and over_http.auth,
        request_state_security=over_http and over_http.questions,
        middleware=[UnknownTools(), *(over_http.middleware if over_http else ()), HookTools()],
        tools=offered(
            offer.chosen(),
            read_only=offer.read_only,
            profile=offer.profile,
            on_this_machine=over_http is None,
            is_lean=offer.is_lean,
        ),
        on_duplicate="error",
        mask_error_details=True,
        strict_input_validation=False,
        dereference_schemas=False,  # a tool's schemas have no references
    )
    add_listed(server, offer)
    if Toolset.SESSION in offer.chosen():
        add_completions(server)
    return server


def add_listed(server: FastMCP, offer: ServerOptions) -> None:
    """Add a server's resources and prompts."""
    if Toolset.SESSION in offer.chosen():
        add_resources(server)
    if Toolset.SESSION in offer.chosen() and offer.profile is not Profile.CORE:  # the prompts name tools of all kinds
        add_prompts(server, read_only=offer.read_only)
    if Toolset.TAGGED in offer.chosen():
        guide.add_guide(server, read_only=offer.read_only)


async def work_in_background(parts: Collection[Part]) -> None:
    """Start the parts' background work, then unload idle parts."""
    await asyncio.sleep(SECONDS_UNASKED)
    for part in parts:
        part.start_background_work()
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        for part in parts:
            await asyncio.to_thread(part.unload_idle)


def run_server(
    address: MemoryAddress,
    settings: Settings,
    export_folders: Sequence[Path] = (),
    offer: ServerOptions = ServerOptions(),
    file_place: FileLocations = FileLocations(),
) -> NoReturn:
    """Serve one client over standard input and output until it disconnects or a signal arrives; end the process."""
    opened: list[SessionMemoryStore | FileMemory] = []
    model = EmbeddingModel(lambda: load_embedder(settings))

    def open_store() -> SessionMemoryStore:
        store = SessionMemoryStore(
            address,
            settings,
            export_folders=export_folders,
            other_databases=[index_of(file_place, settings)] if Toolset.FILES in offer.chosen() else [],
            model=model,
            read_only=offer.read_only,
        )
        if settings.embed_in_background:
            store.defer_vectors()
        opened.append(store)
        return store

    def open_files() -> FileMemory:
        files = FileMemory(
            file_place.folder(),
            settings,
            index_file=index_of(file_place, settings),
            model=model,
            not_indexed=export_folders,
        )
        opened.append(files)
        return files

    def close() -> None:
        for part in opened:
            part.close()

    end = partial(end_process, close)
    stop_on_signals(end)
    try:
        wire = Wire(*take_standard_streams(), end, is_writing)
        server = create_server(open_store, offer, open_files, project_at(address))
        asyncio.run(serve_streams(server, wire.streams()))
    except VectorMemoryError:
        raise
    except Exception:
        # Python would wait for the thread that reads standard input, that is, for the client's next line.
        logger.exception("The server failed")
        end_process(close, exit_code=1)
    end()


def project_at(address: MemoryAddress) -> Project:
    """Return the client's project. A server whose memory is elsewhere starts even if the client's path is invalid."""
    try:
        return Project.at(project_folder(), real_path(address) if isinstance(address, Path) else None)
    except (ConfigurationError, OSError):
        return NO_PROJECT


def index_of(place: FileLocations, settings: Settings) -> Path:
    """Return the path of the index for the memory folder."""
    return index_path(place.db_dir, place.folder(), settings.embedding_model)


def is_writing(request: JSONRPCRequest) -> bool:
    """Return whether a request may have to wait for the write lock."""
    match request:
        case JSONRPCRequest(method="tools/call", params={"name": str(name), **others}):
            arguments = others.get("arguments")
            return may_wait_to_write(name, arguments if isinstance(arguments, dict) else {})
    return False
