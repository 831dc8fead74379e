"""Authentication: this server's tokens, and tokens signed by an identity provider."""

from collections.abc import Sequence
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastmcp.prompts import Prompt
from fastmcp.server.auth import AccessToken, AuthProvider, RemoteAuthProvider, TokenVerifier
from fastmcp.server.dependencies import get_access_token, get_http_request
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from mcp_types import CallToolRequestParams, GetPromptRequestParams
from pydantic import AnyHttpUrl
from starlette import middleware
from starlette.authentication import AuthenticationError
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response

from vector_memory.errors import AccessDeniedError, ConfigurationError, DatabaseError
from vector_memory.results.sessions import Result
from vector_memory.server.current_store import CLAIM, current_caller
from vector_memory.server.http.asgi_guard import MISSING, RETRY_SECONDS
from vector_memory.server.http.signed import signed_tokens
from vector_memory.server.prompts import READING
from vector_memory.server.tools import NEEDS_ADMIN, TAGGED_NAMES, WRITING
from vector_memory.server.tools.failures import failed_result, protocol_errors
from vector_memory.settings import HttpOptions
from vector_memory.tenancy.tokens import PREFIX, Caller, Permission, Tokens

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


class SignedDoor(Unavailable, RemoteAuthProvider):
    """Also tells clients which identity provider signs tokens (RFC 9728)."""


def door_of(tokens: Tokens, http: HttpOptions) -> AuthProvider:
    """Return the authentication, with OAuth metadata (RFC 9728) if there is an identity provider."""
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
            note_missing(needed_for(request.name))
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


def needed_for(tool: str) -> Permission:
    """Return the permission that a tool needs; one that is unknown needs none, and is answered as unknown."""
    if tool in NEEDS_ADMIN:
        return Permission.ADMIN
    return Permission.WRITE if tool in WRITING else Permission.READ


def needed_for_prompt(name: str) -> Permission:
    """Return the permission that a prompt needs."""
    return Permission.READ if name in READING else Permission.WRITE


def note_missing(permission: Permission) -> None:
    """Let the gate answer with 403 and the scopes that are needed, if an identity provider could grant them.

    No client could do that for this server's own tokens: a sentence helps the agent more.
    """
    token = get_access_token()
    if token is not None and "iss" in token.claims:
        get_http_request().scope[MISSING] = permission.included


def may_call(caller: Caller, tool: str) -> bool:
    """Return whether a token permits a tool. Tagged memories belong to no session."""
    return caller.may(needed_for(tool)) and not (caller.sessions is not None and tool in TAGGED_NAMES)


def require(caller: Caller, tool: str) -> None:
    """Raise AccessDeniedError unless the caller's token permits a tool."""
    caller.require(needed_for(tool))
    if not may_call(caller, tool):
        raise AccessDeniedError("This token is limited to sessions, and tagged memories belong to none.")


def as_bound_agent(caller: Caller, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that stores, with the agent of the token. Raises AccessDeniedError for another."""
    if caller.agent_id is None or not tool.startswith("store_") or tool in TAGGED_NAMES:
        return arguments
    if arguments.get("agent_id") not in (None, caller.agent_id):
        raise AccessDeniedError(f"This token stores as agent {caller.agent_id}: send that agent_id, or none.")
    return {**arguments, "agent_id": caller.agent_id}
