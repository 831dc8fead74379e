"""Write the generated docs: `uv run python scripts/make_docs.py`; with --check only say whether they are fresh.

docs/commands.md comes from the commands' own help, docs/configuration.md from the settings, docs/tools.md from the
tools, docs/schema.md from an empty memory, src/vector_memory/server/early.json from the first answers of servers, and
plugin/hooks/hooks.json from the events of hooks; plugin/skills has a copy of the server's. What stands between marks
such as "public sets" is made of the results of benchmarks/public, in docs/connecting.md of the registry of clients,
and in docs/hooks.md of the events of hooks.
"""

import inspect
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cyclopts import Argument
from pydantic import BaseModel

from vector_memory.answers.models import Result
from vector_memory.cli import main as cli
from vector_memory.cli.arguments import MODELS, accepted, flowing
from vector_memory.cli.commands import COMMANDS, app
from vector_memory.cli.examples import examples_of
from vector_memory.clients.client import CommandHooks, FileOf, InstallScope
from vector_memory.clients.editing.hooks import added, handlers_for
from vector_memory.clients.events import EVENTS
from vector_memory.clients.registry import CLIENTS
from vector_memory.server.early import description
from vector_memory.server.tools import CURATING, by_purpose, made, offered
from vector_memory.server.tools.failures import compact
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import FileLocations, HttpOptions, ServerLocations, ServerOptions, Settings, Toolset
from vector_memory.storage.sqlite.database import Database

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "benchmarks" / "public")]

from early_answers import early_answers
from result_tables import filled

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

EARLY = ROOT / "src" / "vector_memory" / "server" / "early.json"

MEASURED = (ROOT / "README.md", DOCS / "quality.md", DOCS / "lab" / "benchmarks.md")
"""Pages with tables of measured figures, which are otherwise written by hand."""

CONNECTING, HOOKS = DOCS / "connecting.md", DOCS / "hooks.md"
"""Pages with tables made of the registry of clients and of the events of hooks, otherwise written by hand."""

PLUGIN = ROOT / "plugin"

SKILL = "skills/vector-memory/SKILL.md"
"""The skill that the server offers. The plugin has a copy, because Claude Code reads no links there."""

TABLES = {
    "schema_migrations": "The versions that the file has had.",
    "session_memories": "One row for each memory of any kind, with its text exactly as stored.",
    "memory_lifecycle": "When memories expire and are superseded, and which are pinned; only of those.",
    "supersessions": "Which memory supersedes which.",
    "file_evidence": "The files that memories are about, as paths, lines and hashes, without their text.",
    "memory_chunks": "The chunks of memories, with their place in the text.",
    "embedding_models": "The models that made vectors: one, unless it is being changed. New vectors are of one.",
    "memory_passages": "What is embedded: at least one window of each chunk, and of each memory without chunks.",
    "later_links": "Which memories are on the subject of an older one, and how much says so.",
    "provenance": "One row: a random name of this memory, and up to which id it was copied from which other one.",
    "recalls": "Which memories recaps and recalls have shown to whom, and whether they were read. Names no session.",
    "trace_keys": "The random key of the hashes in `traces`, and those of memories whose traces were taken over.",
    "traces": "What is left of deleted memories: a keyed hash of text and origin, and two times. Holds no text.",
    "canonical_tags": "The vocabulary of tagged memories: each tag, its vector, and how often it was stored.",
    "erasure": "One row: how many times something was deleted or amended, and after which the log was last emptied.",
    "pending_vectors": "One row for each memory whose vectors are to come: by whom, until when, and the attempts.",
    "upkeep": "One row: which process works on all memories, and until when.",
    "index_keys": "Numbers for the names of sessions and kinds: the tables of vectors are divided by numbers.",
    "keyword_blocks": "The keyword index: memories of one kind that share rows of postings, and their units.",
    "keyword_memories": "The block of the keyword index that has a memory's units.",
    "keyword_postings": "Which unit contains which term, and how often: 64 bits each. Holds hashes, not words.",
    "token_states": "The states of a passage's tokens: a bit for each number. Order the best results anew.",
    "vec_chunk_search": "The vectors of the passages of chunks, one partition per session.",
    "vec_session_search": "The vectors of the passages of memories that are not chunked.",
    "vec_signatures": "A bit for each number of each vector, with the unit of the passage; one partition per kind.",
}

Row = Sequence[object]


def main() -> None:
    """Write the pages, or with --check end with 1 if one of them is not what would be written."""
    pages: dict[str, Callable[[], Iterator[str]]] = {
        "commands.md": commands,
        "configuration.md": configuration,
        "tools.md": tools,
        "schema.md": schema,
    }
    texts = {EARLY: "\n".join(early_answers()) + "\n"}
    description().update(json.loads(texts[EARLY]))  # the pages show the tools that it describes
    texts |= {DOCS / name: "\n".join(lines()) + "\n" for name, lines in pages.items()}
    texts |= {page: filled(page.read_text(encoding="utf-8")) for page in MEASURED}
    texts[CONNECTING] = with_tables(CONNECTING, client_tables())
    texts[HOOKS] = with_tables(HOOKS, hook_tables())
    texts[PLUGIN / "hooks" / "hooks.json"] = plugin_hooks()
    texts[PLUGIN / SKILL] = (ROOT / "src/vector_memory/server" / SKILL).read_text(encoding="utf-8")
    stale = []
    for page, text in texts.items():
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        stale.append(page.name)
        if "--check" not in sys.argv:
            page.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"Not fresh: {', '.join(stale)}. Run: uv run python scripts/make_docs.py")
    print(f"Written: {', '.join(stale)}" if stale else "The generated docs are fresh.")


def head(title: str, source: str) -> Iterator[str]:
    """Yield a page's title and where its text comes from."""
    yield from (f"# {title}", "", f"<!-- Written by scripts/make_docs.py from {source}: change that, not this. -->", "")


def table(header: Row, rows: Sequence[Row]) -> Iterator[str]:
    """Yield a Markdown table and an empty line."""
    for row in (header, ["---"] * len(header), *rows):
        yield f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def commands() -> Iterator[str]:
    """Yield docs/commands.md."""
    yield from head("Commands", "src/vector_memory/cli")
    yield from ("```text", cli.__doc__.strip(), "```", "")
    yield (
        "Results are printed on standard output, errors on standard error, in one sentence. With `--json` an error is "
        'an object too: `{"success": false, "error": "ValidationError", "message": "..."}`. Only `serve` and `demo` '
        "start a server. Commands that only read (`show`, `sessions`, `timeline`, `stats`, `search`, `export`) create "
        "no memory where there is none, change nothing except to upgrade an older file, and do not count as reads."
    )
    yield ""
    yield (
        "The tables list the command's own arguments. [Configuration](configuration.md) describes the flags that are "
        "settings, and their variables. Commands that use a memory accept `--database-path`, `--working-dir` and "
        "`--database-url`."
    )
    yield ""
    for name in COMMANDS:
        arguments = [argument for argument in app[name].assemble_argument_collection() if argument.show]
        own = [argument for argument in arguments if not is_setting(argument) and argument.name != "*"]
        settings = [code(argument.name) for argument in arguments if is_setting(argument)]
        yield from (f"## {name}", "", flowing(app[name].help), "")
        if own:
            yield from table(["Argument", "Default", "Meaning"], [row(argument) for argument in own])
        if settings:
            yield from (f"Settings: {', '.join(settings) if own else '[all](configuration.md)'}.", "")
        lines = inspect.cleandoc(examples_of(name).removeprefix("Examples:\n")).splitlines()
        yield from ("```text", *lines, "```", "")


def with_tables(page: Path, tables: Mapping[str, Iterator[str]]) -> str:
    """Return the text of a page with each table between the marks that name it."""
    text = page.read_text(encoding="utf-8")
    for mark, lines in tables.items():
        begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->"
        before, _, rest = text.partition(begin)
        text = before + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2]
    return text


def hook_tables() -> dict[str, Iterator[str]]:
    """Return the tables of docs/hooks.md."""
    heads = ("When", "What is stored, under the client's session", "What the agent receives")
    tools = [(code(event.tool), ", ".join(map(code, event.fields))) for event in EVENTS.values()]
    return {
        "hook events": table(heads, [(event.when, event.stored, event.received) for event in EVENTS.values()]),
        "hook tools": table(("Tool", "Arguments"), tools),
        "command hooks": table(
            ("Client", "Stored", "Where", "The agent receives"),
            [
                (
                    code(name),
                    said_by(hooks),
                    file_in(client.hooks, InstallScope.USER),
                    RECALLED[hooks.answer is not None],
                )
                for name, client in CLIENTS.items()
                if (hooks := client.command_hooks)
            ],
        ),
    }


RECALLED = {True: "recap, recall", False: "nothing: it reads no context"}


def said_by(hooks: CommandHooks) -> str:
    """Return what a client's hooks report."""
    reported = {"prompt": "prompts", "answer": "answers", "subagent": "sub-agents' reports", "compaction": "summaries"}
    return ", ".join(what for event, what in reported.items() if event in hooks.events)


def plugin_hooks() -> str:
    """Return the hooks of the plugin, which call the server that it starts."""
    name = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text(encoding="utf-8"))["name"]
    [server] = json.loads((PLUGIN / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    purpose = "Stores prompts, answers, reports of sub-agents and summaries, and adds a recap to a new session"
    hooks = added({}, "", handlers_for(f"plugin:{name}:{server}"))
    return json.dumps({"description": purpose, **hooks}, indent=2) + "\n"


def client_tables() -> dict[str, Iterator[str]]:
    """Return the tables of docs/connecting.md."""
    support = [
        (
            code(name),
            client.title,
            "tools, [hooks](hooks.md)" if client.hooks else "tools",
            "yes" if client.sessions else "",
            client.longest_answer,
            client.seen or "never run here",
            client.traps,
        )
        for name, client in CLIENTS.items()
    ]
    heads = ("Client", "Name", "Adds", "Past sessions", "Of an answer the model gets", "Seen with", "To know")
    files = [
        (
            code(name),
            *(file_in(client.files, scope) + file_in(client.hooks, scope, "hooks: ") for scope in InstallScope),
        )
        for name, client in CLIENTS.items()
    ]
    return {
        "clients": table(heads, support),
        "client files": table(("Client", "`--user`", "`--project`"), files),
    }


def file_in(files: Mapping[InstallScope, FileOf], scope: InstallScope, what: str = "") -> str:
    """Return the name of a client's file, if it has one in this scope."""
    if scope not in files:
        return ""
    with unnamed_homes():
        path = str(files[scope](Path())).replace(str(Path.home()), "~")
    return f"{what and ', ' + what}{code(path)}"


@contextmanager
def unnamed_homes() -> Iterator[None]:
    """Leave out the variables of this machine that name folders of clients."""
    kept = dict(os.environ)
    for name in kept:
        if name != "HOME" and name.endswith(("_HOME", "_DIR")):
            del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(kept)


def is_setting(argument: Argument) -> bool:
    """Return whether docs/configuration.md describes this flag."""
    fields = [model.model_fields.get(argument.name.removeprefix("--").replace("-", "_")) for model in MODELS]
    return argument.parameter.help in {field.description for field in fields if field}


def row(argument: Argument) -> Row:
    """Return the row of a command's own flag, or of what stands without one."""
    names = [name for name in argument.names if not name.startswith(("--no-", "--empty-"))] or argument.names
    default = argument.field_info.default
    shown = value(default) if argument.show_default and not isinstance(default, bool | type) else ""
    choices = ", ".join(map(code, argument.get_choices() or ()))
    meaning = f"{argument.parameter.help} One of {choices}." if choices else argument.parameter.help
    return [", ".join(map(code, names)), "required" if argument.required else shown, meaning]


def configuration() -> Iterator[str]:
    """Yield docs/configuration.md."""
    yield from head("Configuration", "src/vector_memory/settings/")
    yield (
        "Flags are those of `vector-memory serve`. A flag overrides its environment variable, and that overrides the "
        "default. An empty variable counts as not set. An invalid flag stops the start with a message, and so does an "
        "invalid variable that sets a location or the tools; any other prints a warning, and the default is used."
    )
    yield from ("", "## Where the memory is", "")
    yield from options(ServerLocations, has_defaults=False)
    yield (
        "Give at most one of `--database-path`, `--working-dir` and `--database-url`; with a URL, `--working-dir` says "
        "where exports are written. `~` is expanded. Only their owner can access the file and its folder. "
        "[PostgreSQL as the store](postgresql.md)."
    )
    yield from ("", "## Where the Markdown files are", "")
    yield from options(FileLocations, "CWE_", has_defaults=False)
    yield "They apply with `--toolsets files`: [memory files](files.md)."
    yield from ("", "## What the server offers", "")
    yield from options(ServerOptions)
    yield "All are fixed at start. The tools of each family: [tools](tools.md)."
    yield from ("", "## How clients reach the server", "")
    yield from options(HttpOptions)
    yield "They apply with `--http`: [one memory for a team](http.md)."
    yield from ("", "## Settings", "")
    yield from table(
        ["Flag", "Variable", "Default", "Accepted", "Meaning"],
        [
            [flag(name), code(name.upper()), value(field.default), accepted(name), field.description]
            for name, field in Settings.model_fields.items()
        ],
    )
    yield (
        "A switch is `--name`, `--no-name` or `--name=false`. The model is looked up in the Hugging Face cache "
        "(`HF_HOME`, `HF_HUB_CACHE`), the table of cl100k_base tokens where tiktoken keeps it "
        "(`TIKTOKEN_CACHE_DIR`). A `.env` file and `FASTMCP_*` variables are ignored."
    )


def options(described: type[BaseModel], prefix: str = "VECTOR_MEMORY_", *, has_defaults: bool = True) -> Iterator[str]:
    """Yield a table of options, with their flags and variables."""
    rows = [
        [flag(name), code(f"{prefix}{name.upper()}"), *[value(field.default)] * has_defaults, field.description]
        for name, field in described.model_fields.items()
    ]
    return table(["Flag", "Variable", *["Default"] * has_defaults, "Meaning"], rows)


def flag(name: str) -> str:
    """Return the flag of a setting."""
    return code(f"--{name.replace('_', '-')}")


def code(text: object) -> str:
    """Return a text as Markdown code."""
    return f"`{text}`"


def value(default: object) -> str:
    """Return a default as one would write it."""
    return "" if default is None else code(str(default).lower() if isinstance(default, bool) else default)


def tools() -> Iterator[str]:
    """Yield docs/tools.md."""
    yield from head("Tools", "src/vector_memory/server/tools")
    yield (
        "Optional parameters may be left out or null. Every answer has `success` (boolean), `message` and `error` "
        "(strings). A failed call is also marked as an error by the protocol, and `message` says what to do."
    )
    yield ""
    for toolset in Toolset:
        yield (
            f"`--toolsets {toolset}` offers {len(offered([toolset]))} tools, with `--read-only` "
            f"{len(offered([toolset], read_only=True))} of them:"
        )
        yield from ("", *(f"- {title}: {names(members)}" for title, members in by_purpose(toolset).items()), "")
    curating = {"Curating": tuple(map(made, CURATING))}
    yield from (f"`--toolsets all` also offers {names(curating['Curating'])}.", "")
    for title, members in (group for groups in (*map(by_purpose, Toolset), curating) for group in groups.items()):
        yield from (f"## {title}", "")
        for tool in members:
            yield from one_tool(tool)
    yield from ("## Answers", "")
    for name, answer in sorted(answers().items()):
        yield from (f"### {name}", "", answer["description"], "")
        yield from table(
            ["Key", "Type", "Meaning"],
            [
                [code(key), type_name(schema), schema.get("description", "")]
                for key, schema in answer["properties"].items()
                if key not in Result.model_fields
            ],
        )


def names(tools: Sequence[MemoryTool]) -> str:
    """Return the names of tools, with links."""
    return ", ".join(f"[{tool.name}](#{tool.name})" for tool in tools)


def answers() -> dict[str, dict[str, Any]]:
    """Return the JSON schemas of all answers and their parts by name."""
    found: dict[str, dict[str, Any]] = {}
    for tool in offered(tuple(Toolset)):
        schema = compact(tool.result_model.model_json_schema())
        found |= schema.pop("$defs", {}) | {tool.result_model.__name__: schema}
    return found


def one_tool(tool: MemoryTool) -> Iterator[str]:
    """Yield the section of a tool."""
    model = tool.result_model.__name__
    yield from (f"### {tool.name}", "", f"**{tool.title}.** {tool.description}", "")
    required = tool.parameters.get("required", [])
    yield from table(
        ["Parameter", "Type", "", "Meaning"],
        [
            [code(name), type_name(schema), "required" if name in required else preset(schema), schema["description"]]
            for name, schema in tool.parameters["properties"].items()
        ],
    )
    yield from (f"Answer: [{model}](#{model.lower()})", "")


def preset(schema: dict[str, Any]) -> str:
    """Say what a parameter is when it is left out."""
    return f"default {value(schema['default'])}" if "default" in schema else ""


def type_name(schema: dict[str, Any]) -> str:
    """Return a JSON schema's type in words; that null is allowed goes without saying."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.rsplit("/", 1)[-1]
            return f"[{name}](#{name.lower()})"
        case {"anyOf": list(arms)}:
            return " or ".join(name for arm in arms if (name := type_name(arm)) != "null")
        case {"enum": list(values)}:
            return " or ".join(f'"{value}"' for value in values)
        case {"items": dict(items)}:
            return f"list of {type_name(items)}"
        case {"type": list(types)}:
            return " or ".join(name for name in types if name != "null")
        case _:
            return f'"{schema["const"]}"' if "const" in schema else str(schema["type"])


def schema() -> Iterator[str]:
    """Yield docs/schema.md."""
    yield from head("Database", "src/vector_memory/storage/sqlite/schema.py")
    yield (
        "One SQLite file in WAL mode. The stored texts are in `session_memories`; chunks, passages, vectors and "
        "keywords can be rebuilt from them. The tables in which vec0 keeps its own data are left out."
    )
    yield ""
    entries = master_entries()
    for kind, name, sql in entries:
        if kind in ("table", "view"):
            yield from (f"## {name}", "", TABLES[name], "", "```sql", sql, "```", "")
    for kind, title in (("index", "Indexes"), ("trigger", "Triggers")):
        yield from (f"## {title}", "", "```sql", *(f"{sql};" for other, _, sql in entries if other == kind), "```", "")


def master_entries() -> list[tuple[str, str, str]]:
    """Return kind, name and SQL of everything in an empty memory that we made ourselves, in that order."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder, "memory.db"), dimensions=Settings().embedding_dim)
        with database.read() as connection:
            rows = list(connection.execute("select type, name, sql from sqlite_master where sql is not null"))
        database.close()
    virtual = tuple(f"{name}_" for _, name, sql in rows if sql.lower().startswith("create virtual"))
    return [(kind, name, sql) for kind, name, sql in rows if not name.startswith(("sqlite_", *virtual))]


if __name__ == "__main__":
    main()
