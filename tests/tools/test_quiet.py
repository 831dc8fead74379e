"""Logs and errors contain no stored or sent text and no paths."""

import fcntl
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.effort import effort
from servers import LEGACY, MAIN, MODERN, Server
from tool_calls import SESSION_TOOLS, good_arguments, with_text
from vector_memory.server.tools.memory_tool import MemoryTool
from waiting import PATIENCE

pytestmark = pytest.mark.sqlite("its servers have files")

SECRET = "zanzibar-hunter2"  # noqa: S105 - a marker for stored content

RAISES = f"""
import json, sys
from pathlib import Path
from vector_memory import store
from vector_memory.server import app as server
from vector_memory.cli.logging_setup import set_up_logging
from vector_memory.settings import Settings

class Broken(store.SessionMemoryStore):
    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name.startswith("_") or name in ("start_background_work", "defer_vectors", "close") or not callable(found):
            return found
        def fail(*arguments, **named):
            try:
                json.loads(f"{{arguments}} {{named}} {SECRET}")
            except ValueError as error:
                raise RuntimeError(f"{{arguments}} {{named}} {SECRET} {{self._storage._database.path}}") from error
        return fail

store.SessionMemoryStore = Broken
set_up_logging("DEBUG", Path("server.log"))
server.run_server(Path(sys.argv[-1]), Settings(embedding_model="toy"))
"""
"""A server whose store fails at everything and says what it was given, and where it is."""


def tells(text: str, folder: Path) -> bool:
    """Tell whether a text contains the secret, or a path of the memory or this program."""
    return any(word in text for word in (SECRET, str(folder), str(MAIN.parent)))


def logged(server: Server, folder: Path) -> str:
    """End a server and return all that it wrote to standard error and to its log file."""
    server.hang_up(reading=True)
    server.process.wait(PATIENCE)
    return server.errors().decode() + (folder / "server.log").read_text()


def calls(tool: MemoryTool) -> Iterator[dict[str, Any]]:
    """Yield good arguments and bad ones, all but the first with the secret in one parameter."""
    yield good_arguments(tool)
    for parameter in tool.parameters["properties"]:
        yield from with_text(tool, parameter, SECRET)
        yield {**good_arguments(tool), parameter: {SECRET: [SECRET]}}
        yield {**good_arguments(tool), parameter: [SECRET] * 30}
        yield {**good_arguments(tool), parameter: f"{SECRET}\ud800"}
        yield {**good_arguments(tool), parameter: SECRET * 40_000}
    yield {"content": SECRET}


def with_text_everywhere(tool: MemoryTool) -> dict[str, Any]:
    """Return arguments that reach the store, with the secret wherever any text does."""
    free = {name: schema["type"] for name, schema in tool.parameters["properties"].items() if "enum" not in schema}
    texts = [
        name
        for name, types in free.items()
        if "string" in types and "integer" not in types and not name.startswith("created_")  # times, which are checked
    ]
    return {**good_arguments(tool), **dict.fromkeys(texts, SECRET)}


def failures(server: Server, tool: MemoryTool, calls: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Make these calls and yield the answers of those that failed, as they came."""
    for arguments in calls:
        answer = server.receive(server.ask_tool(tool.name, **arguments))
        if "error" in answer or answer["result"].get("isError"):
            yield json.dumps(answer)


@pytest.mark.parametrize(("share", "version"), [(0, LEGACY), (1, MODERN)])
def test_over_all_tools_no_log_line_and_no_error_repeats_what_was_sent_or_a_path(
    tmp_path: Path, share: int, version: str
) -> None:
    """In an ordinary run, each era calls every second tool: what is said does not depend on the era."""
    tools = effort(quick=SESSION_TOOLS[share::2], long=SESSION_TOOLS)
    noisy = {
        "VECTOR_MEMORY_LOG_LEVEL": "DEBUG",
        "VECTOR_MEMORY_LOG_FILE": "server.log",
        "VECTOR_MEMORY_LOG_SLOW_QUERY_THRESHOLD": "0",
    }
    with Server(tmp_path, version=version, **noisy) as server:
        server.hello()
        fcntl.fcntl(server.process.stderr, fcntl.F_SETPIPE_SZ, 1 << 20)  # nobody reads it until the end
        failed = {tool.name: list(failures(server, tool, calls(tool))) for tool in tools}
        server.write(b'{"jsonrpc":"2.0","id":1,"method":"%s"\n' % SECRET.encode())
        refused = json.dumps(server.receive())
        said = logged(server, tmp_path)
    assert all(failed.values())
    assert "Slow search" in said
    assert f"{tools[0].name} failed in" in said
    answers = [refused, *(answer for answers in failed.values() for answer in answers)]
    assert [answer for answer in answers if tells(answer, tmp_path)] == []
    told = [line for line in said.splitlines() if tells(line, tmp_path)]
    assert [line for line in told if "Created the database" not in line] == []


def test_over_all_tools_an_unexpected_error_is_logged_without_its_message(tmp_path: Path) -> None:
    with Server(tmp_path, start=["-c", RAISES]) as server:
        server.hello()
        failed = {tool.name: list(failures(server, tool, [with_text_everywhere(tool)])) for tool in SESSION_TOOLS}
        said = logged(server, tmp_path)
    for tool, answers in failed.items():
        assert f"{tool} failed: RuntimeError at " in said
        [answer] = answers
        assert "unexpected" in answer, tool
        assert not tells(answer, tmp_path), tool
    assert [line for line in said.splitlines() if tells(line, tmp_path)] == []
