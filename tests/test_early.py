"""What a client is answered while FastMCP is imported: the same as by the server, or nothing."""

import asyncio
import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vector_memory.server.app
from faults.effort import effort
from hostile_lines import hostile_lines
from servers import CLIENT, ENVELOPE
from vector_memory.cli import arguments, commands
from vector_memory.cli.commands import serve as serving
from vector_memory.server import early, stdio
from vector_memory.server.app import create_server
from vector_memory.server.early import EarlyAnswers, EarlyClient, description, key_of_offer, plain_options
from vector_memory.server.fastmcp_adapter import serve_streams
from vector_memory.server.stdio import Wire
from vector_memory.server.tools import functions_of, memory_tool
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import ServerOptions, Toolset
from waiting import eventually

LIBRARY = "fastmcp-0.0.1"
STRANGERS = ("1999-01-01", "2026-07-28", "")


def lines_of(*messages: dict[str, Any]) -> list[bytes]:
    """Write messages as a client does, with the ids that they lack."""
    numbered = [message if is_notification(message) else {"id": n} | message for n, message in enumerate(messages, 1)]
    return [json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n" for message in numbered]


def is_notification(message: dict[str, Any]) -> bool:
    return str(message.get("method")).startswith("notifications/")


def hello(version: str = "2025-11-25", **others: Any) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT} | others
    return {"method": "initialize", "params": params}


def asked(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": params} if params else {"method": method}


def modern(method: str, **others: Any) -> dict[str, Any]:
    return asked(method, _meta=ENVELOPE | others)


DONE = {"method": "notifications/initialized"}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
LIST, PING = asked("tools/list"), asked("ping")
CALL = asked("tools/call", name="list_sessions", arguments={})
CODE = {
    "roots": {"listChanged": True},
    "elicitation": {"form": {}, "url": {}},
    "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}},
}
BY_CLAUDE = {"name": "claude-code", "title": "Claude Code", "version": "2.1.332", "websiteUrl": "https://claude.com"}

ANSWERED: dict[str, tuple[list[dict[str, Any]], list[int]]] = {
    **{f"hello {one}": ([hello(one), DONE, LIST, PING], [1, 3, 4]) for one in description()["handshakes"]},
    **{f"hello in {one or 'no'} version": ([hello(one), DONE, LIST], [1, 3]) for one in STRANGERS},
    "a client that says much": ([hello(capabilities=CODE, clientInfo=BY_CLAUDE, _meta={"progressToken": "a"})], [1]),
    "without waiting": ([hello(), LIST], [1, 2]),
    "a token": ([hello(), asked("tools/list", _meta={"progressToken": 0})], [1, 2]),
    "hello twice": ([hello(), hello("2025-06-18"), LIST], [1, 2, 3]),
    "among others": ([hello(), CALL, asked("resources/read"), asked("logging/setLevel"), PING, LIST], [1, 5, 6]),
    "all lists": ([hello(), DONE, *map(asked, LISTS)], [1, 3, 4, 5, 6]),
    "2026": ([modern("server/discover"), modern("tools/list", progressToken=1)], [1, 2]),
    "2026, all lists": ([modern("server/discover"), *map(modern, LISTS)], [1, 2, 3, 4, 5]),
    "2026 without a name": (
        [asked("server/discover", _meta={k: v for k, v in ENVELOPE.items() if "Info" not in k})],
        [1],
    ),
    "2026, a call first": ([modern("tools/call"), modern("server/discover")], [2]),
}
"""What clients send, and which of it is answered early."""

LEFT: dict[str, tuple[list[dict[str, Any]], list[int]]] = {
    "2026, then a handshake": ([modern("server/discover"), hello(), LIST, PING, modern("tools/list")], [1, 5]),
    "a handshake, then 2026": ([hello(), modern("server/discover"), modern("tools/list"), modern("ping")], [1]),
    "discovered without an envelope": ([asked("server/discover"), hello(), LIST], [2, 3]),
    "listed before": ([PING, LIST, hello(), LIST], [1, 3, 4]),
    "cursors": ([hello(), *(asked("tools/list", cursor=one) for one in ("", "x", None, 7, {}))], [1]),
    "odd tokens": ([hello(), *(asked("tools/list", _meta={"progressToken": one}) for one in (1.5, None, []))], [1]),
    "metadata": ([hello(), asked("tools/list", _meta={"traceparent": 7}), asked("ping", _meta=7)], [1]),
    "parameters": ([hello(), asked("tools/list", x=1), {"method": "ping", "params": None}, asked("ping", x=1)], [1]),
    "one id for all": ([hello(), LIST | {"id": 1}, LIST | {"id": "1"}, PING], [1, 4]),
    "ids": ([hello(), *(PING | {"id": one} for one in (None, True, 1.5, 2**70, []))], [1]),
    "an answer": ([hello(), {"result": {}}, PING], [1]),
    **{
        f"hello with {name} {value!r}": ([hello(**{name: value}), LIST, PING], [3])
        for name, values in {
            "capabilities": (None, [], {"roots": {"listChanged": 7}}, {"roots": True}, {"sampling": []}),
            "clientInfo": (
                None,
                {},
                {"name": "x"},
                CLIENT | {"title": 7},
                CLIENT | {"name": None},
                CLIENT | {"icons": 7},
            ),
            "protocolVersion": (None, 7),
            "other": (1,),
        }.items()
        for value in values
    },
    "2026 with strange capabilities": ([modern("server/discover", **{early.CAPABILITIES: 7})], []),
    "2026 with a strange name": ([modern("server/discover", **{early.CLIENT: {"name": "x"}})], []),
    "another era": ([modern("server/discover", **{early.VERSION: "2030-01-01"})], []),
}
"""What only the server can answer, beside what is answered early."""


def early_answers(lines: Sequence[bytes], offer: ServerOptions = ServerOptions()) -> dict[int, Any]:
    """Return what is answered early, by the number of the line."""
    answers = EarlyAnswers(description(), key_of_offer(offer))
    said = ((number, answers.to(line)) for number, line in enumerate(lines, 1))
    return {number: json.loads(answer) for number, answer in said if answer}


def server_answers(lines: Sequence[bytes], offer: ServerOptions = ServerOptions()) -> list[Any]:
    """Return what a server answers that imported everything before."""
    server = create_server(MagicMock(), offer)
    (reading, to_server), (from_server, writing) = pipe(), pipe()
    with reading, to_server, from_server, writing:
        wire = Wire(EarlyClient(reading, writing), writing.close)
        said: list[bytes] = []
        threads = [
            threading.Thread(target=lambda: (to_server.writelines(lines), to_server.close())),
            threading.Thread(target=lambda: said.extend(from_server)),
        ]
        for thread in threads:
            thread.start()
        asyncio.run(serve_streams(server, wire.streams()))
        writing.close()
        for thread in threads:
            thread.join()
    return [json.loads(line) for line in said]


def differing(said: dict[int, Any], by_server: list[Any]) -> list[str]:
    """Return what was answered early and the server says otherwise, be it with the keys in another order."""
    return sorted({*map(json.dumps, said.values())} - {*map(json.dumps, by_server)})


def pipe() -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")


@pytest.mark.parametrize("name", [*ANSWERED, *LEFT])
def test_what_is_answered_early_the_server_answers_with_the_same_words(name: str) -> None:
    messages, numbers = (ANSWERED | LEFT)[name]
    lines = lines_of(*messages)
    said = early_answers(lines)
    assert list(said) == numbers
    assert differing(said, server_answers(lines)) == []


BROKEN = (b"{", b"[]", b"\xff", b'"x"', b"7", b'{"jsonrpc":"2.0","id":1}', b"[" * 100_000, b'{"jsonrpc":"1.0"}')


@pytest.mark.parametrize("line", BROKEN, ids=range(len(BROKEN)))
def test_nothing_is_answered_early_after_a_line_that_is_no_message(line: bytes) -> None:
    assert early_answers([*lines_of(hello()), line + b"\n", *lines_of({"id": 2} | PING)]).keys() == {1}


def cancelled_in(lines: Sequence[bytes]) -> Iterator[Any]:
    """Yield the ids of requests that are cancelled: whether the server answers them depends on how far it was."""
    for line in lines:
        with suppress(ValueError, RecursionError):
            message = json.loads(line)
            if isinstance(message, dict) and message.get("method") == "notifications/cancelled":
                params = message.get("params")
                yield params.get("requestId") if isinstance(params, dict) else None


@settings(max_examples=effort(quick=15, long=300))
@given(st.lists(hostile_lines(), min_size=1, max_size=12), st.booleans())
def test_whatever_is_sent_the_server_answers_it_as_it_was_answered_early(lines: list[bytes], greets: bool) -> None:
    greeting = [line.strip() for line in lines_of(hello())] if greets else []
    whole = [line + b"\n" for line in b"\n".join([*greeting, *lines]).split(b"\n")]
    cancelled = {json.dumps(one) for one in cancelled_in(whole)}
    said = {place: one for place, one in early_answers(whole).items() if json.dumps(one.get("id")) not in cancelled}
    assert differing(said, server_answers(whole)) == []


WORDS: dict[str, str | None] = {
    "": "session full",
    "serve": "session full",
    "--profile core": "session core lean",
    "--profile=core --answers=full": "session core",
    "serve --read-only --toolsets tagged": "tagged full read-only",
    "serve --toolsets session,tagged --answers lean --read-only=false": "session tagged full lean",
    "serve --profile all --database-path FOLDER/m.db --read-only=true": "session all read-only",
    "serve --working-dir FOLDER": "session full",
}
NOT_PLAIN = (
    "serve --help",
    "serve --profile Core",
    "serve --profile",
    "serve --profile=",
    "serve --profile core --profile full",
    "serve --profile core --toolsets tagged",
    "serve --toolsets files",
    "serve --toolsets session,nothing",
    "serve --read-only maybe",
    "serve --http",
    "serve --remote https://example.com/mcp",
    "serve --log-file x",
    "serve --embedding-dim 7",
    "serve --database-path FOLDER/none/m.db",
    "serve --database-path ~/m.db",
    "serve --database-path postgresql://u@h/d",
    "serve --database-path FOLDER/m.db --working-dir FOLDER",
    "serve --working-dir FOLDER/none",
    "serve anything",
    "--version",
)


@pytest.mark.parametrize(("words", "offered"), WORDS.items())
def test_a_plain_command_line_offers_what_the_command_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, offered: str
) -> None:
    served: list[ServerOptions] = []
    monkeypatch.setattr(serving, "set_up_logging", lambda *_: None)
    monkeypatch.setattr(serving, "early_client", lambda *_: None)
    monkeypatch.setattr(vector_memory.server.app, "run_server", lambda *given: served.append(given[3]))
    given = words.replace("FOLDER", str(tmp_path)).split()
    monkeypatch.chdir(tmp_path)
    for name, value in (("CLAUDE_PROJECT_DIR", ""), ("LOG_LEVEL", "nonsense"), ("VECTOR_MEMORY_REDACT", "nonsense")):
        monkeypatch.setenv(name, value)
    assert plain_options([word for word in given if word != "serve"], os.environ) == offered
    with suppress(SystemExit):
        arguments.run(commands.app, given)
    assert [key_of_offer(offer) for offer in served] == [offered]


@pytest.mark.parametrize("words", NOT_PLAIN)
def test_any_other_command_line_is_checked_before_anything_is_answered(tmp_path: Path, words: str) -> None:
    given = words.replace("FOLDER", str(tmp_path)).split()
    assert plain_options([word for word in given if word != "serve"], {}) is None


VARIABLES: dict[str, str | None] = {
    "VECTOR_MEMORY_PROFILE=core": "session core lean",
    "VECTOR_MEMORY_READ_ONLY=true": "session full read-only",
    "VECTOR_MEMORY_READ_ONLY=": "session full",
    "VECTOR_MEMORY_READ_ONLY=1": None,
    "VECTOR_MEMORY_PROFILE=none": None,
    "VECTOR_MEMORY_LOG_FILE=x": None,
    "VECTOR_MEMORY_DATABASE_URL=postgresql://u@h/d": None,
    "VECTOR_MEMORY_DATABASE_PATH=/nowhere/at/all/m.db": None,
    "VECTOR_MEMORY_HTTP=true": None,
    "CWE_MEMORY_DIR=x": None,
    "CLAUDE_PROJECT_DIR=${CLAUDE_PROJECT_DIR}": None,
    "CLAUDE_PROJECT_DIR=/nowhere/at/all": None,
    "VECTOR_MEMORY_EMBEDDING_DIM=nonsense": "session full",
}


@pytest.mark.parametrize(("variable", "offered"), VARIABLES.items())
def test_variables_count_as_flags(variable: str, offered: str | None) -> None:
    assert plain_options([], dict([variable.split("=", 1)])) == offered


def test_a_flag_for_the_location_overrides_the_variables_for_it(tmp_path: Path) -> None:
    variables = {"VECTOR_MEMORY_WORKING_DIR": "/nowhere/at/all"}
    assert plain_options(["--database-path", str(tmp_path / "memory.db")], variables) == "session full"


def test_with_other_releases_of_the_libraries_nothing_is_answered_early(monkeypatch: pytest.MonkeyPatch) -> None:
    assert description()["configurations"]
    monkeypatch.setattr(early, "is_installed", lambda name: not name.startswith("mcp-"))
    assert not description.__wrapped__()["configurations"]
    monkeypatch.undo()
    assert not early.is_installed(LIBRARY)


def test_a_tool_that_is_described_is_the_one_that_would_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    described = {function: MemoryTool.of(function) for function in functions_of(Toolset)}
    monkeypatch.setattr(memory_tool, "all_tools", dict)
    assert described == {function: MemoryTool.of(function) for function in described}


@pytest.fixture
def client() -> Iterator[tuple[BinaryIO, BinaryIO, EarlyClient]]:
    """A client of a session server: what it writes to, what it reads from, and the server's end."""
    (reading, writing), (answers, sink) = pipe(), pipe()
    with reading, writing, answers, sink:
        yield writing, answers, EarlyClient(reading, sink, EarlyAnswers(description(), "session full"))
        writing.close()
        for thread in threading.enumerate():
            if thread.name == "early":
                thread.join()


@pytest.mark.parametrize("rest", [b'{"jsonrpc":"2.0","id":9,"me', b"x" * early.PIECE, b""])
def test_all_bytes_are_handed_on_unchanged(client: tuple[BinaryIO, BinaryIO, EarlyClient], rest: bytes) -> None:
    given, answers, server = client
    lines = lines_of(hello(), DONE, CALL, LIST)
    given.write(b"".join(lines) + rest)
    given.flush()
    assert [json.loads(answers.readline())["id"] for _ in range(2)] == [1, 4]
    threading.Thread(target=lambda: (given.write(b"more\n"), given.close())).start()
    assert server.source.read() == b"".join(lines) + rest + b"more\n"
    assert [line for line, _ in server.answered] == [lines[0], lines[3]]


def test_an_answer_that_differs_from_the_servers_is_logged_and_not_sent_twice(
    client: tuple[BinaryIO, BinaryIO, EarlyClient], caplog: pytest.LogCaptureFixture
) -> None:
    given, answers, early_client = client
    given.writelines(lines_of(hello(), DONE, LIST, CALL | {"id": 3}))
    given.flush()
    said = [json.loads(answers.readline())["id"] for _ in range(2)]
    given.close()
    rest: list[bytes] = []
    reading = threading.Thread(target=lambda: rest.extend(answers))
    reading.start()
    wire = Wire(early_client, lambda: None)
    with caplog.at_level(logging.ERROR, stdio.__name__):
        asyncio.run(serve_streams(create_server(MagicMock(), ServerOptions(read_only=True)), wire.streams()))
    early_client.sink.close()
    assert said == [1, 3]
    reading.join()
    (called,) = map(json.loads, rest)
    assert called["id"] == 3
    assert "tools" not in called["result"]
    assert [record.getMessage().rpartition(" ")[2] for record in caplog.records if record.name == stdio.__name__] == [
        "initialize",
        "tools/list",
    ]


def test_a_client_that_ends_its_input_and_never_reads_does_not_keep_the_server(
    client: tuple[BinaryIO, BinaryIO, EarlyClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was answered early does not fit into the pipe."""
    monkeypatch.setattr(stdio, "SECONDS_TO_ANSWER", 0.1)
    given, answers, early_client = client
    given.writelines(lines_of(hello(), DONE, LIST, asked("tools/list", _meta={"progressToken": 1})))
    given.close()
    eventually(lambda: len(early_client.answered) > 1)
    reading = threading.Thread(target=answers.read)
    wire = Wire(early_client, reading.start)
    asyncio.run(serve_streams(create_server(MagicMock()), wire.streams()))
    early_client.written()
    early_client.sink.close()
    reading.join()
