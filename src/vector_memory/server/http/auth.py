"""Authentication: this server's tokens, and tokens signed by an identity provider."""

from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastmcp.server.auth import AccessToken, AuthProvider, RemoteAuthProvider, TokenVerifier
from pydantic import AnyHttpUrl
from starlette.authentication import AuthenticationError
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response

from vector_memory.errors import ConfigurationError, DatabaseError
from vector_memory.server.current_store import CLAIM
from vector_memory.server.http.client_limits import RETRY_SECONDS
from vector_memory.server.http.signed import signed_tokens
from vector_memory.settings import HttpOptions
from vector_memory.tenancy.tokens import PREFIX, Permission, Tokens

THREADS = 4
"""Tokens are looked up in threads of their own: neither searches nor the event loop wait for them."""


class Unavailable(AuthProvider):
    """Answers 503 while tokens cannot be checked: 401 would tell clients to throw theirs away."""

    def get_middleware(self) -> list[Any]:
        """Return the middleware that checks tokens."""
        checking, *others = super().get_middleware()
        return [Middleware(checking.cls, *checking.args, **checking.kwargs, on_error=unavailable), *others]


def unavailable(_connection: HTTPConnection, error: Exception) -> Response:
    """Return the answer to a call whose token cannot be checked."""
    return PlainTextResponse(f"{error}\n", 503, {"Retry-After": str(RETRY_SECONDS)})


class Door(Unavailable, TokenVerifier):
    """Checks tokens at each call, so that a revoked one is refused at the next."""

    def __init__(self, tokens: Tokens, http: HttpOptions) -> None:
        super().__init__(base_url=http.public_url, required_scopes=[Permission.READ])
        self._tokens = tokens
        self._signed = signed_tokens(http)
        self._threads = CapacityLimiter(THREADS)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the caller with the scopes of the token; None: it is unknown, invalid, revoked or expired."""
        if self._signed is None or token.startswith(PREFIX):
            return await self._own(token)
        return await self._signed.verify(token)

    async def _own(self, secret: str) -> AccessToken | None:
        try:
            found = await run_sync(self._tokens.find, secret, limiter=self._threads)
        except DatabaseError as error:
            raise AuthenticationError(str(error)) from None
        except ConfigurationError:  # the log says what is wrong
            raise AuthenticationError("Tokens cannot be checked for now: their list is damaged.") from None
        if found is None:
            return None
        return AccessToken(
            token=found.sha256,  # not the secret: this object may be logged
            client_id=found.name,
            scopes=list(found.permission.included),
            expires_at=None if found.expires_at is None else int(found.expires_at),
            claims={CLAIM: found},
        )


class SignedDoor(Unavailable, RemoteAuthProvider):
    """Also tells clients which identity provider signs tokens (RFC 9728)."""


def door_of(tokens: Tokens, http: HttpOptions) -> AuthProvider:
    """Return the authentication, with OAuth metadata (RFC 9728) if there is an identity provider."""
    tokens.problem()  # they are read now, so that they are known if their list is damaged later
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
