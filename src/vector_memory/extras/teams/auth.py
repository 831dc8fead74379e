"""Authentication: this server's tokens, and tokens signed by an identity provider."""

import asyncio
import json
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastmcp.prompts import Prompt
from fastmcp.server.auth import AccessToken, AuthProvider, RemoteAuthProvider, TokenVerifier
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token, get_http_request
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from joserfc.errors import JoseError
from joserfc.jwt import JWTClaimsRegistry
from mcp_types import CallToolRequestParams, GetPromptRequestParams
from pydantic import AnyHttpUrl
from starlette import middleware
from starlette.authentication import AuthenticationError
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response

from vector_memory.answers.models import Result
from vector_memory.domain.callers import Caller, Permission
from vector_memory.errors import AccessDeniedError, ConfigurationError, DatabaseError
from vector_memory.extras.teams.registry import PREFIX, Tokens
from vector_memory.server.current_store import CLAIM, current_caller
from vector_memory.server.http.asgi_guard import MISSING, RETRY_SECONDS
from vector_memory.server.prompts import READING
from vector_memory.server.tools import NEEDS_ADMIN, TAGGED_NAMES, WRITING
from vector_memory.server.tools.failures import failed_result, protocol_errors
from vector_memory.settings import HttpOptions

THREADS = 4
"""Tokens are looked up in threads of their own: neither searches nor the event loop wait for them."""


class Unavailable(AuthProvider):
    """Answers 503 while tokens cannot be checked: 401 would tell clients to throw theirs away."""

    def get_middleware(self) -> list[Any]:
        """Return the middleware that checks tokens."""
        checking, *others = super().get_middleware()
        return [middleware.Middleware(checking.cls, *checking.args, **checking.kwargs, on_error=unavailable), *others]


def unavailable(_connection: HTTPConnection, error: Exception) -> Response:
    """Return the answer to a call whose token cannot be checked."""
    return PlainTextResponse(f"{error}\n", 503, {"Retry-After": str(RETRY_SECONDS)})


class TokenAuth(Unavailable, TokenVerifier):
    """Checks tokens at each call, so that a revoked one is refused at the next."""

    def __init__(self, tokens: Tokens, http: HttpOptions) -> None:
        super().__init__(base_url=http.public_url, required_scopes=[Permission.READ])
        self._tokens = tokens
        self._signed: SignedTokens | None = None
        if http.jwt_issuer and http.jwt_audience and http.jwt_jwks_url:
            self._signed = SignedTokens(http.jwt_issuer, http.jwt_audience, http.jwt_jwks_url)
        self._threads = CapacityLimiter(THREADS)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the caller with the scopes of the token; None: it is unknown, invalid, revoked or expired."""
        if self._signed is None or token.startswith(PREFIX):
            return await self._own(token)
        return await self._signed.verify_token(token)

    async def _own(self, secret: str) -> AccessToken | None:
        try:
            found = await run_sync(self._tokens.find, secret, limiter=self._threads)
        except DatabaseError as error:
            raise AuthenticationError(str(error)) from None
        except ConfigurationError:
            raise AuthenticationError("Tokens cannot be checked for now: the database is not prepared.") from None
        if found is None:
            return None
        return AccessToken(
            token=found.sha256,  # not the secret: this object may be logged
            client_id=found.name,
            scopes=list(found.permission.included),
            expires_at=None if found.expires_at is None else int(found.expires_at),
            claims={CLAIM: found},
        )


class SignedTokenAuth(Unavailable, RemoteAuthProvider):
    """Also tells clients which identity provider signs tokens (RFC 9728)."""


def auth_of(tokens: Tokens, http: HttpOptions) -> AuthProvider:
    """Return the authentication, with OAuth metadata (RFC 9728) if there is an identity provider."""
    checking = TokenAuth(tokens, http)
    if http.jwt_issuer is None:
        return checking
    return SignedTokenAuth(
        checking,
        authorization_servers=[AnyHttpUrl(http.jwt_issuer)],
        base_url=http.public_url or "",
        scopes_supported=list(Permission),
        resource_name="vector-memory",
    )


# What a caller may do: lists only the tools and prompts that the token permits, and refuses calls of any other.


class Permissions(Middleware):
    """Applies the permission, the sessions and the agent of the caller's token."""

    async def on_list_tools(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Leave out the tools that the token does not permit."""
        caller = current_caller()
        return [tool for tool in await call_next(context) if may_call(caller, tool.name)]

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Refuse what the token does not permit, and name the agent that it is bound to."""
        caller, request = current_caller(), context.message
        try:
            require(caller, request.name)
            arguments = as_bound_agent(caller, request.name, request.arguments or {})
        except AccessDeniedError as error:
            note_missing(permission_for(request.name))
            return failed_result(Result, error)
        if arguments is not request.arguments:
            context = context.copy(message=request.model_copy(update={"arguments": arguments}))
        return await call_next(context)

    async def on_list_prompts(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, Sequence[Prompt]]
    ) -> Sequence[Prompt]:
        """Leave out the prompts that store, if the token does not permit that."""
        caller = current_caller()
        return [prompt for prompt in await call_next(context) if caller.may(needed_for_prompt(prompt.name))]

    async def on_get_prompt(
        self, context: MiddlewareContext[GetPromptRequestParams], call_next: CallNext[GetPromptRequestParams, Any]
    ) -> Any:
        """Refuse a prompt that stores, if the token does not permit that."""
        with protocol_errors(context.message.name):
            current_caller().require(needed_for_prompt(context.message.name))
        return await call_next(context)


def permission_for(tool: str) -> Permission:
    """Return the permission that a tool needs. Unknown tools are readable, and answered as unknown."""
    if tool in NEEDS_ADMIN:
        return Permission.ADMIN
    return Permission.WRITE if tool in WRITING else Permission.READ


def needed_for_prompt(name: str) -> Permission:
    """Return the permission that a prompt needs."""
    return Permission.READ if name in READING else Permission.WRITE


def note_missing(permission: Permission) -> None:
    """Let the gate answer 403 with the missing scopes, if an identity provider could grant them.

    Nobody could grant them to this server's own tokens: there, a sentence helps the agent more.
    """
    token = get_access_token()
    if token is not None and "iss" in token.claims:
        get_http_request().scope[MISSING] = permission.included


def may_call(caller: Caller, tool: str) -> bool:
    """Return whether a token permits a tool. Tagged memories belong to no session."""
    return caller.may(permission_for(tool)) and not (caller.sessions is not None and tool in TAGGED_NAMES)


def require(caller: Caller, tool: str) -> None:
    """Raise AccessDeniedError unless the caller's token permits a tool."""
    caller.require(permission_for(tool))
    if not may_call(caller, tool):
        raise AccessDeniedError("This token is limited to sessions, and tagged memories belong to none.")


def as_bound_agent(caller: Caller, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that stores, with the agent of the token. Raises AccessDeniedError for another."""
    if caller.agent_id is None or not tool.startswith("store_") or tool in TAGGED_NAMES:
        return arguments
    if arguments.get("agent_id") not in (None, caller.agent_id):
        raise AccessDeniedError(f"This token stores as agent {caller.agent_id}: send that agent_id, or none.")
    return {**arguments, "agent_id": caller.agent_id}


# Tokens that an identity provider has signed: JSON web tokens, checked by FastMCP with its public keys.


logger = logging.getLogger(__name__)

SECONDS_TO_FETCH = 10.0
"""How long the provider may take for the whole answer."""

MOST_BYTES = 2**20
"""How long its answer may be: a hundred times what providers send."""

LEEWAY_SECONDS = 60
"""How far the clock of an identity provider may be ahead when it says when a token was issued."""

NAMESPACE_CLAIM = "namespace"
"""The claim of a signed token that names the caller's namespace."""

OWNER_CLAIMS = ("sub", "client_id", "azp")
"""The claims that name its owner: the first one counts."""

MARK = "jwt:"
"""Begins the name of a caller with a signed token. That of no other token has a colon."""

LONGEST_NAME = 255
"""OpenID Connect permits no longer `sub`."""


class SignedTokens(JWTVerifier):
    """Checks the tokens of one issuer.

    FastMCP answers None, and the server 401, if keys cannot be fetched; it reads an answer of any length as slowly as
    it comes, and accepts tokens that never expire, or that are issued in the future.
    """

    def __init__(self, issuer: str, audience: str, url: str) -> None:
        """`url`: of the issuer's keys."""
        super().__init__(jwks_uri=url, issuer=issuer, audience=audience, jwks_refresh_interval=RETRY_SECONDS)
        self._keys = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(),
            timeout=SECONDS_TO_FETCH,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )
        self._claims = JWTClaimsRegistry(leeway=LEEWAY_SECONDS, exp={"essential": True})
        self._is_away = False

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the caller with the scopes of a token; None: it is not valid, or lacks a claim.

        Raises AuthenticationError if its key cannot be fetched.
        """
        try:
            if (access := await super().verify_token(token)) is not None:
                self._claims.validate(access.claims)
                return access_of(access)
        except (JoseError, ArithmeticError, RecursionError) as reason:
            logger.info("A signed token was refused: %s", reason)
        return None

    async def _get_jwks_key(self, kid: str | None) -> str:
        try:
            return await super()._get_jwks_key(kid)
        except ValueError:
            if self._is_away or not self._jwks_cache:
                raise AuthenticationError(
                    "Signed tokens cannot be checked for now: their issuer's keys cannot be fetched."
                ) from None
            raise

    async def _fetch_jwks(self) -> dict[str, Any]:
        self._is_away = True
        try:
            async with asyncio.timeout(SECONDS_TO_FETCH):
                keys = [key for key in json.loads(await self._answer())["keys"] if key["kty"] == "RSA"]
            if not keys:  # FastMCP would forget those that it knows
                raise ValueError("the answer has no key for RS256")  # noqa: TRY301 - one place logs all reasons
        except (httpx2.HTTPError, TimeoutError, RecursionError, LookupError, TypeError, ValueError) as error:
            logger.warning("The keys of signed tokens cannot be fetched: %s", error or type(error).__name__)
            raise ValueError from None
        self._is_away = False
        return {"keys": keys}

    async def _answer(self) -> bytes:
        """Return what the provider answers. Raises ValueError if that is too long, or an error."""
        async with self._keys.stream("GET", self.jwks_uri or "") as response:
            if not response.is_success:
                raise ValueError(f"the answer has the status {response.status_code}")
            body = b""
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > MOST_BYTES:
                    raise ValueError("the answer is too long")
            return body


def access_of(checked: AccessToken) -> AccessToken | None:
    """Return the caller of a valid token; None: it lacks a claim."""
    claims = checked.claims
    namespace, permission, owner = claims.get(NAMESPACE_CLAIM), largest(checked.scopes), owner_in(claims)
    if not isinstance(namespace, str) or permission is None or owner is None:
        logger.info("A signed token was refused: it needs the claims %s and sub, and a scope", NAMESPACE_CLAIM)
        return None
    return AccessToken(
        token=checked.token,
        client_id=owner,
        subject=owner,
        scopes=list(permission.included),
        expires_at=math.ceil(claims["exp"]),
        claims={**claims, CLAIM: Caller(name=MARK + owner, namespace=namespace, permission=permission)},
    )


def owner_in(claims: Mapping[str, Any]) -> str | None:
    """Return who a token is of, in words that a line of the audit log can hold; None: it does not say."""
    owner = next((claims[name] for name in OWNER_CLAIMS if claims.get(name)), None)
    is_name = isinstance(owner, str) and len(owner) <= LONGEST_NAME and owner.isprintable()
    return owner if is_name else None


def largest(scopes: Sequence[str]) -> Permission | None:
    """Return the largest permission among the scopes of a token."""
    return max((one for one in Permission if one in scopes), key=list(Permission).index, default=None)
