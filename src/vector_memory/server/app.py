"""Builds the MCP server around a store, and runs it over standard input and output."""

import asyncio
import gc
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider
from fastmcp.server.middleware import Middleware
from fastmcp.skills import Skill
from fastmcp.skills.provider import SkillCatalogProvider

from vector_memory import __version__
from vector_memory.domain import Project
from vector_memory.errors import ConfigurationError, VectorMemoryError
from vector_memory.extras import extra
from vector_memory.server import guide
from vector_memory.server.conversation import Conversation
from vector_memory.server.current_store import MEMORY, FileMemory, Namespaces, OwnMemories, SessionMemoryStore
from vector_memory.server.early import early_client, key_of_offer
from vector_memory.server.fastmcp_adapter import MemoryServer, RequestStateSecurity, serve_streams
from vector_memory.server.hooks import HookTools
from vector_memory.server.instructions import instructions_for
from vector_memory.server.prompts import add_completions, add_prompts
from vector_memory.server.resources import add_resources
from vector_memory.server.shutdown import end_process, stop_on_signals
from vector_memory.server.stdio import Wire
from vector_memory.server.tools import kind_of_call, offered
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
from vector_memory.settings.locations import checkout_folder, real_path

if TYPE_CHECKING:
    from vector_memory.embedding import EmbeddingModel

# What only calls need is imported with the first call: a client waits for the list of tools first.
# ruff: noqa: PLC0415

logger = logging.getLogger(__name__)

SECONDS_UNASKED = 0.3
"""Background work starts after this delay: clients list the tools at once, and both would be slower."""

LOOKS_AT_FIRST_CALLS = 10
"""Maximum number of postponements while a call is unanswered: the first ones may have waited for imports."""

SECONDS_BETWEEN_LOOKS = 1.0

OFTEN = 700
"""Allocations between garbage collections, Python's default: a server runs long, other commands do not."""


SKILL = "skills/vector-memory"
"""What the plugin has too: when to search, when to store, and how to write a report that can be found."""

NO_PROJECT = Project("", owns_memory=True)
"""For a server that was not started in a project: all sessions belong to one."""


IN_STORE = {Toolset.SESSION, Toolset.TAGGED}
"""The toolsets that work on the store."""


Part = SessionMemoryStore | Namespaces | FileMemory | OwnMemories
"""What a server works with."""


P = TypeVar("P", SessionMemoryStore, FileMemory, OwnMemories)


class Parts(dict[str, Any]):
    """The parts of a server by name, each opened at first use.

    A part that failed to open raises the reason at once, until `opened` succeeds.
    """

    def __init__(self, stack: ExitStack, openers: Mapping[str, Callable[[], AbstractContextManager[Part]]]) -> None:
        super().__init__()
        self._stack, self._openers = stack, openers
        self._opening, self._failures = threading.Lock(), dict[str, VectorMemoryError]()

    def __missing__(self, name: str) -> Part:
        if name in self._failures:
            raise self._failures[name].with_traceback(None)
        return self._open(name)

    def opened(self) -> list[Part]:
        """Open and return all parts. Raises VectorMemoryError."""
        return [self._open(name) for name in self._openers]

    def _open(self, name: str) -> Part:
        with self._opening:
            if name not in self:
                try:
                    self[name] = self._stack.enter_context(self._openers[name]())
                except VectorMemoryError as error:
                    if name not in self._failures:
                        logger.error("%s", error)  # noqa: TRY400 - it says what to do
                    self._failures[name] = error
                    raise
            part: Part = self[name]
            return part


class OverHttp(NamedTuple):
    """What a server over HTTP adds. Its clients are on other machines, so no tool writes files on this one.

    `auth`: checks who calls. `middleware`: checks what they may do. `questions`: seals the state that a client returns
    with the user's answer, so that any worker can continue.
    """

    auth: AuthProvider | None = None
    middleware: Sequence[Middleware] = ()
    questions: RequestStateSecurity | None = None


class OverStdio(NamedTuple):
    """What a server for one client on this machine adds.

    `is_busy`: whether the client waits for an answer, so that background work should not begin. `memory`: the file for
    which it takes what hooks of commands report. `open_own`: opens what other clients remember, once the store is open.
    `middleware`: records calls.
    """

    is_busy: Callable[[], bool] = bool
    memory: Path | None = None
    open_own: Callable[[], AbstractContextManager[OwnMemories]] | None = None
    middleware: Sequence[Middleware] = ()


BARE = OverStdio()


def create_server(
    open_store: Callable[[], AbstractContextManager[SessionMemoryStore | Namespaces]],
    offer: ServerOptions = ServerOptions(),
    open_files: Callable[[], AbstractContextManager[FileMemory]] | None = None,
    project: Project = NO_PROJECT,
    over_http: OverHttp | None = None,
    over_stdio: OverStdio = BARE,
) -> FastMCP:
    """Return a server that offers these tools. It opens what they need when it starts, and closes it when it ends."""
    openers: dict[str, Callable[[], AbstractContextManager[Part]]] = {}
    if not IN_STORE.isdisjoint(offer.chosen()):
        openers[MEMORY] = open_store
    if Toolset.FILES in offer.chosen() and open_files is not None:
        openers["files"] = open_files
    if over_stdio.open_own is not None:
        openers["own memories"] = over_stdio.open_own

    @asynccontextmanager
    async def lifespan(_server: FastMCP) -> AsyncIterator[dict[str, Any]]:
        with ExitStack() as stack:
            parts = Parts(stack, openers)
            if Toolset.SESSION in offer.chosen():
                parts["conversation"] = Conversation(project, not offer.read_only, over_http is not None)
            if over_http is not None:
                parts.opened()
            elif "files" in openers:
                parts["files"]
            background = asyncio.create_task(work_in_background(parts.opened, over_stdio.is_busy))
            hooks = asyncio.create_task(listen_for_hooks(over_stdio.memory, parts))
            try:
                yield parts
            finally:
                background.cancel()
                hooks.cancel()

    server = MemoryServer(
        "vector-memory",
        instructions=instructions_for(offer, over_http=over_http is not None),
        version=__version__,
        lifespan=lifespan,
        auth=over_http and over_http.auth,
        request_state_security=over_http and over_http.questions,
        middleware=[UnknownTools(), *(over_http or over_stdio).middleware, HookTools()],
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
    """Add a server's resources, prompts and skill."""
    if Toolset.SESSION in offer.chosen():
        add_resources(server)
    if Toolset.SESSION in offer.chosen() and offer.profile is not Profile.CORE:  # the prompts name tools of all kinds
        add_prompts(server, read_only=offer.read_only)
    if Toolset.SESSION in offer.chosen() and not offer.read_only:  # it says when to store
        server.add_provider(SkillCatalogProvider([Skill.from_package("vector_memory.server", SKILL)]))
    if Toolset.TAGGED in offer.chosen():
        guide.add_guide(server, read_only=offer.read_only)


async def listen_for_hooks(memory: Path | None, parts: Parts) -> None:
    """Take what hooks of commands report for the file of a memory, if there is one."""
    if memory is not None:
        from vector_memory.server.hooks.listening import handler, listen_at_socket

        await listen_at_socket(memory, handler(memory, parts))


async def work_in_background(opened: Callable[[], Sequence[Part]], is_busy: Callable[[], bool] = bool) -> None:
    """Start the background work of the parts that `opened` returns after the first calls, then unload idle parts.

    While it raises VectorMemoryError, it is called again.
    """
    for _ in range(LOOKS_AT_FIRST_CALLS):
        await asyncio.sleep(SECONDS_UNASKED)
        if not is_busy():
            break
    parts: Sequence[Part] = ()
    while not parts:
        try:
            parts = await asyncio.to_thread(opened)
        except VectorMemoryError:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    for part in parts:
        part.start_background_work()
    while True:
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        for part in parts:
            await asyncio.to_thread(part.unload_idle)


@dataclass(eq=False)
class OneClient:
    """The parts of a server for one client, opened at first use. They share one model."""

    address: MemoryAddress
    settings: Settings
    export_folders: Sequence[Path]
    offer: ServerOptions
    file_place: FileLocations
    opened: list[SessionMemoryStore | FileMemory | OwnMemories] = field(default_factory=list, init=False)
    store: SessionMemoryStore | None = field(default=None, init=False)

    @cached_property
    def model(self) -> "EmbeddingModel":
        """The embedding model, which is not loaded yet."""
        from vector_memory.embedding import EmbeddingModel, load_embedder

        return EmbeddingModel(lambda: load_embedder(self.settings))

    @cached_property
    def recording(self) -> list[Any]:
        """What records calls, if the settings say so."""
        return [extra("audit").recording_of(self.address)] if self.settings.audit else []

    def open_store(self) -> SessionMemoryStore:
        """Open the store."""
        from vector_memory.store import SessionMemoryStore

        store = SessionMemoryStore(
            self.address,
            self.settings,
            export_folders=self.export_folders,
            other_databases=[self._index_file] if Toolset.FILES in self.offer.chosen() else [],
            model=self.model,
            read_only=self.offer.read_only,
        )
        store.work_in(checkout_folder())
        store.told_of += [one.note_told for one in self.recording]
        if self.settings.embed_in_background:
            store.defer_vectors()
        self.store = self._kept(store)
        return store

    def open_files(self) -> FileMemory:
        """Open the memory files."""
        from vector_memory.files import FileMemory

        folder, index, own = self.file_place.folder(), self._index_file, self.export_folders
        return self._kept(FileMemory(folder, self.settings, index_file=index, model=self.model, not_indexed=own))

    def over_stdio(self, is_busy: Callable[[], bool]) -> OverStdio:
        """Return what a server adds that may store sessions in a file of this user."""
        if Toolset.SESSION not in self.offer.chosen() or self.offer.read_only or not isinstance(self.address, Path):
            return OverStdio(is_busy, middleware=self.recording)
        own = self.open_own if self.settings.own_memories else None
        return OverStdio(is_busy, self.address, own, self.recording)

    def open_own(self) -> AbstractContextManager[OwnMemories]:
        """Open what other clients remember, in the store that is open."""
        from vector_memory.clients.reading.own_memories import OwnMemories

        assert self.store is not None, "it is opened first"  # noqa: S101
        return closing(self._kept(OwnMemories(self.store, project_folder())))

    def close(self) -> None:
        """Close what is open."""
        for part in self.opened:
            part.close()

    def _kept(self, part: P) -> P:
        """Note an open part, and collect garbage from now on: its imports are done."""
        self.opened.insert(0, part)
        gc.freeze()
        gc.set_threshold(OFTEN)
        gc.enable()
        return part

    @property
    def _index_file(self) -> Path:
        from vector_memory.files import index_path

        return index_path(self.file_place.index_folder(), self.file_place.folder(), self.settings.embedding_model)


def run_server(
    address: MemoryAddress,
    settings: Settings,
    export_folders: Sequence[Path] = (),
    offer: ServerOptions = ServerOptions(),
    file_place: FileLocations = FileLocations(),
) -> NoReturn:
    """Serve one client over standard input and output until it disconnects or a signal arrives; end the process."""
    memory = OneClient(address, settings, export_folders, offer, file_place)
    end = partial(end_process, memory.close)
    stop_on_signals(end)
    try:
        client = early_client(key_of_offer(offer))
        wire = Wire(client, end, kind_of_call)
        over_stdio = memory.over_stdio(wire.is_busy)
        server = create_server(memory.open_store, offer, memory.open_files, project_at(address), over_stdio=over_stdio)
        asyncio.run(serve_streams(server, wire.streams()))
    except VectorMemoryError:
        raise
    except Exception:
        # Python would wait for the thread that reads standard input, that is, for the client's next line.
        logger.exception("The server failed")
        end_process(memory.close, exit_code=1)
    end()


def project_at(address: MemoryAddress) -> Project:
    """Return the client's project. A server whose memory is elsewhere starts even if the client's path is invalid."""
    try:
        return Project.at(project_folder(), real_path(address) if isinstance(address, Path) else None)
    except (ConfigurationError, OSError):
        return NO_PROJECT
