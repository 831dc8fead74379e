"""Parses lines into JSON-RPC messages, or answers with a JSON-RPC error; and writes messages."""

import json
import logging
import re
from typing import Any, BinaryIO

from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)
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
"""Characters of an error message. The SDK repeats the client's input in some messages, whatever its length."""

HOOK = "hook_"
"""Begins the names of the tools for hooks."""

HOOK_CALL = re.compile(rb'"name"\s*:\s*"' + HOOK.encode())

SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""Half a character, or one of the two halves of a character."""

EDGE = 1024
PIECE = 2**16
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID = rb'"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\]{1,200}")'
ID_IN_FRONT = re.compile(rb"\s*\{\s*" + _VERSION + rb"\s*,\s*" + _ID + rb'\s*,\s*"method"')
METHOD_IN_FRONT = re.compile(rb'\s*\{\s*"method"')
ID_AT_THE_END = re.compile(_VERSION + rb"\s*,\s*" + _ID + rb"\s*\}\s*$")
"""These only locate an id; the parser decides whether it is valid."""


class RefusedLineError(Exception):
    """A line is not a message; `answer` is the error to send back."""

    def __init__(self, code: int, message: str, request_id: RequestId | None) -> None:
        super().__init__(message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def read_line(source: BinaryIO) -> bytes:
    """Return the next line with its line end, or b"" at the end of input. Raises RefusedLineError if it is too long.

    Only the first and last bytes of such a line are kept in memory.
    """
    line = source.readline(MAX_LINE + 1)
    if len(line) <= MAX_LINE:
        return line
    start, end = line[:EDGE], line[-EDGE:]
    while not end.endswith(b"\n") and (more := source.readline(PIECE)):
        end = (end + more)[-EDGE:]
    raise RefusedLineError(INVALID_REQUEST, TOO_LONG, visible_id(start + end))


def read_message(line: bytes) -> JSONRPCMessage:
    """Return the message on a line. Raises RefusedLineError and nothing else."""
    try:
        return parsed(line)
    except RefusedLineError:
        raise
    except Exception as error:  # no line may end the server
        logger.error("A line could not be read: %s", type(error).__name__)  # noqa: TRY400 - a traceback quotes it
        raise RefusedLineError(INTERNAL_ERROR, UNEXPECTED, None) from None


def parsed(line: bytes) -> JSONRPCMessage:
    """Parse a line once and return its message. Raises RefusedLineError."""
    try:
        value = value_in(line)
    except ValueError:
        raise RefusedLineError(PARSE_ERROR, UNREADABLE, visible_id(line)) from None
    try:
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        raise refused(value) from None
    # A request whose id is not acceptable looks like a notification, and would never be answered.
    if isinstance(message, JSONRPCNotification) and "id" in value:
        raise RefusedLineError(INVALID_REQUEST, NO_MESSAGE, None)
    return message


def value_in(line: bytes) -> Any:
    """Return the JSON value on a line. Raises ValueError.

    Clients cut texts in the middle of an emoji. What a hook reports is not lost for that, because nobody would repeat
    it: half a character becomes U+FFFD. Any other call is refused, and its caller repeats it.
    """
    try:
        return from_json(line)
    except ValueError:
        if not HOOK_CALL.search(line):
            raise
    try:
        value = json.loads(line.decode(errors="replace"))
    except RecursionError:
        raise ValueError("too deep") from None
    return json.loads(without_halves(json.dumps(value, ensure_ascii=False))) if is_hook_call(value) else from_json(line)


def without_half_characters(body: bytes) -> bytes:
    """Return the body of a request over HTTP; half characters in the call of a hook become U+FFFD."""
    if not (HOOK_CALL.search(body) and SURROGATE.search(body)):
        return body
    try:
        return json.dumps(value_in(body)).encode()
    except ValueError:
        return body


def is_hook_call(message: object) -> bool:
    """Return whether a message, parsed or as JSON, is the call of a tool for hooks."""
    match message:
        case JSONRPCRequest(method="tools/call", params={"name": str(name)}):
            return name.startswith(HOOK)
        case {"method": "tools/call", "params": {"name": str(name)}}:
            return name.startswith(HOOK)
    return False


def refused(value: object) -> RefusedLineError:
    """Return the error for a JSON value that is not a message."""
    match value:
        case list():
            return RefusedLineError(INVALID_REQUEST, BATCH, None)
        case {"jsonrpc": "2.0", "id": request_id, "method": str(), "params": _} if is_id(request_id):
            return RefusedLineError(INVALID_PARAMS, PARAMS_NO_OBJECT, request_id)
        # An answer's id is one of ours: sent back, it would look like the answer to another request.
        case {"id": request_id, **others} if is_id(request_id) and not {"result", "error"} & others.keys():
            return RefusedLineError(INVALID_REQUEST, NO_MESSAGE, request_id)
        case _:
            return RefusedLineError(INVALID_REQUEST, NO_MESSAGE, None)


def is_id(value: object) -> bool:
    """Return whether a value can be the id of a request."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def visible_id(line: bytes) -> RequestId | None:
    """Return the id of a request that cannot be parsed, if it is where SDKs write it: at either end of the line."""
    found = ID_IN_FRONT.match(line) or (METHOD_IN_FRONT.match(line) and ID_AT_THE_END.search(line[-EDGE:]))
    try:
        request_id: RequestId | None = from_json(found[1]) if found else None
    except ValueError:
        return None
    return request_id


def as_line(message: JSONRPCMessage) -> bytes:
    """Return a message as a line. An answer that cannot be encoded becomes an error, because its client is waiting."""
    if isinstance(message, JSONRPCError) and len(message.error.message) > MAX_ERROR:
        error = ErrorData(code=message.error.code, message=message.error.message[:MAX_ERROR] + "…")
        message = JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
    try:
        return encoded(message)
    except ValueError as error:
        logger.error("A message could not be written: %s", type(error).__name__)  # noqa: TRY400 - as above
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return b""
        failure = ErrorData(code=INTERNAL_ERROR, message=UNEXPECTED)
        return encoded(JSONRPCError(jsonrpc="2.0", id=message.id, error=failure))


def encoded(message: JSONRPCMessage) -> bytes:
    """Return a message as one line. Raises ValueError for text that UTF-8 cannot encode."""
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
