"""Serves the namespaces of a data folder or a database over HTTP, to those who have tokens."""

from contextlib import closing
from pathlib import Path
from typing import Any

from vector_memory.extras.teams.audit import AuditLog
from vector_memory.extras.teams.auth import Permissions, auth_of
from vector_memory.extras.teams.namespaces import Namespaces
from vector_memory.extras.teams.registry import Paces, Registry
from vector_memory.extras.teams.usage import Accounting, Metrics, add_operations
from vector_memory.server.app import OverHttp, create_server
from vector_memory.server.current_store import current_caller
from vector_memory.server.fastmcp_adapter import (
    RequestStateSecurity,
    ServerRequestContext,
    authenticated_principal,
    http_app,
)
from vector_memory.server.http.asgi_guard import MAX_BODY, App
from vector_memory.settings import HttpOptions, MemoryAddress, ServerOptions, Settings


def prepare_keys(address: MemoryAddress, folder: Path, audit_key: Path | None) -> None:
    """Create the keys of the audit log and of a data folder. Raises ConfigurationError if they cannot be used."""
    AuditLog(folder, audit_key).prepare()
    if isinstance(address, Path):
        Registry(folder).key()


def team_application(
    address: MemoryAddress, settings: Settings, folder: Path, offer: ServerOptions, http: HttpOptions
) -> App:
    """Return the application. `folder`: the data folder. Raises ConfigurationError."""
    registry = Registry(folder if isinstance(address, Path) else address, settings.embedding_dim)
    namespaces = Namespaces(registry, settings, read_only=offer.read_only)
    metrics = Metrics(namespaces)
    audit = AuditLog(folder, http.audit_key)
    audit.prepare()
    accounting = Accounting(namespaces, Paces(folder), audit, metrics)
    auth = auth_of(registry.tokens, http)
    app = http_app(
        create_server(
            lambda: closing(namespaces),
            offer,
            over_http=OverHttp(
                auth=auth,
                middleware=[accounting, Permissions()],
                questions=RequestStateSecurity(keys=[registry.key()], bind_principal=asked_principal),
            ),
        ),
        http,
        MAX_BODY,
    )
    add_operations(app, namespaces, metrics)
    if not http.ui:
        return app
    from vector_memory.extras.window.team_page import TeamPage, with_page  # noqa: PLC0415 - only a page needs it

    return with_page(app, TeamPage(namespaces, accounting, auth.verify_token, http, read_only=offer.read_only))


def asked_principal(context: ServerRequestContext[Any, Any]) -> str:
    """Return who was asked: a token, and the namespace that it opens, for its name may open another one later."""
    return f"{current_caller().namespace} {authenticated_principal(context)}"
