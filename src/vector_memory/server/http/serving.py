"""Runs the server over HTTP."""

import asyncio
import logging
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from prometheus_client.multiprocess import mark_process_dead

from vector_memory.domain.user_files import opened
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import ConfigurationError
from vector_memory.extras import extra
from vector_memory.server.app import OverHttp, create_server
from vector_memory.server.fastmcp_adapter import http_app
from vector_memory.server.http import asgi_guard
from vector_memory.server.shutdown import stop_signals
from vector_memory.server.turns import stop_waiting
from vector_memory.settings import HttpOptions, MemoryAddress, ServerOptions, Settings
from vector_memory.storage.disk.ignoring import make_own_folder
from vector_memory.store import SessionMemoryStore

# Several processes that serve one port: each has its own memory, and gets the connections of clients in turn.
#
# The processes of uvicorn share one listening socket, and the first to be told of a burst accepts all of it:
# connections are kept, so one process would have all the work. Those that listen for themselves (SO_REUSEPORT) get
# theirs by chance.

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder in which several workers count together; the library reads it when imported."""

INHERITED = "VECTOR_MEMORY_WORKER"
"""The variable that tells a worker the descriptor of its channel."""

SECONDS_BEFORE_RESTART = 1.0
SECONDS_TO_END = 30.0
SECONDS_BETWEEN_LOOKS = 0.1
MARK = b"."
"""Goes with each connection to a worker, and from a worker to its supervisor when it is ready for the first one."""


def inherited() -> socket.socket | None:
    """Return the channel through which this worker gets connections; None: this process is no worker."""
    if (descriptor := os.environ.pop(INHERITED, None)) is None:
        return None
    channel = socket.socket(fileno=int(descriptor))
    channel.settimeout(0)
    return channel


def take_connections(channel: socket.socket, serve: Callable[[socket.socket], Coroutine[Any, Any, None]]) -> None:
    """Serve the connections that the supervisor passes on, from now on.

    When its supervisor is gone, a worker finishes its running calls and ends, because no other process would end it.
    """
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def take() -> None:
        found, descriptors, _, _ = socket.recv_fds(channel, len(MARK), 1)
        if not found:
            loop.remove_reader(channel)
            logger.warning("The supervisor has ended: this worker ends too")
            os.kill(os.getpid(), signal.SIGTERM)
        for descriptor in descriptors:
            task = loop.create_task(serve(socket.socket(fileno=descriptor)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    loop.add_reader(channel, take)
    channel.send(MARK)


@dataclass(slots=True, eq=False)
class Worker:
    """A process, and our end of its channel. `is_ready`: it takes connections."""

    process: "subprocess.Popen[bytes]"
    channel: socket.socket
    is_ready: bool = False

    @classmethod
    def start(cls, figures: str) -> "Worker":
        """Start this program once more, with the same flags, as a worker that counts its calls in a folder."""
        ours, its = socket.socketpair()
        ours.settimeout(0)
        command = [sys.executable, "-P", "-m", "vector_memory", *sys.argv[1:]]
        variables = os.environ | {INHERITED: f"{its.fileno()}", SHARED: figures}
        with its:
            process = subprocess.Popen(command, env=variables, pass_fds=[its.fileno()])  # noqa: S603 - our own
        return cls(process, ours)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    def hear(self) -> None:
        """Note that the worker is ready or has ended, which makes its channel readable."""
        with suppress(OSError):
            self.is_ready = bool(self.channel.recv(len(MARK)))
        if not self.is_ready:
            self.channel.close()

    def give(self, connection: socket.socket) -> bool:
        """Pass a connection on; False: the worker takes none for now."""
        try:
            socket.send_fds(self.channel, [MARK], [connection.fileno()])
        except OSError:
            return False
        return True


def supervise(listening: socket.socket, count: int) -> None:
    """Run this program `count` times until a signal arrives; start a worker again that has ended.

    Running calls are answered first, unless a second signal arrives.
    """
    signals: list[int] = []
    for number in stop_signals():
        signal.signal(number, lambda number, _frame: signals.append(number))
    listening.settimeout(0)
    with tempfile.TemporaryDirectory(prefix="vector-memory-figures-") as figures:
        workers = [Worker.start(figures) for _ in range(count)]
        logger.info("%d workers", count)
        next_look = 0.0
        while not signals:
            look(listening, workers)
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + SECONDS_BEFORE_RESTART
                restart(workers, figures)
        for worker in workers:
            worker.process.terminate()
        until = time.monotonic() + SECONDS_TO_END
        while len(signals) == 1 and time.monotonic() < until and not all(worker.has_ended for worker in workers):
            look(listening, workers)  # tells clients that the server is ending
        for worker in workers:
            worker.process.kill()
            worker.process.wait()


def look(listening: socket.socket, workers: list[Worker]) -> None:
    """Wait a moment for what happens, and pass new connections on. They wait while no worker is ready."""
    channels = {worker.channel: worker for worker in workers if worker.channel.fileno() >= 0}
    takes = any(worker.is_ready for worker in workers)
    for one in select.select([*channels, *([listening] if takes else [])], [], [], SECONDS_BETWEEN_LOOKS)[0]:
        if one in channels:
            channels[one].hear()
        else:
            with suppress(OSError):  # the client has left
                pass_on(listening.accept()[0], workers)


def pass_on(connection: socket.socket, workers: list[Worker]) -> None:
    """Give a connection to the worker that has not got one for the longest."""
    with connection:
        taker = next((worker for worker in workers if worker.is_ready and worker.give(connection)), None)
    if taker is not None:
        workers.remove(taker)
        workers.append(taker)


def restart(workers: list[Worker], figures: str) -> None:
    """Start a worker in place of each that has ended."""
    for place, worker in enumerate(workers):
        if worker.has_ended:
            logger.warning(
                "Worker %d ended with code %d and is started again", worker.process.pid, worker.process.returncode
            )
            worker.channel.close()
            mark_process_dead(worker.process.pid, figures)
            workers[place] = Worker.start(figures)


logger = logging.getLogger(__name__)

BACKLOG = 2_048
"""Connections that wait to be accepted."""

SECONDS_TO_FINISH = 20.0
"""How long running calls may take after the server was told to end."""


class DrainingServer(uvicorn.Server):
    """Lets running calls finish before it ends; a second signal ends it at once.

    A worker is not hurried by signals: Ctrl-C and systemd send one to each process, and its supervisor sends another.
    """

    def __init__(self, config: uvicorn.Config, gate: asgi_guard.Gate, channel: socket.socket | None) -> None:
        """`channel`: through which a worker gets its connections."""
        super().__init__(config)
        self._gate = gate
        self._channel = channel
        self._ending: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen to more signals than uvicorn does, and take connections."""
        for number in stop_signals():
            signal.signal(number, self.handle_exit)
        await super().startup(sockets)
        if self._channel is not None:
            take_connections(self._channel, self._serve_connection)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after the calls that are running, or at once when asked again."""
        if self._ending is None:
            self._gate.close()
            self._ending = asyncio.get_running_loop().create_task(self._end_when_empty())
        elif self._channel is None:
            super().handle_exit(sig, frame)

    async def _serve_connection(self, connection: socket.socket) -> None:
        """Serve a connection that was accepted elsewhere, as one of a listening socket."""

        def protocol() -> asyncio.Protocol:
            return asgi_guard.TimedConnection(self.config, self.server_state, self.lifespan.state)

        connection.settimeout(0)
        with suppress(OSError):  # it has broken, or does not speak TLS
            await asyncio.get_running_loop().connect_accepted_socket(protocol, connection, ssl=self.config.ssl)

    async def _end_when_empty(self) -> None:
        stop_waiting()
        await self._gate.wait_until_empty(SECONDS_TO_FINISH)
        self.should_exit = True


def run_http_server(
    address: MemoryAddress, settings: Settings, export_folders: Sequence[Path], offer: ServerOptions, http: HttpOptions
) -> None:
    """Serve clients over HTTP until a signal arrives: one memory without tokens, or the namespaces of a data folder."""
    channel, listening = inherited(), list[socket.socket]()
    if channel is None:
        require_usable(address, http)
        listening.append(listen(http.host, http.port))
        logger.info("Serving %s", http.address(listening[0].getsockname()[1]))
        if http.workers > 1:
            supervise(listening[0], http.workers)
            return
    asgi_guard.allow_many_files()
    gate = asgi_guard.Gate(application(address, settings, export_folders, offer, http), http.prefix)
    serve_app(gate, listening, channel, ssl_certfile=http.tls_cert, ssl_keyfile=http.tls_key)


def serve_app(
    gate: asgi_guard.Gate, listening: list[socket.socket], channel: socket.socket | None = None, **tls: Any
) -> None:
    """Serve an application until a signal arrives. `channel`: as in `DrainingServer`."""
    quiet: dict[str, Any] = {"ws": "none", "access_log": False, "log_config": None, "server_header": False}
    config = uvicorn.Config(gate, http=asgi_guard.TimedConnection, lifespan="on", **quiet, **tls)
    asyncio.run(DrainingServer(config, gate, channel).serve(sockets=listening))


def require_usable(address: MemoryAddress, http: HttpOptions) -> None:
    """Raise ConfigurationError or DatabaseError for files of TLS, tokens, a folder or a key that no server could use.

    Workers do not check it: they would be started again and again.
    """
    if http.tls_cert is not None:
        try:
            with opened(http.tls_cert), opened(http.tls_key or http.tls_cert):  # OpenSSL would wait for a pipe
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(http.tls_cert, http.tls_key)
        except OSError as error:  # also that of the ssl module
            reason = "not a certificate chain and its key" if isinstance(error, ssl.SSLError) else error.strerror
            raise ConfigurationError(f"--tls-cert and --tls-key cannot be used: {reason}.") from error
    if http.data_dir is not None:
        try:
            make_own_folder(http.data_dir)
            tempfile.TemporaryFile(dir=http.data_dir).close()
        except OSError as error:
            raise ConfigurationError(
                f"The data folder {http.data_dir} cannot be used: {error.strerror}. Choose another --data-dir."
            ) from error
        extra("teams").prepare_keys(address, http.data_dir, http.audit_key)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises ConfigurationError if the address is in use or not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"Cannot listen on {host}, port {port}: {reason}. Choose another --port.") from error
    # Accepted connections inherit it. asyncio sets it only on sockets whose protocol it knows; without it, each answer
    # waits 40 ms for the client to acknowledge its headers.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    asgi_guard.drop_who_never_reads(listening)
    return listening


def application(
    address: MemoryAddress, settings: Settings, export_folders: Sequence[Path], offer: ServerOptions, http: HttpOptions
) -> asgi_guard.App:
    """Return the application. Raises ConfigurationError."""
    if http.data_dir is None:
        recording = [extra("audit").recording_of(address)] if settings.audit else []
        open_memory = partial(open_only, address, settings, export_folders, recording, read_only=offer.read_only)
        over_http = OverHttp(middleware=recording)
        return http_app(create_server(open_memory, offer, over_http=over_http), http, asgi_guard.MAX_BODY)
    app: asgi_guard.App = extra("teams").team_application(address, settings, http.data_dir, offer, http)
    return app


def open_only(
    address: MemoryAddress, settings: Settings, export_folders: Sequence[Path], audits: list[Any], *, read_only: bool
) -> AbstractContextManager[SessionMemoryStore]:
    """Open the only memory of a server without tokens. `audits`: what records calls."""
    model = EmbeddingModel(lambda: load_embedder(settings), queries_first=True)
    store = SessionMemoryStore(address, settings, export_folders=export_folders, model=model, read_only=read_only)
    store.told_of += [one.note_told for one in audits]
    if settings.embed_in_background:
        store.defer_vectors()
    return store
