"""What a caller may do: lists only the tools and prompts that the token permits, and refuses calls of any other."""

from collections.abc import Sequence
from typing import Any

from fastmcp.prompts import Prompt
from fastmcp.server.dependencies import get_access_token, get_http_request
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from mcp_types import CallToolRequestParams, GetPromptRequestParams

from vector_memory.errors import AccessDeniedError
from vector_memory.results.sessions import Result
from vector_memory.server.current_store import current_caller
from vector_memory.server.http.asgi_guard import MISSING
from vector_memory.server.prompts import READING
from vector_memory.server.tools import NEEDS_ADMIN, TAGGED_NAMES, WRITING
from vector_memory.server.tools.failures import failed_result, protocol_errors
from vector_memory.tenancy.tokens import Caller, Permission


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
