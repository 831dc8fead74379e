"""Who may use the page: the browser that opened its link first, and only the page itself.

The page is at a path that nobody can guess. Cookies do not know ports: without the path, the browser would send this
one to any other server on this machine, whoever started it.
"""

from collections.abc import Collection, Mapping, MutableMapping
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs

from vector_memory.server.http import asgi_guard
from vector_memory.server.http.asgi_guard import App, Message, Receive, Send

COOKIE = "vector-memory"

WRITES_WITH = b"x-vector-memory"
"""The header of requests that write. A page of another origin cannot send it: browsers ask first, and get no."""

READING_METHODS = ("GET", "HEAD")

THIS_MACHINE = (b"127.0.0.1", b"localhost")

POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"cache-control": b"no-store",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
}
"""What every answer has, unless it has its own."""

NOTE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">{head}
<title>vector-memory</title><h1>{title}</h1><p>{text}</p>"""

# The cookie is not sent with a redirection that another site began, such as a file. A page that refreshes begins anew.
WELCOME = NOTE.format(head='<meta http-equiv="refresh" content="0; url=./">', title="Opening the memory …", text="")
AGAIN = "Each link opens the memory in one browser. To open it here, run <code>vector-memory ui</code> again."
USED = NOTE.format(head="", title="This link was used already", text=AGAIN)
HOW = "Run <code>vector-memory ui</code>: it opens the memory, and prints a link to it."
UNKNOWN = NOTE.format(head="", title="This page is closed", text=HOW)


class Guard:
    """Wraps the application of the page; see the module."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._path = f"/{token_urlsafe(12)}"
        self._token: str | None = token_urlsafe()
        self._secret = token_urlsafe()

    def link(self, port: int) -> str:
        """Return the address that opens the page, once."""
        return f"http://127.0.0.1:{port}{self._path}/?token={self._token}"

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        host, (before, _, path) = headers.get(b"host", b""), scope["path"].partition(self._path)
        if host.partition(b":")[0] not in THIS_MACHINE:  # a name of somebody else that leads to this machine
            await answer_page(send, 421, UNKNOWN)
        elif before or path[:1] not in ("", "/"):
            await answer_page(send, 404, UNKNOWN)
        elif path in ("", "/") and "token" in (asked := parse_qs(scope["query_string"].decode("latin-1"))):
            await self._let_in(asked["token"][0], headers, send)
        elif not self._is_known(headers) or not is_own(headers, scope["method"]):
            await answer_page(send, 403, UNKNOWN)
        else:
            await self._app({**scope, "path": path or "/"}, receive, with_headers(send))

    async def _let_in(self, token: str, headers: dict[bytes, bytes], send: Send) -> None:
        """Give the browser with the right token the cookie. The token works once."""
        if self._token is not None and compare_digest(token.encode(), self._token.encode()):
            self._token = None
            cookie = f"{COOKIE}={self._secret}; Path={self._path}/; HttpOnly; SameSite=Strict"
            await answer_page(send, 200, WELCOME, (b"set-cookie", cookie.encode()))
        elif self._is_known(headers):
            await answer_page(send, 200, WELCOME)
        else:
            await answer_page(send, 403, USED)

    def _is_known(self, headers: Mapping[bytes, bytes]) -> bool:
        return compare_digest(cookie_in(headers).encode(), self._secret.encode())


def cookie_in(headers: Mapping[bytes, bytes]) -> str:
    """Return the page's cookie; empty: there is none.

    Browsers send that of the longest path first. Another one is from another server of the same name, whose cookies may
    be of any kind.
    """
    sent = headers.get(b"cookie", b"").decode("latin-1").split(";")
    return next((value for name, _, value in (one.strip().partition("=") for one in sent) if name == COOKIE), "")


def is_own(headers: Mapping[bytes, bytes], method: str, origins: Collection[str] = ()) -> bool:
    """Return whether a request is from the page itself, or opens it; one that writes must prove it."""
    return is_from_here(headers, origins) and (method in READING_METHODS or WRITES_WITH in headers)


def is_from_here(headers: Mapping[bytes, bytes], origins: Collection[str] = ()) -> bool:
    """Return whether a browser sends a request for a page of this server, or for somebody who has typed its address.

    `origins`: of the server as browsers see it, if a proxy passes requests on under another name.
    """
    host, origin = headers.get(b"host", b"").decode("latin-1"), headers.get(b"origin", b"").decode("latin-1")
    is_same = headers.get(b"sec-fetch-site", b"none") in (b"same-origin", b"none")
    return is_same and origin in ("", f"http://{host}", f"https://{host}", *origins)


async def answer_page(send: Send, status: int, page: str, *headers: tuple[bytes, bytes]) -> None:
    """Answer with a small page of its own."""
    await asgi_guard.answer(with_headers(send), status, page.encode(), *headers, kind=b"html")


def with_headers(send: Send) -> Send:
    """Return a `send` that adds the headers which every answer has."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = message.get("headers", [])
            named = {name.lower() for name, _ in own}
            added = [(name, value) for name, value in HEADERS.items() if name not in named]
            message = {**message, "headers": [*own, *added]}
        await send(message)

    return sent
