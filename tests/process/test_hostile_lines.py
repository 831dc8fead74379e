"""Nothing that a client writes ends the server's process, and the next valid request is answered."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.effort import effort
from hostile_lines import hostile_lines
from servers import LEGACY, MODERN, Server

PROVEN = [
    b'{"jsonrpc":"2.0","id":007,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":"\t","method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":"\x01","method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":-00,"method":"tools/list","params":{,}}',
    b'{"jsonrpc":"2.0","id":"never asked","result":{}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"never asked"}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[1]}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{},"progress":"a"}}',
    b'{"jsonrpc":"2.0","method":"notifications/nobody/expects","params":{}}',
]
"""Lines that ended a server once, and messages that it does not expect."""


@pytest.fixture(scope="module", params=[LEGACY, MODERN])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("hostile"), version=request.param) as started:
        yield started.hello()


def goes_on(server: Server) -> bool:
    """Tell whether the server answers a request; whatever it says before that is read."""
    call = server.message("tools/call", name="list_sessions", arguments={})
    call["id"] = f"asked {call['id']}"
    server.send(call)
    while (answer := server.receive()).get("id") != call["id"]:
        pass
    return bool(answer["result"]["structuredContent"]["success"])


@pytest.mark.parametrize("line", PROVEN, ids=range(len(PROVEN)))
def test_a_line_that_once_ended_a_server_does_so_no_more(server: Server, line: bytes) -> None:
    server.write(line + b"\n")
    assert goes_on(server)


@settings(max_examples=effort(quick=4, long=100))
@given(st.lists(hostile_lines(), min_size=30, max_size=30))
def test_no_bytes_end_the_server(server: Server, lines: list[bytes]) -> None:
    server.write(b"".join(line + b"\n" for line in lines))
    assert goes_on(server)


@pytest.mark.parametrize("rest", [b"", b"\r\n \n", b'\n{"id":007'], ids=["no line end", "blank lines", "a broken line"])
def test_the_last_request_is_answered_though_its_line_ends_with_the_input(
    tmp_path_factory: pytest.TempPathFactory, rest: bytes
) -> None:
    with Server(tmp_path_factory.mktemp("last")) as server:
        server.hello()
        server.write(b'{"jsonrpc":"2.0","id":99,"method":"ping"}' + rest)
        server.hang_up(reading=True)
        assert "result" in server.receive(99)
        assert server.process.wait(60) == 0


@pytest.mark.parametrize("token", [1.5, None, True, {}, []])
def test_a_call_with_an_odd_token_for_progress_is_answered(server: Server, token: object) -> None:
    call = server.message("tools/call", name="list_sessions", arguments={})
    call["params"]["_meta"] = {**call["params"].get("_meta", {}), "progressToken": token}
    server.send(call)
    assert server.receive(call["id"])["result"]["structuredContent"]["success"]
