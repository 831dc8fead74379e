"""Asks the user before deleting, if the client supports it, in either protocol version."""

from asyncio import to_thread
from collections.abc import Callable

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.server.elicitation import AcceptedElicitation, parse_elicit_response_type
from mcp import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field

from vector_memory.errors import ValidationError

KEY = "confirmation"
ASKED = "asked"
"""The state sent with the question. The SDK seals it and binds it to this tool and its arguments."""

NOT_ASKED = "The user could not be asked, so nothing was deleted. Try again."


class Confirmation(BaseModel):
    """The user's consent to a deletion."""

    confirm: bool = Field(title="Delete", description="No agent can undo this.")


def can_ask(context: Context) -> bool:
    """Return whether the client can show the user a form."""
    capabilities = context.session.client_capabilities
    asking = capabilities.elicitation if capabilities else None
    # Older clients declare neither mode and mean forms.
    return asking is not None and (asking.form is not None or asking.url is None)


def can_wait_for_user(context: Context) -> bool:
    """Return whether the server can ask during a call. From protocol version 2026-07-28 on, it cannot."""
    request = context.request_context
    return request is None or request.protocol_version not in MODERN_PROTOCOL_VERSIONS


async def confirm(context: Context, ask: Callable[[], str]) -> InputRequiredResult | None:
    """Return None if the user consents to the question in `ask`, or cannot be asked. Raises ValidationError if not.

    Where a server cannot ask during a call, the question becomes the tool's answer, and the client calls the tool
    again with the user's reply.
    """
    if not can_ask(context):
        return None
    question = f"Delete {await to_thread(ask)}?"
    agreed = await _ask(context, question) if can_wait_for_user(context) else _reply(context)
    if agreed is None:
        return _as_result(question)
    if not agreed:
        raise ValidationError("The user declined, so nothing was deleted. Repeat this only if the user asks for it.")
    return None


async def _ask(context: Context, question: str) -> bool:
    try:
        answer = await context.elicit(question, Confirmation)
    except (MCPError, ToolError):
        raise ValidationError(NOT_ASKED) from None
    return isinstance(answer, AcceptedElicitation) and answer.data.confirm


def _reply(context: Context) -> bool | None:
    """Return the user's reply to the previous question; None if nothing was asked yet."""
    answer = (context.input_responses or {}).get(KEY)
    if context.request_state != ASKED or not isinstance(answer, ElicitResult):
        return None
    return answer.action == "accept" and (answer.content or {}).get("confirm") is True


def _as_result(question: str) -> InputRequiredResult:
    schema = parse_elicit_response_type(Confirmation).schema
    form = ElicitRequestFormParams(message=question, requested_schema=schema)
    return InputRequiredResult(input_requests={KEY: ElicitRequest(params=form)}, request_state=ASKED)


async def answers_of_user(context: Context, asked: InputRequiredResult) -> dict[str, ElicitResult]:
    """Ask the user another server's question during a call. Raises ValidationError if that fails."""
    answers = {}
    for key, request in (asked.input_requests or {}).items():
        if not isinstance(request, ElicitRequest) or not isinstance(request.params, ElicitRequestFormParams):
            raise ValidationError(NOT_ASKED)
        form = request.params
        try:
            answers[key] = await context.session.elicit_form(form.message, form.requested_schema, context.request_id)
        except MCPError:
            raise ValidationError(NOT_ASKED) from None
    return answers
