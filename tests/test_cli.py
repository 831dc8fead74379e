"""The command line: flags, variables, refusals, and what it does not import."""

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console

import vector_memory.embedding.weights
import vector_memory.server.app
from forked import finished
from memory_files import Modelless
from vector_memory import __version__
from vector_memory.cli import arguments, commands
from vector_memory.cli.commands import serve as serving
from vector_memory.cli.examples import EXAMPLES
from vector_memory.settings import (
    SPECIFIED,
    FileLocations,
    HttpOptions,
    ServerLocations,
    ServerOptions,
    Settings,
    Toolset,
)
from vector_memory.store import SessionMemoryStore

COMMANDS = tuple(commands.COMMANDS)
OUR_VARIABLES = [
    f"VECTOR_MEMORY_{name.upper()}"
    for name in [
        *Settings.model_fields,
        *ServerLocations.model_fields,
        *ServerOptions.model_fields,
        *HttpOptions.model_fields,
        *FileLocations.model_fields,
    ]
] + [name.upper() for name in sorted(SPECIFIED)]

IGNORED = {
    "DEFAULT_CHUNK_SIZE": ("3", "an integer from 32 to 8192"),
    "LOG_LEVEL": ("trace", "DEBUG, INFO, WARNING or ERROR"),
    "VECTOR_MEMORY_ENABLE_ENRICHMENT": ("maybe", "true or false (1 or 0, yes or no)"),
    "VECTOR_MEMORY_MEMORY_LIMIT": ("512M", "an integer from 1 to 10000000"),
    "VECTOR_MEMORY_SEARCH_MODE": ("semantic", "hybrid, vector or keyword"),
    "VECTOR_MEMORY_LOG_FILE": ("~no-such-user/x", "a path"),
    "EMBEDDING_DIM": ("512", "an integer from 1 to 8192"),
}

REFUSED = [
    (["--default-chunk-size", "3"], {}, '--default-chunk-size is "3"; accepted: an integer from 32 to 8192.'),
    (["--default-chunk-size=many"], {}, '--default-chunk-size is "many"; accepted: an integer from 32 to 8192.'),
    (["--default-chunk-size"], {}, "--default-chunk-size needs a value: an integer from 32 to 8192."),
    ([], {"VECTOR_MEMORY_READ_ONLY": "treu"}, 'VECTOR_MEMORY_READ_ONLY is "treu"; accepted: true or false'),
    (["--search-mode", "foo"], {}, '--search-mode is "foo"; accepted: hybrid, vector or keyword.'),
    (["--read-only", "maybe"], {}, '--read-only is "maybe"; accepted: true or false (1 or 0, yes or no).'),
    (["--enable-enrichment", "maybe"], {}, '--enable-enrichment is "maybe"; accepted: true or false'),
    (["--similarity-threshold", "2"], {}, '--similarity-threshold is "2"; accepted: a number from 0 to 1.'),
    (
        ["--log-file", "~no-such-user/x"],
        {},
        '--log-file is "~no-such-user/x": its ~ cannot be expanded to a home folder.',
    ),
    (["--database-path", "${DB}"], {}, "it contains a ${variable} that the client did not expand."),
    ([], {"VECTOR_MEMORY_WORKING_DIR": "${DIR}"}, 'VECTOR_MEMORY_WORKING_DIR is "${DIR}": it contains a ${variable}'),
    (["--default-chunk-size", "60"], {"DEFAULT_CHUNK_OVERLAP": "40"}, "default_chunk_overlap (40) must be at most"),
    (["--database-path", "a", "--working-dir", "b"], {}, "Use either --database-path or --working-dir"),
    (["--database-path", ""], {}, "--database-path is empty: give it a value or omit it."),
    (["--embedding-modle", "x"], {}, "Unknown option: --embedding-modle. Did you mean --embedding-model?"),
    (["--log-level", "INFO", "--log-level", "DEBUG"], {}, "--log-level specified multiple times."),
    (["sevre"], {}, 'Unknown command "sevre". Did you mean "serve"? Run `vector-memory --help` to list'),
    *(
        ([word], {}, f'Unknown command "{word}". Run `vector-memory --help` to list the commands.')
        for word in ("restor", "delte", "clenup", "unistall", "remove", "sessoin")
    ),
    (["restore", "copy.db", "--overwite"], {}, "Unknown option: --overwite. Run `vector-memory restore --help`"),
    (["show", "1", "--sessions"], {}, "Unknown option: --sessions. Run `vector-memory show --help`"),
    (["serve", "--toolsets", "session,chess"], {}, '--toolsets is "session,chess": choose from session, tagged, files'),
    (["--", "serve"], {}, 'Unexpected argument "serve": see'),
    (["show"], {}, "MEMORY_ID is required: `vector-memory show MEMORY_ID`. See `vector-memory show --help`."),
    (["search", ""], {}, "QUERY is empty: give it a value."),
    (["completion"], {}, "SHELL (bash, zsh or fish) is required: `vector-memory completion SHELL`."),
    (["completion", "nosh"], {}, 'SHELL is "nosh"; accepted: bash, zsh or fish.'),
    (["timeline", "s", "--kind", "gossip"], {}, '--kind is "gossip"; accepted: session_context, input_prompt, '),
    (["serve", "memory.db"], {}, 'Unexpected argument "memory.db": see'),
    (["demo", "--limit", "few"], {}, '--limit is "few"; accepted: an integer.'),
    (["demo", "--limit", "1.5"], {}, '--limit is "1.5"; accepted: an integer.'),
    (["cleanup", "--days", "0.4"], {}, '--days is "0.4"; accepted: an integer.'),
    (["cleanup", "--days", "many"], {}, '--days is "many"; accepted: an integer.'),
    (["ingest", "x", "--ttl-days", "true"], {}, '--ttl-days is "true"; accepted: a number.'),
    (["demo", "--limit", "0"], {}, "--limit"),
]


class Served(NamedTuple):
    """What the server was started with."""

    path: Path
    settings: Settings
    export_folders: Sequence[Path]
    offer: ServerOptions


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Served]:
    """Collect what `serve` would have served."""
    calls: list[Served] = []
    monkeypatch.delenv("VECTOR_MEMORY_OWN_MEMORIES")  # other tests leave out what this user's clients remember
    monkeypatch.setattr(serving, "set_up_logging", lambda *_: None)
    monkeypatch.setattr(serving, "early_client", lambda *_: None)
    monkeypatch.setattr(vector_memory.server.app, "run_server", lambda *given: calls.append(Served(*given[:4])))
    return calls


def serve(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.run(commands.app, words)
    assert ended.value.code == 0


def run(*words: object, env: dict[str, str] | None = None, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own; `code` is run instead of it, in one that has imported nothing."""
    if not code:
        return finished(*words, env={**os.environ, **(env or {})})
    start = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(start, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [[], ["serve"]], ids=["no command", "serve"])
def test_no_command_is_serve(command: list[str], served: list[Served], tmp_path: Path) -> None:
    """`--database-path X` alone starts the server on X, as the specification writes it."""
    serve(*command, "--database-path", str(tmp_path / "x.db"))
    assert served == [Served(tmp_path / "x.db", Settings(), [tmp_path / "exports"], ServerOptions())]


def test_flags_and_variables_become_settings(served: list[Served], monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting comes from its flag, else from its variable, else from its default."""
    monkeypatch.setenv("DEFAULT_CHUNK_SIZE", "300")
    monkeypatch.setenv("VECTOR_SEARCH_BATCH_SIZE", "7")
    monkeypatch.setenv("LOG_SLOW_QUERY_THRESHOLD", "0.5")
    serve("--default-chunk-size", "200", "--max-response-tokens=600")
    assert served[0].settings == Settings(
        default_chunk_size=200, vector_search_batch_size=7, log_slow_query_threshold=0.5, max_response_tokens=600
    )


@pytest.mark.parametrize("name", IGNORED)
def test_a_variable_that_cannot_be_used_is_ignored_with_a_warning(
    name: str, served: list[Served], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A value that another program means, or a typing error, does not keep the memory from starting."""
    value, accepted = IGNORED[name]
    monkeypatch.setenv(name, value)
    serve()
    assert served[0].settings == Settings()
    warning = f'vector-memory: {name} is "{value}"; accepted: {accepted}. Using the default instead.\n'
    assert capsys.readouterr().err == warning


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        # of two settings that exclude each other none is kept; others are
        ("DEFAULT_CHUNK_SIZE=100 VECTOR_MEMORY_DEFAULT_CHUNK_OVERLAP=60 LOG_LEVEL=error", Settings(log_level="ERROR")),
        # the prefixed one wins; a common name that the specification does not have means nothing
        ("LOG_LEVEL=ERROR VECTOR_MEMORY_LOG_LEVEL=DEBUG MEMORY_LIMIT=5", Settings(log_level="DEBUG")),
        ("EMBEDDING_MODEL=other", Settings(embedding_model="other")),
    ],
    ids=["exclude each other", "prefixed", "the specification's"],
)
def test_several_variables_become_settings(
    variables: str, expected: Settings, served: list[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in variables.split():
        monkeypatch.setenv(*variable.split("="))
    serve()
    assert served[0].settings == expected


@pytest.mark.parametrize("name", OUR_VARIABLES)
def test_empty_variable_counts_as_not_set(
    name: str, served: list[Served], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A client that fills in `${VAR:-}` with nothing changes nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, "")
    serve()
    path = tmp_path / "memory" / "agent_session_memory.db"
    assert served == [Served(path, Settings(), [path.parent / "exports"], ServerOptions())]


@pytest.mark.parametrize(
    ("variable", "value", "address"),
    [
        ("VECTOR_MEMORY_DATABASE_URL", "postgresql:///one", "postgresql://localhost/one"),
        ("VECTOR_MEMORY_DATABASE_PATH", "/tmp/one.db", "/tmp/one.db"),  # noqa: S108 - nothing is opened
    ],
)
def test_the_location_may_come_from_a_variable_and_a_flag_overrides_it(
    served: list[Served], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str, address: str
) -> None:
    """A file, a folder or the address of a database; documents stay in the project. No common name has a meaning."""
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))
    monkeypatch.setenv("DATABASE_PATH", "/elsewhere")
    monkeypatch.setenv(variable, value)
    serve()
    serve("--database-url", "postgresql:///other")
    serve("--database-path", str(tmp_path / "x.db"))
    serve("--working-dir", str(tmp_path))
    assert [str(one.path) for one in served] == [
        address, "postgresql://localhost/other", f"{tmp_path}/x.db", f"{tmp_path}/memory/agent_session_memory.db",
    ]  # fmt: skip
    assert served[1].export_folders == [tmp_path / "memory" / "exports"]


@pytest.mark.parametrize("word", ["true", "1", "yes", "TRUE", "Yes"])
@pytest.mark.parametrize("opposite", [False, True], ids=["on", "off"])
def test_switches_take_words(word: str, opposite: bool, served: list[Served], monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch can be given as a variable, with `=`, or as a flag and a word."""
    if opposite:
        word = {"true": "false", "1": "0", "yes": "no", "TRUE": "FALSE", "Yes": "No"}[word]
    serve(f"--enable-enrichment={word}")
    serve("--enable-enrichment", word)
    monkeypatch.setenv("VECTOR_MEMORY_ENABLE_ENRICHMENT", word)
    serve()
    assert [call.settings.enable_enrichment for call in served] == [not opposite] * 3


def test_switches_need_no_word(served: list[Served]) -> None:
    """`--x` is on and `--no-x` is off."""
    serve("--enable-enrichment", "--no-warm-start-embedding-model")
    assert served[0].settings == Settings(enable_enrichment=True, warm_start_embedding_model=False)


@pytest.mark.parametrize(("words", "variables", "sentence"), REFUSED)
def test_refusal_names_what_is_wrong_and_what_is_accepted(
    words: list[str], variables: dict[str, str], sentence: str, served: list[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag or variable that cannot be understood is refused in one line, and nothing is served."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(arguments.UsageError) as refused:
        arguments.run(commands.app, words)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not served


@pytest.mark.parametrize(
    ("words", "variables"),
    [(["--embedding-dim", "0"], {}), ([], {"VECTOR_MEMORY_READ_ONLY": "treu"}), (["--nope"], {}), (["nope"], {})],
)
def test_invalid_arguments_exit_with_2(words: list[str], variables: dict[str, str]) -> None:
    """The process says one sentence on standard error, nothing on standard output, and ends with 2."""
    ended = run(*words, env=variables)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(r"vector-memory: [^\n]+\n", ended.stderr)


def test_a_failure_at_start_exits_with_1(tmp_path: Path) -> None:
    """A file that is no database is named as that in one sentence, and the process ends with 1."""
    not_a_database = tmp_path / "notes.txt"
    not_a_database.write_text("These are notes, and long enough for a header. " * 100)
    ended = run("list", "--database-path", not_a_database)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-1] == (
        "vector-memory: The file is not an SQLite database: choose another --database-path. "
        f"The file is {not_a_database}."
    )
    assert "Traceback" not in ended.stderr


def test_log_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """A log file in the place of a folder is refused at start."""
    ended = run("--log-file", tmp_path, "--database-path", tmp_path / "x.db")
    assert ended.returncode == 2
    assert "The log file cannot be opened (Is a directory): choose another --log-file." in ended.stderr
    assert not (tmp_path / "x.db").exists()


def test_help_names_every_command() -> None:
    """`--help` lists the commands there are, and each of them has help of its own."""
    text = run("--help").stdout
    listed = re.findall(r"^  ([a-z][a-z-]*) ", text, re.MULTILINE)
    assert tuple(listed) == COMMANDS == tuple(name for name in commands.app if not name.startswith("-"))
    assert run("-h").stdout == text


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`COMMAND --help` ends with 0 and says on standard output what the command does."""
    serve(command, "--help")
    assert f"Usage: vector-memory {command}" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_shows_examples_that_it_understands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help fits a terminal of 80 columns and a screen and a half; every example can be run as it stands."""
    with pytest.raises(SystemExit):
        commands.app([command, "--help"], console=Console(width=80))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert command == "serve" or len(lines) <= 70
    for line in EXAMPLES[command]:
        words = shlex.split(line.rpartition("vector-memory ")[2].partition(">")[0].rstrip(')"'))
        function, bound, _ = commands.app.parse_args(words, exit_on_error=False, print_error=False)
        assert (function.__name__.strip("_"), bound is not None) == (command.replace("-", "_"), True)


def test_flags_that_name_the_memory_take_one_line_of_a_commands_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("stats", "ingest", "doctor"):
        serve(command, "--help")
        lines = [line for line in capsys.readouterr().out.splitlines() if "--database-path" in line]
        assert lines == [commands.LOCATION_HELP]


def test_help_is_wrapped_once_however_narrow_the_terminal_is() -> None:
    for columns in (50, 66):
        said = run("ingest", "--help", env={"COLUMNS": str(columns)}).stdout.split("Arguments")[0]
        text = " ".join(inspect.cleandoc(commands.app["ingest"].help).split("\n\n")[1].split())
        assert "\n".join(line.rstrip() for line in said.splitlines()).count("\n".join(textwrap.wrap(text, columns)))


def test_a_switch_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Its opposite is accepted, but in a list it would only be a long word that is broken anywhere."""
    serve("serve", "--help")
    text = capsys.readouterr().out
    assert "--no-warm-start-embedding-model" in text
    assert text.count("--no-") == 2


def test_help_of_serve_lists_every_flag() -> None:
    """No setting is hidden."""
    text = run("serve", "--help", env={"COLUMNS": "200"}).stdout
    for name in [*Settings.model_fields, *ServerLocations.model_fields, *ServerOptions.model_fields]:
        assert f"--{name.replace('_', '-')}" in text


def test_export_folders_come_from_flags_or_from_a_variable_that_holds_several(
    served: list[Served], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The flag wins; the default is a folder beside the memory."""
    monkeypatch.chdir(tmp_path)
    serve("serve")
    monkeypatch.setenv("VECTOR_MEMORY_EXPORT_DIR", f"/shared{os.pathsep}out{os.pathsep}")
    serve("serve")
    serve("serve", "--export-dir", "a", "--export-dir", "b")
    assert [[str(folder) for folder in one.export_folders] for one in served] == [
        [f"{tmp_path}/memory/exports"],
        ["/shared", f"{tmp_path}/out"],
        [f"{tmp_path}/a", f"{tmp_path}/b"],
    ]


def test_toolsets_and_read_only_come_from_flags_and_variables(
    served: list[Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag, which wins, or a variable chooses the toolsets; the default is the session family."""
    serve("serve")
    monkeypatch.setenv("VECTOR_MEMORY_TOOLSETS", "tagged, session")
    monkeypatch.setenv("VECTOR_MEMORY_READ_ONLY", "true")
    serve("serve")
    serve("serve", "--toolsets", "all", "--read-only", "false")
    assert [(one.offer.chosen(), one.offer.read_only) for one in served] == [
        ((Toolset.SESSION,), False),
        ((Toolset.SESSION, Toolset.TAGGED), True),
        (tuple(Toolset), False),
    ]


def test_version_is_the_packages() -> None:
    """`--version` prints the version and nothing else."""
    assert run("--version").stdout == f"{__version__}\n" == run("-V").stdout


def test_help_can_be_asked_for_as_a_command() -> None:
    """As many programs have it."""
    assert run("help").stdout == run("--help").stdout
    assert run("help", "stats").stdout == run("stats", "--help").stdout


@pytest.mark.parametrize(
    ("words", "not_imported"),
    [
        (["--help"], {"cyclopts", "pydantic", "rich", "fastmcp", "mcp", "onnxruntime", "apsw", "numpy"}),
        (["--nope"], {"fastmcp", "mcp", "onnxruntime", "apsw", "numpy"}),
    ],
)
def test_arguments_are_read_before_anything_heavy_is_imported(words: list[str], not_imported: set[str]) -> None:
    """Help and refusals do not wait for the server's libraries."""
    code = (
        "import json, sys\n"
        "from vector_memory.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.stdout.write('\\n' + json.dumps(sorted(sys.modules)))\n"
    )
    imported: list[str] = json.loads(run(*words, code=code).stdout.splitlines()[-1])
    assert "vector_memory.cli.main" in imported
    assert not_imported.isdisjoint(imported)


def test_backfill_computes_missing_vectors(tmp_path: Path) -> None:
    """Memories stored without a model can be found by meaning after a backfill; a second one has nothing to do."""
    with SessionMemoryStore(tmp_path / "x.db", embedder=Modelless()) as store:
        store.store_memory("report", "# Cats\n\nThe cat sleeps.", session_id="s", agent_id="a")
    done = [run("backfill", "--database-path", tmp_path / "x.db", "--embedding-model", "toy") for _ in range(2)]
    assert [ended.returncode for ended in done] == [0, 0]
    assert "Indexed 1 memory with 1 chunk; 0 remaining." in done[0].stdout
    assert "Indexed 0 memories with 0 chunks; 0 remaining." in done[1].stdout


def test_backfill_creates_no_memory(tmp_path: Path) -> None:
    """A mistyped path is said and not turned into an empty memory."""
    ended = run("backfill", "--database-path", tmp_path / "typo.db")
    assert ended.returncode == 2
    assert f"There is no memory at {tmp_path / 'typo.db'}" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_fetch_model_says_where_the_model_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each step of the download is a line, and the last one is the folder."""

    def fetch(say: Any) -> Path:
        say("a step")
        return tmp_path

    monkeypatch.setattr(vector_memory.embedding.weights, "download_model", fetch)
    serve("fetch-model")
    assert capsys.readouterr().out == f"a step\nThe model is in {tmp_path}\n"
