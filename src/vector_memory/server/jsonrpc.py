"""Parses lines into JSON-RPC messages, or answers with a JSON-RPC error; and writes messages."""

import json
import logging
from contextlib import suppress
from typing import Any, BinaryIO

import mcp_types
from pydantic import ValidationError
from pydantic_core import from_json

from vector_memory.domain.text import without_halves

logger = logging.getLogger(__name__)

MAX_LINE = 8 * 2**20
"""Bytes. The longest content has 500,000 characters, which JSON may escape as 12 bytes each; the rest is small."""

UNREADABLE = "Parse error: send each message as one line of JSON in UTF-8, without lone surrogates or deep nesting."
TOO_LONG = f"The line has more than {MAX_LINE:,} bytes: send less at once."
BATCH = "MCP has no batches: send each message on its own line."
NO_MESSAGE = 'Not JSON-RPC 2.0: send "jsonrpc": "2.0", a "method", and an "id" that is a string or an integer.'
PARAMS_NO_OBJECT = "params must be an object."
UNEXPECTED = "The server could not handle this message; its log names the error."
MAX_ERROR = 2_000
"""Characters of an error message. The SDK quotes the client's input in some messages, however long it is."""

HOOK = "hook_"
"""Begins the names of the tools for hooks."""

PIECE = 2**16


class RefusedLineError(Exception):
    """A line is not a message; `answer` is the error to send back."""

    def __init__(self, code: int, message: str, request_id: mcp_types.RequestId | None) -> None:
        super().__init__(message)
        self.answer = error_answer(request_id, code, message)


def read_line(source: BinaryIO) -> bytes:
    """Return the next line with its line end, or b"" at the end of input. Raises RefusedLineError if it is too long.

    Keeps little of such a line in memory.
    """
    line = source.readline(MAX_LINE + 1)
    if len(line) <= MAX_LINE:
        return line
    beginning, end = line[:PIECE].decode(errors="ignore"), line
    while end and not end.endswith(b"\n"):
        end = source.readline(PIECE)
    value = None
    with suppress(ValueError):
        value = from_json(beginning, allow_partial="trailing-strings")
    raise RefusedLineError(mcp_types.INVALID_REQUEST, TOO_LONG, id_of(value))


def read_message(line: bytes) -> mcp_types.JSONRPCMessage:
    """Parse a line and return its message. Raises RefusedLineError."""
    value = without_odd_token(value_in(line))
    try:
        message = mcp_types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        raise refusal(value) from None
    # A request whose id is not acceptable looks like a notification, and would never be answered.
    if isinstance(message, mcp_types.JSONRPCNotification) and "id" in value:
        raise refusal(value)
    return message


def value_in(line: bytes) -> Any:
    """Return the JSON value on a line. Raises RefusedLineError.

    Clients cut texts in the middle of an emoji. Nobody would repeat a hook's report, so half a character in it becomes
    U+FFFD. Any other call is refused, and its caller repeats it.
    """
    with suppress(ValueError):
        return from_json(line)
    value = None
    with suppress(ValueError, RecursionError):
        value = json.loads(without_halves(json.dumps(json.loads(line.decode(errors="replace")), ensure_ascii=False)))
    if is_hook_call(value):
        return value
    raise RefusedLineError(mcp_types.PARSE_ERROR, UNREADABLE, id_of(value))


def repaired(body: bytes) -> bytes:
    """Return the body of a request over HTTP, as `value_in` and `without_odd_token` repair it."""
    if HOOK.encode() in body or b"progressToken" in body:
        with suppress(RefusedLineError):
            return json.dumps(without_odd_token(value_in(body))).encode()
    return body


def without_odd_token(value: Any) -> Any:
    """Remove a token for progress that is neither a string nor an integer: the SDK would refuse the request.

    The call is answered, without progress.
    """
    match value:
        case {"params": {"_meta": {"progressToken": token}}} if not is_id(token):
            del value["params"]["_meta"]["progressToken"]
    return value


def is_hook_call(message: object) -> bool:
    """Return whether a message, parsed or as JSON, calls a tool for hooks."""
    match message:
        case mcp_types.JSONRPCRequest(method="tools/call", params={"name": str(name)}):
            return name.startswith(HOOK)
        case {"method": "tools/call", "params": {"name": str(name)}}:
            return name.startswith(HOOK)
    return False


def refusal(value: object) -> RefusedLineError:
    """Return the error for a JSON value that is not a message."""
    match value:
        case list():
            return RefusedLineError(mcp_types.INVALID_REQUEST, BATCH, None)
        case {"jsonrpc": "2.0", "id": request_id, "method": str(), "params": _} if is_id(request_id):
            return RefusedLineError(mcp_types.INVALID_PARAMS, PARAMS_NO_OBJECT, id_of(value))
    return RefusedLineError(mcp_types.INVALID_REQUEST, NO_MESSAGE, id_of(value))


def is_id(value: object) -> bool:
    """Return whether a value can be the id of a request."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def id_of(value: object) -> mcp_types.RequestId | None:
    """Return the id of a request that is not valid; None if it has none.

    An answer's id is one of ours: sent back, it would look like the answer to another request.
    """
    match value:
        case {"id": str() | int() as request_id, **others} if is_id(request_id) and not {"result", "error"} & {*others}:
            return request_id
    return None


def as_line(message: mcp_types.JSONRPCMessage) -> bytes:
    """Return a message as a line. An answer that cannot be encoded becomes an error, because its client is waiting."""
    if isinstance(message, mcp_types.JSONRPCError) and len(message.error.message) > MAX_ERROR:
        return as_line(error_answer(message.id, message.error.code, message.error.message[: MAX_ERROR - 1] + "…"))
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError as error:
        logger.error("A message could not be written: %s", type(error).__name__)  # noqa: TRY400 - a traceback quotes it
        if not isinstance(message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError):
            return b""
        return as_line(error_answer(message.id, mcp_types.INTERNAL_ERROR, UNEXPECTED))


def error_answer(request_id: mcp_types.RequestId | None, code: int, message: str) -> mcp_types.JSONRPCError:
    """Return an error as the answer to a request."""
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=request_id, error=mcp_types.ErrorData(code=code, message=message))
