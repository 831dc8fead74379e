"""The page of a server for teams: whoever has a token signs in with it, and sees the memory of its namespace.

The browser keeps the token in a cookie, so that every request is that of the token, and a revoked one is refused at the
next. Cookies do not know ports: without a path that nobody can guess, the browser would send this one to any other
server under the same name.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from importlib.resources import files
from secrets import token_urlsafe
from string import Template
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.authentication import AuthenticationError
from starlette.requests import Request
from starlette.routing import Route, Router

from vector_memory.errors import AccessDeniedError, NotFoundError, VectorMemoryError
from vector_memory.maintenance.doctor.report import Report
from vector_memory.server.current_store import CLAIM, OWNER, current_caller
from vector_memory.server.http.asgi_guard import App, Send
from vector_memory.server.http.client_limits import Receive
from vector_memory.server.http.usage import Accounting, audited_ids
from vector_memory.server.ui.api import PageFacts, refused
from vector_memory.server.ui.checkup import Checkup, examine
from vector_memory.server.ui.deletions import Deletions
from vector_memory.server.ui.guard import COOKIE, NOTE, POLICY, answer, cookie_in, is_from_here, is_own, with_headers
from vector_memory.server.ui.routes import file_routes, request_routes
from vector_memory.server.ui.shown_files import ShownFiles
from vector_memory.settings import HttpOptions
from vector_memory.store import SessionMemoryStore
from vector_memory.tenancy.namespaces import Namespaces
from vector_memory.tenancy.tokens import Caller, Permission

AT = "/ui"

TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""What a token looks like (RFC 6750)."""

SIGNED_IN_SECONDS = 12 * 3_600
"""How long a browser stays signed in."""

SIGN_IN = Template((files(__package__) / "web" / "sign_in.html").read_text(encoding="utf-8"))
ASKS = "With the token of a namespace you see what is stored there, and may change what the token permits."
NOT_VALID = "This token is not valid here: check it, or ask for another one."
LIMITED = "This token is limited to sessions, and the page shows whole memories: use one of the whole namespace."

FORM_HEADERS = (
    (b"content-security-policy", POLICY.replace("form-action 'none'", "form-action 'self'").encode()),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, the form would be sent from nowhere
)

IMPORT = "import"

UNCOUNTED = "state"
"""What the page asks several times a second, only to see whether anything has changed."""

FOR_ADMINS = {"backup", "checkup", "deletion"}
"""What is about the whole memory: a copy of its file, the doctor, and deleting all that filters name."""


class NamespacePage(NamedTuple):
    """The page of a store as a caller may use it. `names`: of its requests."""

    store: SessionMemoryStore
    app: App
    names: frozenset[str]


class TeamPage:
    """Serves the page at /ui. `verify`: returns the access token with a secret; None: there is none."""

    def __init__(
        self,
        namespaces: Namespaces,
        accounting: Accounting,
        verify: Callable[[str], Awaitable[Any]],
        http: HttpOptions,
    ) -> None:
        self._namespaces, self._accounting, self._verify = namespaces, accounting, verify
        self._place = f"{http.prefix}{AT}"
        self._secure = "; Secure" if http.is_secure else ""
        self._files = Router(file_routes())
        self._pages: dict[Caller, NamespacePage] = {}
        self._deletions: dict[Caller, Deletions] = {}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers, method = dict(scope["headers"]), scope["method"]
        _, _, path = scope["path"].removeprefix(f"{AT}/").partition("/")
        own = {**scope, "path": f"/{path}", "path_params": {}}
        if scope["path"] == AT:
            await self._sign_in(headers, scope, receive, send)
        elif not is_own(headers, method):
            await answer(send, 403, NOTE.format(head="", title="Forbidden", text="Only the page itself may ask this."))
        elif not path and current_caller() is OWNER:
            await answer(send, 303, "", (b"location", self._place.encode()))
        elif not path.startswith("api/"):
            await self._files(own, receive, with_headers(send))
        else:
            try:
                await self._ask(current_caller(), own, receive, with_headers(send))
            except VectorMemoryError as error:
                await refused(Request(scope), error)(scope, receive, with_headers(send))

    async def finish(self) -> None:
        """Delete now what waits."""
        for deletions in self._deletions.values():
            await deletions.finish()

    async def _sign_in(
        self, headers: Mapping[bytes, bytes], scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Show the form, or give the browser a cookie with the token that it sends."""
        if scope["method"] != "POST":
            await answer(send, 200, SIGN_IN.substitute(said=ASKS), *FORM_HEADERS)
            return
        sent = parse_qs((await Request(scope, receive).body()).decode(errors="replace")).get("token", [""])[0].strip()
        try:
            known = await self._verify(sent) if TOKEN.fullmatch(sent) and is_from_here(headers) else None
        except AuthenticationError as error:
            await answer(send, 503, SIGN_IN.substitute(said=error), *FORM_HEADERS)
            return
        if known is None or known.claims[CLAIM].sessions is not None:
            said = NOT_VALID if known is None else LIMITED
            await answer(send, 403, SIGN_IN.substitute(said=said), *FORM_HEADERS)
            return
        path = f"{self._place}/{token_urlsafe(12)}/"
        cookie = f"{COOKIE}={sent}; Path={path}; Max-Age={SIGNED_IN_SECONDS}; HttpOnly; SameSite=Strict{self._secure}"
        await answer(send, 303, "", (b"location", path.encode()), (b"set-cookie", cookie.encode()))

    async def _ask(self, caller: Caller, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request of the page as the caller's token permits."""
        if caller is OWNER:
            raise AccessDeniedError("The token is not valid any longer: reload the page, and sign in.")
        method, request = scope["method"], Request(scope)
        _, _, name, *rest = scope["path"].split("/")
        ids = audited_ids({"memory_id": rest[0] if rest else "", "session_id": request.query_params.get("session")}, {})
        async with self._accounting.opened():
            page = self._page_of(caller)
            if name not in page.names:
                raise NotFoundError("The page asks nothing of this kind.")
            recorded = self._accounting.recorded(f"ui/{name}", ids, stores=name == IMPORT)
            async with nullcontext() if name == UNCOUNTED else recorded:
                require_permitted(caller, name, method)
                await page.app(scope, receive, send)

    def _page_of(self, caller: Caller) -> NamespacePage:
        """Return the page of the caller's namespace, which is open."""
        store = self._namespaces.store_of(caller)
        page = self._pages.get(caller)
        if page is None or page.store is not store:
            deletions = self._deletions.setdefault(caller, Deletions(partial(self._delete, caller)))
            facts = PageFacts(
                caller.namespace,
                is_file=store.is_file and caller.may(Permission.ADMIN),
                read_only=not caller.may(Permission.WRITE),
            )
            routes = request_routes(store, deletions, facts, Checkup(partial(self._examine, caller)), ShownFiles(None))
            names = frozenset(route.path.split("/")[2] for route in routes)
            self._pages[caller] = page = NamespacePage(store, Router(routes), names)
        return page

    def _delete(self, caller: Caller, memory_id: int) -> None:
        """Delete a memory of a namespace, which may have been closed since somebody asked for it."""
        with self._namespaces.in_use(caller.namespace):
            self._namespaces.open(caller.namespace)
            self._namespaces.store_of(caller).delete_memory(memory_id)

    def _examine(self, caller: Caller) -> Report:
        return examine(self._namespaces.registry.address(caller.namespace), self._namespaces.settings)


def require_permitted(caller: Caller, name: str, method: str) -> None:
    """Raise AccessDeniedError unless the caller's token permits a request of the page."""
    if caller.sessions is not None:
        raise AccessDeniedError(LIMITED)
    if caller.agent_id is not None and name == IMPORT:
        raise AccessDeniedError(f"This token stores as agent {caller.agent_id}, and an export names others.")
    if name in FOR_ADMINS:
        caller.require(Permission.ADMIN)
    caller.require(Permission.READ if method in ("GET", "HEAD") else Permission.WRITE)


def with_page(app: Starlette, page: TeamPage) -> App:
    """Add the page to an application that knows who calls, and return what takes the token from its cookie."""
    app.router.routes += [Route(AT, page), Route(f"{AT}/{{rest:path}}", page)]
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(current: Starlette) -> AsyncIterator[Any]:
        async with inner(current) as state:
            yield state
            await page.finish()

    app.router.lifespan_context = lifespan

    async def serve(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(f"{AT}/"):
            headers = dict(scope["headers"])
            if b"authorization" not in headers and (secret := cookie_in(headers)):
                given = (b"authorization", f"Bearer {secret}".encode("latin-1"))
                scope = {**scope, "headers": [*scope["headers"], given]}
        await app(scope, receive, send)

    return serve
