"""From what went wrong to what the caller reads: one place maps every failure to the body that 000 describes."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import fastmcp.exceptions
import pydantic
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from mcp_types import CallToolRequestParams

from vector_memory.errors import (
    ClosedMemoryError,
    DatabaseError,
    MemoryStorageError,
    SearchError,
    ValidationError,
    VectorMemoryError,
    where,
)
from vector_memory.results.sessions import Result
from vector_memory.server.tools.schemas import Schema

logger = logging.getLogger(__name__)

FAMILIES: tuple[tuple[str, type[VectorMemoryError]], ...] = (
    ("store_", MemoryStorageError),
    ("search_", SearchError),
    ("", DatabaseError),
)
"""What an error that nobody foresaw counts as, by the beginning of the tool's name."""

WORDS = {
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list of texts",
    "object": "an object",
}
"""JSON types in the words of a message."""

UNKNOWN_SHOWN = 5
NAME_SHOWN = 40


class UnknownTools(Middleware):
    """Answers a call of a tool that does not exist like any other failure."""

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Pass the call on."""
        try:
            return await call_next(context)
        except fastmcp.exceptions.NotFoundError:
            return failed_result(Result, ValidationError("There is no such tool: call one that tools/list names."))


def failed_result(model: type[Result], error: VectorMemoryError) -> ToolResult:
    """Return a failure as a tool's answer: an error for the client, and the tool's own body for the caller."""
    facts = {name: value for name, value in vars(error).items() if name in model.model_fields}
    body = model.failed(error.code, str(error), **facts)
    return ToolResult(structured_content=body.model_dump(mode="json", warnings=False), is_error=True)


def as_ours(error: Exception, tool: Tool) -> VectorMemoryError:
    """Return the error of this package that stands for any error that a tool can end with."""
    if isinstance(error, fastmcp.exceptions.ValidationError) and isinstance(error.__cause__, pydantic.ValidationError):
        return ValidationError(argument_problems(error.__cause__, tool.name, tool.parameters["properties"]))
    if not isinstance(error, ValidationError | ClosedMemoryError):
        logger.error("%s failed: %s", tool.name, where(error))
    return error if isinstance(error, VectorMemoryError) else unforeseen(tool.name)


@contextmanager
def protocol_errors(name: str) -> Iterator[None]:
    """Turn what goes wrong in a resource or prompt, which have no body for it, into the protocol's own errors."""
    try:
        yield
    except ValidationError as error:
        raise fastmcp.exceptions.ValidationError(str(error), log_level=logging.DEBUG) from None
    except Exception as error:
        logger.error("%s failed: %s", name, where(error))  # noqa: TRY400 - a traceback would hold its words
        told = error if isinstance(error, VectorMemoryError) else unforeseen(name)
        raise fastmcp.exceptions.FastMCPError(str(told), log_level=logging.DEBUG) from None


def unforeseen(tool_name: str) -> VectorMemoryError:
    """Return the error for a failure that nobody foresaw; it says nothing of what was inside."""
    family = next(family for prefix, family in FAMILIES if tool_name.startswith(prefix))
    return family("Something unforeseen went wrong inside the server; its log says where. Repeating the call is safe.")


def argument_problems(error: pydantic.ValidationError, tool_name: str, parameters: Schema) -> str:
    """Say for each parameter that was refused what to send instead; never what was sent."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    kinds: dict[str, str] = {}
    for detail in details:
        kinds.setdefault(str(detail["loc"][0]), detail["type"])
    problems = [_problem(name, kind, parameters[name]) for name, kind in kinds.items() if name in parameters]
    if unknown := [name for name in kinds if name not in parameters]:
        problems.append(_unknown(unknown, tool_name, parameters))
    return " ".join(problems)


def _problem(name: str, kind: str, schema: Schema) -> str:
    if kind.startswith("missing"):
        return f"{name} is required."
    if kind == "string_unicode":
        return f"{name} holds a lone surrogate: send text that UTF-8 can encode."
    return f"{name} must be {_expected(schema)}."


def _expected(schema: Schema) -> str:
    if "enum" in schema:
        return " or ".join(f'"{choice}"' for choice in schema["enum"])
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(WORDS[name] for name in types)


def _unknown(names: Sequence[str], tool_name: str, parameters: Schema) -> str:
    shown = ", ".join(repr(name[:NAME_SHOWN]) for name in names[:UNKNOWN_SHOWN])
    return f"{tool_name} has no parameter {shown}; it takes {', '.join(parameters)}."
