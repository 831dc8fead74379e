"""Maps every failure to the body of a failed call, in one place."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import fastmcp.exceptions
import pydantic
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from mcp_types import CallToolRequestParams

from vector_memory import errors
from vector_memory.answers.forms import FORM
from vector_memory.answers.models import Result, StoreMemoryResult
from vector_memory.answers.tagged import StoreTaggedResult

# Shortens JSON schemas for agents: removes everything that carries no information.

Schema = dict[str, Any]

SCHEMA_MAPS = ("properties", "$defs")
"""Keywords whose values map names to schemas; their keys are not keywords."""

SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


LEAN: Schema = {
    "type": "object",
    "properties": {
        "success": {"type": "boolean"},
        "message": {"type": ["string", "null"]},
        "error": {"type": ["string", "null"]},
    },
    "required": ["success"],
}
"""The fields that every answer has, in both forms."""


def inlined(schema: Schema) -> Schema:
    """Return an equivalent schema with its definitions inlined; none of them is recursive.

    Not every client follows references. FastMCP would do the same at the first `tools/list`, for which it imports an
    HTTP client.
    """
    definitions = schema.get("$defs", {})

    def filled(part: Any) -> Any:
        if isinstance(part, list):
            return [filled(each) for each in part]
        if not isinstance(part, dict):
            return part
        own = {key: filled(value) for key, value in part.items() if key != "$ref"}
        if "$ref" not in part:
            return own
        return filled(definitions[part["$ref"].removeprefix("#/$defs/")]) | own

    whole: Schema = filled({key: value for key, value in schema.items() if key != "$defs"})
    return whole


def compact(schema: Schema) -> Schema:
    """Return a shorter equivalent schema: lists of types instead of `anyOf`, and no empty keywords.

    A default of null or 0 counts as empty: an offset starts at 0 whether or not the schema says so.
    """
    kept = {key: _compact_keyword(key, value) for key, value in schema.items() if not _says_nothing(key, value)}
    return _with_type_list(kept)


def _says_nothing(key: str, value: object) -> bool:
    is_nothing = value is None or (value == 0 and not isinstance(value, bool))
    return (key == "default" and is_nothing) or (key == "additionalProperties" and isinstance(value, bool))


def _compact_keyword(key: str, value: Any) -> Any:
    if key in SCHEMA_MAPS:
        return {name: compact(schema) for name, schema in value.items()}
    if key in SCHEMA_LISTS:
        return [compact(schema) for schema in value]
    if key in ("items", "additionalProperties"):
        return compact(value)
    return value


def _with_type_list(schema: Schema) -> Schema:
    """Merge alternatives, of which at most one has more than a type, into one schema with a list of types."""
    arms = schema.get("anyOf", [])
    spoken = [arm for arm in arms if set(arm) != {"type"}]
    if not arms or len(spoken) > 1 or any("type" not in arm or "enum" in arm or "const" in arm for arm in arms):
        return schema
    types = [arm["type"] for arm in arms]
    merged = spoken[0] if spoken else {}
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**merged, **rest, "type": types}


def without_null(schema: Schema) -> Schema:
    """Return a tool's input schema in which nullable parameters are shown as optional only.

    A null counts as omitted. Saying so for each of a hundred parameters would cost an agent about 260 tokens.
    """
    return {**schema, "properties": {name: _not_null(one) for name, one in schema.get("properties", {}).items()}}


def _not_null(schema: Schema) -> Schema:
    if not isinstance(schema.get("type"), list):
        return schema
    return {**schema, "type": next(name for name in schema["type"] if name != "null")}


def admitting_failures(schema: Schema) -> Schema:
    """Return an output schema that failed calls match too: the fields of a success may be null."""
    required = schema.get("required", [])
    nullable = {name: {"anyOf": [schema["properties"][name], {"type": "null"}]} for name in required}
    return {**schema, "properties": schema["properties"] | nullable, "required": ["success"]}


logger = logging.getLogger(__name__)

FAMILIES: tuple[tuple[str, type[errors.VectorMemoryError]], ...] = (
    ("store_", errors.MemoryStorageError),
    ("search_", errors.SearchError),
    ("", errors.DatabaseError),
)
"""The error class for an unexpected exception, by the prefix of the tool's name."""

WORDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list of {items}",
    "object": "an object",
}
"""JSON types as messages name them."""

INSTEAD = {"session_id": ': send the id of a session, or "last" for the one before this'}
"""What to send for a missing parameter, where callers may not know."""

UNKNOWN_SHOWN = 5
NAME_SHOWN = 40


class UnknownTools(Middleware):
    """Answers calls of unknown tools like any other failure, and logs calls of known ones."""

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Pass the call to the next handler."""
        began = time.perf_counter()
        try:
            answer = await call_next(context)
        except fastmcp.exceptions.NotFoundError:
            return failed_result(Result, errors.ValidationError("Unknown tool: tools/list names the available tools."))
        milliseconds = (time.perf_counter() - began) * 1000
        logger.debug(
            "%s %s in %.0f ms", context.message.name, "failed" if answer.is_error else "answered", milliseconds
        )
        return answer


def failed_result(model: type[Result], error: errors.VectorMemoryError) -> ToolResult:
    """Return a failure as a tool's answer: marked as an error, with the body of the tool's own result."""
    facts = {name: value for name, value in vars(error).items() if name in model.model_fields}
    is_receipt = model in (StoreMemoryResult, StoreTaggedResult)  # a memory that was not stored has no fields
    body = model.failed(error.code, str(error), **facts).model_dump(
        mode="json", warnings=False, exclude_none=is_receipt
    )
    return ToolResult(structured_content=FORM.get().failed(body), is_error=True)


def to_memory_error(error: Exception, tool: Tool) -> errors.VectorMemoryError:
    """Return the VectorMemoryError for any exception that a tool raised."""
    if isinstance(error, fastmcp.exceptions.ValidationError) and isinstance(error.__cause__, pydantic.ValidationError):
        return errors.ValidationError(argument_problems(error.__cause__, tool.name, tool.parameters["properties"]))
    if isinstance(error.__cause__, errors.VectorMemoryError):  # FastMCP wraps what a tool's dependency raises
        error = error.__cause__
    if not isinstance(error, errors.ValidationError | errors.ClosedMemoryError):
        logger.error("%s failed: %s", tool.name, errors.where(error))
    return error if isinstance(error, errors.VectorMemoryError) else unexpected(tool.name)


@contextmanager
def protocol_errors(name: str) -> Iterator[None]:
    """Turn exceptions in a resource or prompt into protocol errors."""
    try:
        yield
    except errors.ValidationError as error:
        raise fastmcp.exceptions.ValidationError(str(error), log_level=logging.DEBUG) from None
    except Exception as error:
        logger.error("%s failed: %s", name, errors.where(error))  # noqa: TRY400 - a traceback would quote it
        told = error if isinstance(error, errors.VectorMemoryError) else unexpected(name)
        raise fastmcp.exceptions.FastMCPError(str(told), log_level=logging.DEBUG) from None


def unexpected(tool_name: str) -> errors.VectorMemoryError:
    """Return the error for an unexpected exception; it reveals no details."""
    family = next(family for prefix, family in FAMILIES if tool_name.startswith(prefix))
    return family("An unexpected error occurred in the server; its log says where. It is safe to repeat the call.")


def argument_problems(error: pydantic.ValidationError, tool_name: str, parameters: Schema) -> str:
    """Return a message that says what to send instead for each refused parameter, but never what was sent."""
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
        return f"{name} is required{INSTEAD.get(name, '')}."
    if kind == "string_unicode":
        return f"{name} contains a lone surrogate: send text that UTF-8 can encode."
    return f"{name} must be {_expected(schema)}."


def _expected(schema: Schema) -> str:
    if "enum" in schema:
        return " or ".join(f'"{choice}"' for choice in schema["enum"])
    return WORDS[schema["type"]].format(items=f"{schema.get('items', {}).get('type', '')}s")


def _unknown(names: Sequence[str], tool_name: str, parameters: Schema) -> str:
    shown = ", ".join(repr(name[:NAME_SHOWN]) for name in names[:UNKNOWN_SHOWN])
    return f"{tool_name} has no parameter {shown}; its parameters are {', '.join(parameters)}."
