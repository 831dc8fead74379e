"""How a server answers lines that are not messages, in both eras."""

import json
from collections.abc import Iterator

import pytest
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR

from servers import ENVELOPE, LEGACY, MODERN, Server

CALL = b'{"jsonrpc":"2.0","id":700,"method":"tools/call","params":{"name":"list_sessions","arguments":%s}}'
BAD_LINES = {
    "broken JSON": (b'{"jsonrpc":"2.0","id":1,,}', PARSE_ERROR, None),
    "a lone surrogate": (CALL % rb'{"agent_id":"\ud83d"}', PARSE_ERROR, 700),
    "bad UTF-8": (CALL % b'{"agent_id":"\xc3\x28"}', PARSE_ERROR, 700),
    "deep nesting": (CALL % (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), PARSE_ERROR, None),
    "a batch": (b"[" + CALL % b"{}" + b"," + CALL % b"{}" + b"]", INVALID_REQUEST, None),
    "a scalar": (b"3", INVALID_REQUEST, None),
    "an object that is no message": (b'{"hello":"world"}', INVALID_REQUEST, None),
    "params of the wrong type": (
        b'{"jsonrpc":"2.0","id":700,"method":"tools/call","params":["list_sessions"]}',
        INVALID_PARAMS,
        700,
    ),
}
LONGEST_MB = 50
"""How much memory one line may take: it is held as bytes, and read once."""


@pytest.fixture(scope="module", params=[LEGACY, MODERN])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Give a server whose client began with lines that are no messages: they do not decide the era."""
    with Server(tmp_path_factory.mktemp("wire"), version=request.param) as started:
        started.write(b"[1\n\n \r\n[]\n")
        assert [started.receive()["error"]["code"] for _ in range(2)] == [PARSE_ERROR, INVALID_REQUEST]
        yield started.hello()


def test_a_line_of_100_mb_takes_little_memory(server: Server) -> None:
    assert server.call("list_sessions")["success"], "which opens the memory"
    before = server.peak_mb()
    begun, ended = CALL.split(b"%s")
    server.write(begun + b'{"agent_id":"' + b"x" * 100 * 2**20 + b'"}' + ended + b"\n")
    answer = server.receive()
    assert (answer["id"], answer["error"]["code"]) == (700, INVALID_REQUEST)
    assert server.peak_mb() - before < LONGEST_MB


@pytest.mark.parametrize(("line", "code", "request_id"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_answered_and_the_server_goes_on(
    server: Server, line: bytes, code: int, request_id: int | None
) -> None:
    server.write(line + b"\n")
    answer = server.receive()
    assert (answer["id"], answer["error"]["code"]) == (request_id, code)
    assert server.call("list_sessions")["success"]


def test_an_unknown_method_is_answered(server: Server) -> None:
    assert server.request("tools/destroy")["error"]["code"] == METHOD_NOT_FOUND


@pytest.mark.parametrize(
    "params", [{"name": 7, "arguments": {}}, {"arguments": {}}, {"name": "list_sessions", "arguments": [1]}]
)
def test_parameters_that_a_method_does_not_take_are_answered(server: Server, params: dict[str, object]) -> None:
    assert server.request("tools/call", **params)["error"]["code"] == INVALID_PARAMS


def test_line_ends_and_spaces_of_windows_are_no_errors(server: Server) -> None:
    call = server.message("tools/call", name="list_sessions", arguments={})
    server.write(json.dumps(call, indent=1).replace("\n", "\r").encode() + b"\r\n")
    assert server.receive()["id"] == call["id"]


def test_the_eras_are_not_mixed(server: Server) -> None:
    """A request of the other era is refused: this tells that each was spoken as it is meant."""
    modern = "_meta" in server.message("ping")["params"]
    server.send(
        {"jsonrpc": "2.0", "id": 900, "method": "initialize" if modern else "tools/list", "params": {"_meta": ENVELOPE}}
    )
    assert "error" in server.receive(900)
