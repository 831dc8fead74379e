"""Bytes that a client may write near valid messages: mutated, cut, too deep, too large, or not text at all."""

import json
from collections.abc import Sequence

from hypothesis import strategies as st

from servers import CLIENT, ENVELOPE, LEGACY

CALL = {"name": "list_sessions", "arguments": {"limit": 3, "agent_id": "a\tb"}}
MESSAGES: Sequence[dict[str, object]] = (
    {"id": 7, "method": "ping", "params": {}},
    {"id": "x-7", "method": "tools/call", "params": CALL},
    {"id": 8, "method": "tools/call", "params": {**CALL, "_meta": {**ENVELOPE, "progressToken": 1.5}}},
    {"id": 9, "method": "initialize", "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}},
    {"id": 10, "method": "server/discover", "params": {"_meta": ENVELOPE}},
    {"id": 11, "method": "resources/read", "params": {"uri": "memory://memories/1?offset=0"}},
    {"id": 12, "method": "completion/complete", "params": {"ref": {"type": "ref/prompt", "name": "hand_over"}}},
    {"method": "notifications/initialized"},
    {"method": "notifications/cancelled", "params": {"requestId": 7}},
    {"method": "notifications/progress", "params": {"progressToken": 7, "progress": 1}},
    {"id": 1, "result": {"action": "accept", "content": {"confirm": True}}},
    {"id": 1, "error": {"code": -1, "message": "no"}},
)
LINES = [json.dumps({"jsonrpc": "2.0"} | message, separators=(",", ":")).encode() for message in MESSAGES] + [
    json.dumps(message | {"jsonrpc": "2.0"}).encode() for message in MESSAGES
]
NUMBERS = (
    b"007",
    b"-00",
    b"-0",
    b"1.0",
    b"1e999",
    b"-1e-999",
    b"NaN",
    b"-Infinity",
    b"9" * 19,
    b"9" * 5_000,
    b"0x7",
    b"+7",
)
VALUES = (
    *NUMBERS,
    *(
        b"null",
        b"true",
        b"[]",
        b"{}",
        b"[[1]]",
        b'""',
        b'"\t"',
        b'"\x01"',
        rb'"\u0000"',
        rb'"\ud83d"',
        rb'"\ud83d\ude00"',
    ),
    *(b'"\xff"', b'"' + b"i" * 300 + b'"', b"[" * 300 + b"]" * 300, b"[" * 3_000, b'{"a":' * 190 + b"1" + b"}" * 190),
)
MARKS = (
    *(
        b"\0",
        b"\t",
        b"\r",
        b"\x0b",
        b"\x85",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xed\xa0\x80",
    ),
    *(b",", b":", b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u", b"//", b"'", b"\r\n", b"\n", b"\n\n", b" " * 40),
    *(b'"id":1,', b'"id":007,', b'"id":"\t",', b'"jsonrpc":"1.0",', b'"method":7,', b'"params":[1],', b'"result":{},'),
)


@st.composite
def hostile_lines(draw: st.DrawFn) -> bytes:
    """Make a line, or several, by a few changes of a valid one; there may be no end of line."""
    line = draw(st.sampled_from(LINES))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(line)))
        end = min(len(line), start + draw(st.integers(0, 12)))
        match draw(st.sampled_from(["insert", "replace", "cut", "value", "wrap"])):
            case "insert":
                line = line[:start] + draw(st.sampled_from(MARKS) | st.binary(max_size=4)) + line[start:]
            case "replace":
                line = line[:start] + draw(st.sampled_from(MARKS) | st.binary(max_size=4)) + line[end:]
            case "cut":
                line = line[:start]
            case "value":
                line = with_value(line, start, draw(st.sampled_from(VALUES)))
            case _:
                line = b"[" + line + b"," + line + b"]"
    return line


def with_value(line: bytes, position: int, value: bytes) -> bytes:
    """Put a value in the place of the one that follows the next colon."""
    colon = line.find(b":", position)
    end = min((found for mark in b",}" if (found := line.find(bytes([mark]), colon)) >= 0), default=len(line))
    return line if colon < 0 else line[: colon + 1] + value + line[end:]
