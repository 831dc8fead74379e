"""Reads a line as a JSON-RPC message, or says in JSON-RPC's own words why it is none."""

import json
import re
from typing import BinaryIO

from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

MAX_LINE = 8 * 2**20
"""Bytes. The longest content has 500,000 characters, of which JSON may make 12 bytes each; the rest is small."""

UNREADABLE = "Not readable: send each message as one line of JSON in UTF-8, without lone surrogates or deep nesting."
TOO_LONG = f"The line has more than {MAX_LINE:,} bytes: send less at once."
BATCH = "Batches are not part of MCP: send each message on a line of its own."
NO_MESSAGE = 'Not JSON-RPC 2.0: send "jsonrpc": "2.0", a "method", and an "id" that is text or a whole number.'
PARAMS_NO_OBJECT = "params must be an object."

EDGE = 1024
PIECE = 2**16
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID = rb'"id"\s*:\s*(-?[0-9]{1,18}|"[^"\\]{1,200}")'
ID_IN_FRONT = re.compile(rb"\s*\{\s*" + _VERSION + rb"\s*,\s*" + _ID + rb'\s*,\s*"method"')
METHOD_IN_FRONT = re.compile(rb'\s*\{\s*"method"')
ID_AT_THE_END = re.compile(_VERSION + rb"\s*,\s*" + _ID + rb"\s*\}\s*$")


class RefusedLineError(Exception):
    """A line is no message; `answer` is what its sender should be told."""

    def __init__(self, code: int, message: str, request_id: RequestId | None) -> None:
        super().__init__(message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def read_line(source: BinaryIO) -> bytes:
    """Return the next line with its end, or nothing at the end of input. Raises RefusedLineError if it is too long.

    Of such a line only both edges are kept while the rest of it goes by.
    """
    line = source.readline(MAX_LINE + 1)
    if len(line) <= MAX_LINE:
        return line
    start, end = line[:EDGE], line[-EDGE:]
    while not end.endswith(b"\n") and (more := source.readline(PIECE)):
        end = (end + more)[-EDGE:]
    raise RefusedLineError(INVALID_REQUEST, TOO_LONG, visible_id(start + end))


def read_message(line: bytes) -> JSONRPCMessage:
    """Return the message on a line. Raises RefusedLineError if there is none."""
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        raise refused(line, readable=error.errors(include_input=False)[0]["type"] != "json_invalid") from None
    # A request whose id is not acceptable looks like a notification, and would never be answered.
    if isinstance(message, JSONRPCNotification) and "id" in json.loads(line):
        raise RefusedLineError(INVALID_REQUEST, NO_MESSAGE, None)
    return message


def refused(line: bytes, *, readable: bool) -> RefusedLineError:
    """Return what to say about a line that is no message; `readable`: it is JSON all the same."""
    if not readable:
        return RefusedLineError(PARSE_ERROR, UNREADABLE, visible_id(line))
    match json.loads(line):
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
    """Tell whether a value can be the id of a request."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def visible_id(line: bytes) -> RequestId | None:
    """Return the id of a request that cannot be read as a whole, if it stands where SDKs write it: at either edge."""
    found = ID_IN_FRONT.match(line) or (METHOD_IN_FRONT.match(line) and ID_AT_THE_END.search(line[-EDGE:]))
    request_id: RequestId | None = json.loads(found[1].decode(errors="replace")) if found else None
    return request_id
