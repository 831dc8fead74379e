"""How lines are parsed, and what the sender of an invalid line receives."""

import io
import json
import tracemalloc

import pytest
from hypothesis import given, settings
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from faults.effort import effort
from hostile_lines import hostile_lines
from vector_memory.domain.validation import MAX_CONTENT
from vector_memory.server.jsonrpc import MAX_ERROR, MAX_LINE, RefusedLineError, as_line, is_id, read_line, read_message
from vector_memory.server.stdio import receive

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":%s}}'
CALL_OF_JAVASCRIPT = b'{"method":"tools/call","params":{"a":%s},"jsonrpc":"2.0","id":"x-7"}'
DEEP = b"[" * 100_000 + b"]" * 100_000

REFUSED = {
    "nothing that is JSON": (b"hello", PARSE_ERROR, None),
    "broken JSON": (b'{"jsonrpc":"2.0","id":7,"method":"ping"', PARSE_ERROR, None),
    "a lone surrogate": (CALL % rb'"\ud800"', PARSE_ERROR, 7),
    "a lone surrogate, id last": (CALL_OF_JAVASCRIPT % rb'"\udc00"', PARSE_ERROR, "x-7"),
    "an id with zeros in front": (b'{"jsonrpc":"2.0","id":007,"method":"tools/list"}', PARSE_ERROR, None),
    "an id with a raw tab": (b'{"jsonrpc":"2.0","id":"a\tb","method":"tools/list"}', PARSE_ERROR, None),
    "an id with a control character": (b'{"jsonrpc":"2.0","id":"\x01","method":"tools/list"}', PARSE_ERROR, None),
    "an id of minus zeros, params broken": (b'{"jsonrpc":"2.0","id":-00,"method":"a","params":{,}}', PARSE_ERROR, None),
    "an id of 5,000 digits": (b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}', PARSE_ERROR, None),
    "UTF-16": ('{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}'.encode("utf-16"), PARSE_ERROR, None),
    "bad UTF-8": (CALL % b'"\xff\xfe"', PARSE_ERROR, 7),
    "deep nesting": (CALL % DEEP, PARSE_ERROR, None),
    "deep nesting alone": (DEEP, PARSE_ERROR, None),
    "a broken answer": (b'{"jsonrpc":"2.0","id":7,"result":{', PARSE_ERROR, None),
    "a batch": (b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]', INVALID_REQUEST, None),
    "an empty batch": (b"[]", INVALID_REQUEST, None),
    "a number": (b"7", INVALID_REQUEST, None),
    "a text": (b'"ping"', INVALID_REQUEST, None),
    "null": (b"null", INVALID_REQUEST, None),
    "another object": (b'{"a":1,"id":7}', INVALID_REQUEST, 7),
    "another version": (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', INVALID_REQUEST, 7),
    "a method that is no text": (b'{"jsonrpc":"2.0","id":7,"method":7}', INVALID_REQUEST, 7),
    "an id that is null": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID_REQUEST, None),
    "an id that is a fraction": (b'{"jsonrpc":"2.0","id":7.5,"method":"ping"}', INVALID_REQUEST, None),
    "an id that is true": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID_REQUEST, None),
    "an answer that is none": (b'{"jsonrpc":"2.0","id":7,"result":7}', INVALID_REQUEST, None),
    "params as a list": (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}', INVALID_PARAMS, 7),
    "params as a text": (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":"a"}', INVALID_PARAMS, 7),
}


@pytest.mark.parametrize(("line", "code", "request_id"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_line_is_answered_with_its_id_if_that_can_be_read(
    line: bytes, code: int, request_id: object
) -> None:
    with pytest.raises(RefusedLineError) as refused:
        read_message(line + b"\n")
    answer = json.loads(refused.value.answer.model_dump_json(exclude_unset=True))
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", request_id, code)
    assert answer["error"]["message"]


def test_messages_of_every_kind_are_read() -> None:
    assert read_message(CALL % b"1") == JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/call", params={"a": 1})
    assert isinstance(read_message(b'{"jsonrpc":"2.0","method":"notifications/initialized"}'), JSONRPCNotification)
    assert isinstance(read_message(b'{"jsonrpc":"2.0","id":7,"result":{}}'), JSONRPCResponse)


@pytest.mark.parametrize(
    ("call", "request_id"), [(CALL, 7), (CALL_OF_JAVASCRIPT, None)], ids=["id in front", "id at the end"]
)
def test_only_an_id_in_front_of_an_overlong_line_is_kept_and_the_next_is_read(call: bytes, request_id: object) -> None:
    source = io.BytesIO(call % (b'"' + b"x" * (MAX_LINE + 100_000) + b'"') + b"\n" + CALL % b"1" + b"\n")
    with pytest.raises(RefusedLineError) as refused:
        read_line(source)
    assert (refused.value.answer.id, refused.value.answer.error.code) == (request_id, INVALID_REQUEST)
    assert read_line(source) == CALL % b"1" + b"\n"
    assert read_line(source) == b""


def test_a_line_may_contain_the_longest_content_in_its_longest_json_form() -> None:
    line = CALL % json.dumps("\N{GRINNING FACE}" * MAX_CONTENT).encode() + b"\n"
    assert len(line) < MAX_LINE - 2**20
    assert read_line(io.BytesIO(line)) == line


def test_an_endless_line_uses_no_more_memory_than_the_longest_accepted_one() -> None:
    class Endless(io.RawIOBase):
        """Gives 100 MB without a line's end."""

        left = 100 * 2**20

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:
            count = min(self.left, len(buffer))
            self.left -= count
            buffer[:count] = bytes(count)
            return count

    tracemalloc.start()
    with pytest.raises(RefusedLineError):
        read_line(io.BufferedReader(Endless(), 2**16))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * MAX_LINE


@settings(max_examples=effort(quick=200, long=5_000))
@given(hostile_lines())
def test_whatever_is_written_is_a_message_or_refused_and_the_next_line_is_read(data: bytes) -> None:
    source = io.BytesIO(data + b"\n" + CALL % b"1")
    while True:
        try:
            message = receive(source)[1]
        except RefusedLineError as refused:
            answer = json.loads(as_line(refused.answer))
            assert answer["id"] is None or is_id(answer["id"])
            continue
        except EOFError:
            break
    assert message == read_message(CALL % b"1")


def test_an_answer_that_cannot_be_written_becomes_an_error_for_the_same_request() -> None:
    answer = json.loads(as_line(JSONRPCResponse(jsonrpc="2.0", id=7, result={"text": "\ud800"})))
    assert (answer["id"], answer["error"]["code"]) == (7, INTERNAL_ERROR)
    assert as_line(JSONRPCNotification(jsonrpc="2.0", method="x", params={"text": "\ud800"})) == b""


def test_an_error_does_not_repeat_a_long_input() -> None:
    error = ErrorData(code=INVALID_PARAMS, message="Unknown resource: " + "x" * 1_000_000)
    assert len(as_line(JSONRPCError(jsonrpc="2.0", id=7, error=error))) < MAX_ERROR + 200
