"""Runs the server over HTTP."""

import asyncio
import logging
import signal
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn

from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.server.app import create_server
from vector_memory.server.fastmcp_adapter import http_app
from vector_memory.server.http.accounting import Accounting
from vector_memory.server.http.doors import door_of
from vector_memory.server.http.gate import App, Gate
from vector_memory.server.http.metrics import Metrics
from vector_memory.server.http.operations import add_operations
from vector_memory.server.http.permissions import Permissions
from vector_memory.settings import HttpOptions, ServerOptions, Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.tenancy.audit import AuditLog
from vector_memory.tenancy.namespaces import Namespaces
from vector_memory.tenancy.tokens import token_file

logger = logging.getLogger(__name__)

MAX_BODY = 16 * 2**20
"""Bytes of a request: a text of the maximum length may take twelve bytes a character as escaped JSON."""

SECONDS_TO_FINISH = 20.0
"""How long running calls may take after the server was told to end."""


class Server(uvicorn.Server):
    """Lets running calls finish before it ends; a second signal ends it at once."""

    def __init__(self, config: uvicorn.Config, gate: Gate) -> None:
        super().__init__(config)
        self._gate = gate
        self._ending: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after the calls that are running, or at once when asked again."""
        if self._ending is not None or sig == signal.SIGQUIT:
            super().handle_exit(sig, frame)
            return
        self._gate.close()
        self._ending = asyncio.get_running_loop().create_task(self._end_when_empty())

    async def _end_when_empty(self) -> None:
        await self._gate.wait_until_empty(SECONDS_TO_FINISH)
        self.should_exit = True


def run_http_server(
    path: Path, settings: Settings, export_folders: Sequence[Path], offer: ServerOptions, http: HttpOptions
) -> None:
    """Serve clients over HTTP until a signal arrives: one memory without tokens, or the namespaces of a data folder."""
    gate = Gate(application(path, settings, export_folders, offer, http))
    config = uvicorn.Config(
        gate,
        host=http.host,
        port=http.port,
        ssl_certfile=http.tls_cert,
        ssl_keyfile=http.tls_key,
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        lifespan="on",
    )
    server = Server(config, gate)
    logger.info("Serving %s", http.address())
    asyncio.run(server.serve())


def application(
    path: Path, settings: Settings, export_folders: Sequence[Path], offer: ServerOptions, http: HttpOptions
) -> App:
    """Return the application. Raises ConfigurationError."""
    serve = partial(http_app, hosts=http.hosts(), origins=http.origins(), max_body=MAX_BODY)
    if http.data_dir is None:
        open_memory = partial(open_only, path, settings, export_folders, read_only=offer.read_only)
        return serve(create_server(open_memory, offer, on_this_machine=False))
    namespaces, metrics = Namespaces(http.data_dir, settings), Metrics()
    accounting = Accounting(namespaces, AuditLog(http.data_dir), metrics)
    app = serve(
        create_server(
            lambda: closing(namespaces),
            offer,
            on_this_machine=False,
            auth=door_of(token_file(http.data_dir), http),
            middleware=[accounting, Permissions()],
        )
    )
    add_operations(app, namespaces, metrics)
    return app


def open_only(
    path: Path, settings: Settings, export_folders: Sequence[Path], *, read_only: bool
) -> AbstractContextManager[SessionMemoryStore]:
    """Open the only memory of a server without tokens."""
    model = EmbeddingModel(lambda: load_embedder(settings))
    store = SessionMemoryStore(path, settings, export_folders=export_folders, model=model, read_only=read_only)
    if settings.embed_in_background:
        store.defer_vectors()
    return store
