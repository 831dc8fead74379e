"""The page of a server for teams: whoever has a token signs in with it, and sees the memory of its namespace.

The browser keeps the token in a cookie, so that every request is that of the token, and a revoked one is refused at the
next. Cookies do not know ports: without a path that nobody can guess, the browser would send this one to any other
server under the same name.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import lru_cache, partial
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs
from weakref import WeakValueDictionary

from starlette.applications import Starlette
from starlette.authentication import AuthenticationError
from starlette.requests import Request
from starlette.routing import Match, Route

from vector_memory.domain.callers import Caller, Permission
from vector_memory.errors import AccessDeniedError, NotFoundError, VectorMemoryError
from vector_memory.extras.teams.namespaces import Namespaces
from vector_memory.extras.teams.usage import Accounting, audited_ids
from vector_memory.extras.window import guard
from vector_memory.extras.window.api import PageFacts, failure_answer
from vector_memory.extras.window.page import SIGN_IN_POLICY, sign_in_html
from vector_memory.extras.window.page_state import Checkup, Deletions, ShownFiles, examine
from vector_memory.extras.window.routes import ROOT, request_routes
from vector_memory.server.current_store import CLAIM, OWNER, current_caller
from vector_memory.server.http.asgi_guard import App, Receive, Send
from vector_memory.server.turns import PAGE, taken
from vector_memory.settings import HttpOptions
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.report import Report

AT = "/ui"

TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""What a token looks like (RFC 6750)."""

LONGEST_FORM = 4_000
"""Bytes of the form. Browsers keep no longer cookie, and anybody can send a form."""

SIGNED_IN_SECONDS = 12 * 3_600
"""How long a browser stays signed in."""

ASKS = "With the token of a namespace you see what is stored there, and may change what the token permits."
NOT_VALID = "This token is not valid here: check it, or ask for another one."
LIMITED = "This token is limited to sessions, and the page shows whole memories: use one of the whole namespace."

FORM_HEADERS = (
    (b"content-security-policy", SIGN_IN_POLICY.encode()),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, the form would be sent from nowhere
)

FORBIDDEN = guard.NOTE.format(head="", title="Forbidden", text="Only the page itself may ask this.")

IMPORT = "/api/import"

UNCOUNTED = "/api/state"
"""The request that the page polls with, which is neither counted nor recorded."""

FOR_ADMINS = {"/api/backup", "/api/checkup", "/api/deletion"}
"""Requests about the whole memory: a copy of its file, the doctor, deleting all that filters select."""

PARAMETER = re.compile(r"/\{\w+\}")

MOST_PAGES = 64
"""Maximum number of callers whose routes are cached. Making them takes milliseconds."""


class TeamPage:
    """Serves the page at /ui. `verify`: returns the access token with a secret; None: there is none."""

    def __init__(
        self,
        namespaces: Namespaces,
        accounting: Accounting,
        verify: Callable[[str], Awaitable[Any]],
        http: HttpOptions,
        *,
        read_only: bool,
    ) -> None:
        self._read_only = read_only
        self._namespaces, self._accounting, self._verify = namespaces, accounting, verify
        self._place = f"{http.prefix}{AT}"
        self._secure = "; Secure" if http.is_secure else ""
        self._origins = http.origins()
        self._routes = lru_cache(MOST_PAGES)(self._make_routes)
        self._deletions: WeakValueDictionary[Caller, Deletions] = WeakValueDictionary()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers, method = dict(scope["headers"]), scope["method"]
        _, _, path = scope["path"].removeprefix(f"{AT}/").partition("/")
        own = {**scope, "path": f"/{path}", "path_params": {}}
        if scope["path"] == AT:
            await self._sign_in(headers, scope, receive, send)
        elif not guard.is_own(headers, method, self._origins):
            await guard.answer_page(send, 403, FORBIDDEN)
        elif not path and current_caller() is OWNER:
            await guard.answer_page(send, 303, "", (b"location", self._place.encode()))
        else:
            try:
                if path.startswith("api/"):
                    await self._ask(current_caller(), own, receive, guard.with_headers(send))
                else:
                    await route_in([ROOT], own).handle(own, receive, guard.with_headers(send))
            except VectorMemoryError as error:
                await failure_answer(Request(scope), error)(scope, receive, guard.with_headers(send))

    async def finish(self) -> None:
        """Run all deletions now."""
        for deletions in list(self._deletions.values()):
            await deletions.finish()

    async def _sign_in(
        self, headers: Mapping[bytes, bytes], scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Show the form, or give the browser a cookie with the token that it sends."""
        if scope["method"] != "POST":
            await self._show_form(send, 200, ASKS)
            return
        form = (await Request(scope, receive).body())[:LONGEST_FORM]
        sent = parse_qs(form.decode(errors="replace")).get("token", [""])[0].strip()
        is_token = TOKEN.fullmatch(sent) and guard.is_from_here(headers, self._origins)
        try:
            known = await self._verify(sent) if is_token else None
        except AuthenticationError as error:
            await self._show_form(send, 503, str(error))
            return
        if known is None or known.claims[CLAIM].sessions is not None:
            await self._show_form(send, 403, NOT_VALID if known is None else LIMITED)
            return
        path = f"{self._place}/{token_urlsafe(12)}/"
        cookie = (
            f"{guard.COOKIE}={sent}; Path={path}; Max-Age={SIGNED_IN_SECONDS}; HttpOnly; SameSite=Strict{self._secure}"
        )
        await guard.answer_page(send, 303, "", (b"location", path.encode()), (b"set-cookie", cookie.encode()))

    async def _show_form(self, send: Send, status: int, said: str) -> None:
        await guard.answer_page(send, status, sign_in_html(said), *FORM_HEADERS)

    async def _ask(self, caller: Caller, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request of the page as the caller's token permits."""
        if caller is OWNER:
            raise AccessDeniedError("The token is no longer valid: reload the page and sign in.")
        if caller.sessions is not None:
            async with self._accounting.recorded("ui", {}):
                raise AccessDeniedError(LIMITED)
        async with self._accounting.opened(), AsyncExitStack() as entered:
            route = route_in(self._routes(caller, self._namespaces.store_of(caller)), scope)
            call = audited_name(route, scope["method"])
            ids = audited_ids({**scope["path_params"], "session_id": Request(scope).query_params.get("session")}, {})
            if route.path != UNCOUNTED:
                recorded = self._accounting.recorded(call, ids, stores=route.path == IMPORT)
                await entered.enter_async_context(recorded)
                await entered.enter_async_context(taken(PAGE))
            require_permitted(caller, route.path, scope["method"])
            await route.handle(scope, receive, send)

    def _make_routes(self, caller: Caller, store: SessionMemoryStore) -> Sequence[Route]:
        """Return the routes of a caller's page over an open store."""
        deletions = self._deletions.setdefault(caller, Deletions(partial(self._delete, caller)))
        facts = PageFacts(
            caller.namespace,
            is_file=store.is_file and caller.may(Permission.ADMIN),
            read_only=self._read_only or not caller.may(Permission.WRITE),
        )
        return request_routes(store, deletions, facts, Checkup(partial(self._examine, caller)), ShownFiles(None))

    def _delete(self, caller: Caller, memory_id: int) -> None:
        """Delete a memory of a namespace, which may have been closed since somebody asked for it."""
        with self._namespaces.in_use(caller.namespace):
            self._namespaces.open(caller.namespace)
            self._namespaces.store_of(caller).delete_memory(memory_id)

    def _examine(self, caller: Caller) -> Report:
        """Examine a namespace. Findings about the server and about other namespaces are for the server's owner."""
        address = self._namespaces.registry.address(caller.namespace)
        found = examine(address, self._namespaces.settings).parts["contents"]
        told = [replace(one, message=one.message.replace(str(address), "its place")) for one in found]
        return Report(caller.namespace, {"contents": told})


def route_in(routes: Sequence[Route], scope: MutableMapping[str, Any]) -> Route:
    """Return the route of a request, and add its parameters to the scope. Raises NotFoundError."""
    for route in routes:
        match, found = route.matches(scope)
        if match is Match.FULL:
            scope.update(found)
            return route
    raise NotFoundError("The page asks nothing of this kind.")


def audited_name(route: Route, method: str) -> str:
    """Return the name of a request for the audit log; that of a change begins with its method."""
    path = PARAMETER.sub("", route.path).removeprefix("/api")
    return f"ui{path}" if method in guard.READING_METHODS else f"{method} ui{path}"


def require_permitted(caller: Caller, path: str, method: str) -> None:
    """Raise AccessDeniedError unless the caller's token permits a request of the page."""
    if caller.agent_id is not None and path == IMPORT:
        raise AccessDeniedError(f"This token stores as agent {caller.agent_id}, and an export names others.")
    if path in FOR_ADMINS:
        caller.require(Permission.ADMIN)
    caller.require(Permission.READ if method in guard.READING_METHODS else Permission.WRITE)


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
            if b"authorization" not in headers and (secret := guard.cookie_in(headers)):
                given = (b"authorization", f"Bearer {secret}".encode("latin-1"))
                scope = {**scope, "headers": [*scope["headers"], given]}
        await app(scope, receive, send)

    return serve
