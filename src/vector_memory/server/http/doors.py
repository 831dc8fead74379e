"""Who may come in: the owners of this server's tokens, and of those that an identity provider has signed."""

import logging
import time
from collections.abc import Sequence
from typing import Any

import httpx2
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastmcp.server.auth import AccessToken, AuthProvider, RemoteAuthProvider, TokenVerifier
from fastmcp.server.auth.providers.jwt import JWTVerifier
from pydantic import AnyHttpUrl
from starlette.authentication import AuthenticationError
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response

from vector_memory.errors import ConfigurationError, DatabaseError
from vector_memory.server.callers import CLAIM
from vector_memory.server.http.gate import RETRY_SECONDS
from vector_memory.settings import HttpOptions
from vector_memory.tenancy.callers import Caller, Permission
from vector_memory.tenancy.tokens import PREFIX, Tokens

logger = logging.getLogger(__name__)

THREADS = 4
"""Tokens are looked up in threads of their own: neither searches nor the event loop wait for them."""

SECONDS_FOR_KEYS = 10.0
"""How long the keys of an identity provider may take."""

LEEWAY_SECONDS = 60.0
"""How far the clock of an identity provider may be ahead."""

NAMESPACE_CLAIM = "namespace"
"""The claim of a signed token that names the caller's namespace."""


class Unavailable(AuthProvider):
    """Answers 503 while tokens cannot be checked: 401 would tell clients to throw theirs away."""

    def get_middleware(self) -> list[Any]:
        """Return the middleware that checks tokens."""
        checking, *others = super().get_middleware()
        return [Middleware(checking.cls, *checking.args, **checking.kwargs, on_error=unavailable), *others]


def unavailable(_connection: HTTPConnection, error: Exception) -> Response:
    """Return the answer to a call whose token cannot be checked."""
    return PlainTextResponse(f"{error}\n", 503, {"Retry-After": str(RETRY_SECONDS)})


class Keys(httpx2.AsyncHTTPTransport):
    """Fetches the keys of an identity provider, and notes whether it could. The verifier alone tells nobody."""

    are_away = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        self.are_away = True
        response = await super().handle_async_request(request)
        self.are_away = not response.is_success
        return response


class Door(Unavailable, TokenVerifier):
    """Checks tokens at each call, so that a revoked one is refused at the next."""

    def __init__(self, tokens: Tokens, http: HttpOptions) -> None:
        super().__init__(base_url=http.public_url, required_scopes=[Permission.READ])
        self._tokens = tokens
        self._keys = Keys()
        self._signed = verifier(http, self._keys) if http.jwt_issuer is not None else None
        self._threads = CapacityLimiter(THREADS)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the caller with the scopes of the token; None: it is unknown, invalid, revoked or expired."""
        if self._signed is None or token.startswith(PREFIX):
            return await self._own(token)
        found = await self._signed.verify_token(token)
        if found is None and self._keys.are_away:
            raise AuthenticationError("Signed tokens cannot be checked for now: their issuer's keys cannot be fetched.")
        return None if found is None else with_caller(found)

    async def _own(self, secret: str) -> AccessToken | None:
        try:
            found = await run_sync(self._tokens.find, secret, limiter=self._threads)
        except DatabaseError as error:
            raise AuthenticationError(str(error)) from None
        except (ConfigurationError, OSError) as error:
            logger.error("No token can be checked: %s", error)  # noqa: TRY400 - the traceback adds nothing
            return None
        if found is None:
            return None
        return AccessToken(
            token=found.sha256,  # not the secret: this object may be logged
            client_id=found.name,
            scopes=list(found.permission.included),
            expires_at=None if found.expires_at is None else int(found.expires_at),
            claims={CLAIM: found.caller},
        )


def with_caller(token: AccessToken) -> AccessToken | None:
    """Return a signed token with the caller that it is for; None: it lacks a claim, or is not valid yet."""
    namespace, begins = token.claims.get(NAMESPACE_CLAIM), token.claims.get("nbf", 0)
    permission = largest(token.scopes)
    if token.expires_at is None or not isinstance(begins, int | float) or begins > time.time() + LEEWAY_SECONDS:
        logger.info("A signed token was refused: it never expires, or is not valid yet")
        return None
    if not isinstance(namespace, str) or permission is None:
        logger.info("A signed token was refused: it needs the claim %s and a scope", NAMESPACE_CLAIM)
        return None
    name = token.subject or token.client_id
    caller = Caller(name=name, namespace=namespace, permission=permission)
    return token.model_copy(update={"scopes": list(permission.included), "claims": {**token.claims, CLAIM: caller}})


def largest(scopes: Sequence[str]) -> Permission | None:
    """Return the largest permission among the scopes of a token."""
    return max((one for one in Permission if one in scopes), key=list(Permission).index, default=None)


class SignedDoor(Unavailable, RemoteAuthProvider):
    """Also tells clients which identity provider signs tokens (RFC 9728)."""


def door_of(tokens: Tokens, http: HttpOptions) -> AuthProvider:
    """Return what lets callers in, with OAuth metadata (RFC 9728) if there is an identity provider."""
    door = Door(tokens, http)
    if http.jwt_issuer is None:
        return door
    return SignedDoor(
        door,
        authorization_servers=[AnyHttpUrl(http.jwt_issuer)],
        base_url=http.public_url or "",
        scopes_supported=list(Permission),
        resource_name="vector-memory",
    )


def verifier(http: HttpOptions, keys: Keys) -> TokenVerifier:
    """Return what checks signed tokens."""
    client = httpx2.AsyncClient(transport=keys, timeout=SECONDS_FOR_KEYS)
    return JWTVerifier(
        jwks_uri=http.jwt_jwks_url, issuer=http.jwt_issuer, audience=http.jwt_audience, http_client=client
    )
