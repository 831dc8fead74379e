"""With `--redact all`, no door stores a secret: every tool, hook, command and request of the page that is registered.

Each text that one of them takes is tried with a token and a private part in it. Then neither is in any file or table.
"""

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cyclopts import ArgumentCollection
from fastmcp import Client

from commands.conftest import Run, run, surroundings  # noqa: F401 - fixtures
from engines import execute, is_in_schema
from hook_texts import ANSWER
from hooks.conftest import patience  # noqa: F401 - a fixture
from over_http.relays import AWAY
from tool_calls import with_text
from ui.conftest import serving
from vector_memory.cli import commands
from vector_memory.clients.events import EVENTS, HOOKS
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.extras.window import routes
from vector_memory.extras.window.api import FILTERS
from vector_memory.files import FileMemory
from vector_memory.server.app import create_server
from vector_memory.server.http.relay import Relay, create_relay
from vector_memory.server.http.remote import NAMES, Remote
from vector_memory.server.tools import offered
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import Redact, ServerOptions, Settings, Toolset
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.outbox import Outbox
from waiting import eventually

pytestmark = pytest.mark.anyio

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC3"
HIDDEN = "hunter2"
TEXT = f"{TOKEN} <private>{HIDDEN}</private>"

REDACTED = "[redacted: GitHub token] [redacted: private]"

ALL = Settings(redact=Redact.ALL, embedding_model="toy")
OFFER = ServerOptions(toolsets=",".join(Toolset))
TOOLS = sorted(offered(OFFER.chosen()), key=lambda tool: bool(tool.annotations and tool.annotations.destructive_hint))
"""Those that delete come last."""

NUMBERS = count(1)

HOLD_TEXT = ("string", "array", "object")
"""The types of parameters with texts in them."""

KEPT = ("content", "entry")
"""The parameters of tools with what is to be kept."""

TRANSCRIPTS = Path(__file__).parent / "data/transcripts"

NAMES_IN_LINES = {"sessionId", "id", "cwd"}
"""The keys of transcripts whose values are names, or in them."""

SERVERS = {"serve", "ui", "database", "namespace"}
"""Commands that run servers, or are about those for teams: they store no text of a memory."""


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what is read, with the secrets."""
    return tmp_path_factory.mktemp("outside")


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was in outboxes, if only for a moment."""
    bodies: list[str] = []
    add = Outbox.add

    def noted(self: Outbox, body: Any) -> Any:
        bodies.append(json.dumps(body))
        return add(self, body)

    monkeypatch.setattr(Outbox, "add", noted)
    return bodies


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Log everything that this package has to say to a file, and keep what waits in the same folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("VECTOR_MEMORY_REDACT", "all")
    handler, logger = logging.FileHandler(tmp_path / "log.txt"), logging.getLogger("vector_memory")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(level)
    logger.removeHandler(handler)
    handler.close()


@contextmanager
def opened(folder: Path, settings: Settings = ALL) -> Iterator[SessionMemoryStore]:
    """Open a memory with a report, whose id is 1, and require afterwards that nothing in its folder has the secrets."""
    with SessionMemoryStore(folder / "memory.db", settings, embedder=ToyEngine()) as store:
        store.store_memory("report", "# Doors\n\nThe first of all.", session_id="s")
        yield store
        eventually(lambda: not store.is_busy)
        require_clean(folder, store)


def require_clean(folder: Path, store: SessionMemoryStore) -> None:
    """Fail if a file below a folder, or the database of a memory, has one of the secrets, in upper or lower case."""
    places = {str(file): file.read_bytes().lower() for file in folder.rglob("*") if file.is_file()}
    places |= {"name": str([*folder.rglob("*")]).lower().encode()}
    if is_in_schema(store):
        tables = "select table_name from information_schema.tables where table_schema = current_schema()"
        for (table,) in execute(store, tables):
            places[table] = repr(execute(store, f"select * from {table}")).lower().encode()
    for place, data in places.items():
        for secret in (TOKEN, HIDDEN):
            assert secret.lower().encode() not in data, place


def texts_in(tool: MemoryTool) -> list[str]:
    """Return the parameters of a tool that may hold a text."""
    known = tool.parameters["properties"].items()
    return [name for name, schema in known if any(kind in str(schema.get("type")) for kind in HOLD_TEXT)]


def calls_of(tool: MemoryTool) -> Iterator[dict[str, Any]]:
    """Yield calls of a tool that have the secrets in one parameter each, and a new text."""
    known = tool.parameters["properties"]
    for name in texts_in(tool):
        for arguments in with_text(tool, name, TEXT):
            new = {
                kept: f"# Door {next(NUMBERS)}\n\nIt is shut." for kept in KEPT if kept in arguments and kept != name
            }
            yield {"session_id": "s", **arguments, **new} if "session_id" in known else {**arguments, **new}


async def test_no_tool_stores_a_secret(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    files = FileMemory(notes, ALL, index_file=tmp_path / "index" / "i.sqlite", model=EmbeddingModel(ToyEngine))
    with files, opened(tmp_path) as store:
        kept = set()
        async with Client(create_server(lambda: nullcontext(store), OFFER, lambda: nullcontext(files))) as client:
            for tool in TOOLS:
                for arguments in calls_of(tool):
                    answer = await client.call_tool(tool.name, arguments, raise_on_error=False)
                    if not answer.is_error and any(arguments.get(name) == TEXT for name in KEPT):
                        kept.add(tool.name)
        assert kept == {tool.name for tool in TOOLS if not set(KEPT).isdisjoint(tool.parameters["properties"])}
        eventually(lambda: not files.status().indexing)


@pytest.mark.parametrize("redact", [Redact.ALL, Redact.CAPTURED])
async def test_no_hook_stores_a_secret_and_none_loses_a_text(
    tmp_path: Path, waiting: list[str], redact: Redact
) -> None:
    with opened(tmp_path, Settings(redact=redact, embedding_model="toy")) as store:
        async with Client(create_server(lambda: nullcontext(store), OFFER)) as client:
            for tool, fields, *_ in EVENTS.values():
                for name in fields:
                    event = {field: f"Door {next(NUMBERS)} is shut. {ANSWER}" for field in fields}
                    event |= {"session_id": "s", "agent_type": "explorer", "transcript_path": ""}
                    event = {field: value for field, value in event.items() if field in fields}
                    before = store.count_memories()
                    await client.call_tool(tool, event | {name: f"{TEXT} {event[name]}".strip()})
                    assert store.count_memories() == before + 1
    assert waiting
    assert not [body for body in waiting if TOKEN in body or HIDDEN in body]
    assert any(f'"{REDACTED} s"' in body for body in waiting)


@pytest.mark.sqlite("needs no memory")
async def test_a_relay_keeps_no_secret_on_the_disk(tmp_path: Path, waiting: list[str]) -> None:
    stores = [tool for tool in TOOLS if tool.name.startswith("store_") and "agent_id" in tool.parameters["properties"]]
    relay = Relay(Remote(AWAY, lambda: "vm_x"), Outbox(tmp_path / "outbox"), Redact.ALL)
    async with Client(create_relay(relay, ServerOptions())) as client:
        for tool, fields, *_ in EVENTS.values():
            await client.call_tool(tool, dict.fromkeys(fields, TEXT))
        for called in stores:
            given = {name: call[name] for name in texts_in(called) for call in with_text(called, name, TEXT)}
            names = {name: "s" for name in NAMES if name in given}
            await client.call_tool(called.name, given | names)
            for name in names:
                answer = await client.call_tool(called.name, given | names | {name: TEXT}, raise_on_error=False)
                assert "looks like a secret" in answer.structured_content["message"]
    assert {json.loads(body)["tool"] for body in waiting} == {*HOOKS, *(tool.name for tool in stores)}
    assert not [body for body in waiting if TOKEN in body or HIDDEN in body]


class Anything(dict[str, Any]):
    """The body of a request that has whatever is asked for."""

    def get(self, name: str, _default: object = None) -> Any:
        """Return the value, or else the secrets."""
        return super().get(name, TEXT)


def test_no_request_of_the_page_stores_a_secret(tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = export_with_secrets(outside).read_text()

    async def body_of(request: Any) -> Anything:
        return Anything(await request.json() or {}, lines=lines)

    monkeypatch.setattr(routes, "body_of", body_of)
    with opened(tmp_path) as store, serving(store) as ui:
        ui.enter()
        doors = routes.Edits(store, None, read_only=False).routes()  # type: ignore[arg-type]
        for route in sorted(doors, key=lambda route: "DELETE" in (route.methods or ())):
            for method in (route.methods or set()) - {"HEAD"}:
                number = 2 if route.path.endswith("/hold") else 1  # what is held back would not be changed by others
                path = route.path.removeprefix("/api/").format(memory_id=number, older_id=2)
                for body in ({}, {"tags": [TEXT]}, {"session": None}):
                    ui.change(path, method, body)
                ui.change(f"{path}?{'&'.join(f'{name}={TEXT}' for name in (*FILTERS, 'tag'))}", method, {})
        first = store.get_memory_by_id(1).memory
        assert (first.title, first.description, *first.tags) == (REDACTED,) * 3
        assert store.count_memories() > 1


def export_with_secrets(folder: Path) -> Path:
    """Write an export of a memory that has the secrets, in all but names."""
    file = folder / "export.jsonl"
    with SessionMemoryStore(folder / "open.db", embedder=ToyEngine()) as store, file.open("wb") as stream:
        given = {"title": TEXT, "description": TEXT, "tags": [TEXT], "metadata": {TEXT: [TEXT]}}
        store.store_memory("report", f"# {TEXT}\n\nDoor {next(NUMBERS)}. {TEXT}", session_id="t", **given)
        store.tagged.store(TEXT)
        store.export_memories(stream, with_vectors=True)
    return file


def texts_of(command: str) -> Iterator[str]:
    """Yield words for a command, each of which gives the secrets to an argument that is a text."""
    for argument in arguments_of(command):
        if "str" in str(argument.hint) and (argument.name, argument.parameter.help) not in filters_and_settings():
            yield TEXT if argument.index is not None else f"{argument.name}={TEXT}"


@cache
def filters_and_settings() -> set[tuple[str, str | None]]:
    """Return the names and the help of flags that only choose memories, or a place for them."""
    return {(one.name, one.parameter.help) for command in ("list", "doctor") for one in arguments_of(command)}


@cache
def arguments_of(command: str) -> ArgumentCollection:
    """Return the arguments of a command."""
    return commands.app[command].assemble_argument_collection()


def stores_texts(command: str) -> bool:
    """Return whether a command follows the setting, and is none of a server."""
    return command not in SERVERS and any("--redact" in argument.names for argument in arguments_of(command))


def test_no_command_stores_a_secret(tmp_path: Path, outside: Path, run: Run) -> None:  # noqa: F811
    docs = outside / "docs"
    docs.mkdir()
    (docs / "a.md").write_text(
        f"---\ntitle: {TEXT}\ntags: ['{TEXT}']\nnote: {TEXT}\n---\n\n# {TEXT}\n\nA door. {TEXT}\n"
    )
    (docs / f"{TOKEN}.md").write_text("A name.\n")
    needed = {"import": [export_with_secrets(outside)], "ingest": [docs], "search": ["door"], "supersede": [1, 2]}
    needed |= {
        "store": ["A door.", "--session", "s"],
        "edit": [1],
        "pin": [1],
        "unpin": [1],
        "tag": [1, "--add", "door"],
    }
    with opened(tmp_path) as store:
        for command in filter(stores_texts, commands.COMMANDS):
            for given in ["", *texts_of(command)]:
                ended = run(command, *needed.get(command, ()), *filter(None, [given]))
                assert ended.code in (0, 1, 2), ended
        first = store.get_memory_by_id(1).memory
        assert (first.title, first.description, *first.tags) == (REDACTED, REDACTED, "door")
        assert sorted(store.find_names("session_id")[0]) == ["docs", "s", "t"]


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_no_import_of_past_sessions_stores_a_secret_and_none_loses_a_text(
    tmp_path: Path,
    outside: Path,
    run: Run,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    client: str,
) -> None:
    home = shutil.copytree(TRANSCRIPTS / client, outside / client)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR" if client == "claude" else "CODEX_HOME", str(home))
    with opened(tmp_path):
        plain = run("import-sessions", "--all", "--client", client, "--dry-run", "--json").json["stored"]
        for file in home.rglob("*.jsonl"):
            lines = [with_secrets(json.loads(line)) for line in file.read_text().splitlines()]
            file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        ended = run("import-sessions", "--all", "--client", client, "--json").json
        assert ended["unread"] == []
        assert ended["stored"] == plain > 0
        assert ended["redacted"] > 1


def with_secrets(value: Any) -> Any:
    """Return a line of a transcript with the secrets in each of its texts, and in the session's id and folder."""
    match value:
        case str() if " " in value and not value.startswith("<"):
            return f"{value} {TEXT}"
        case list():
            return [with_secrets(one) for one in value]
        case dict():
            return {key: f"{one} {TEXT}" if key in NAMES_IN_LINES else with_secrets(one) for key, one in value.items()}
    return value
