"""The commands of the command line, one module per group, imported when a command runs.

They are listed in the order of `vector-memory --help`. To add a command, add a function to the module of its group, a
line here, and a line in `cli/main.py`.
"""

from cyclopts import App, Parameter

from vector_memory import __version__
from vector_memory.cli.arguments import fill_from_environment
from vector_memory.cli.examples import examples_of

VARIABLES_HELP = (
    "Every setting of `vector-memory serve --help` is accepted as a flag or as an environment variable: --log-level is "
    "VECTOR_MEMORY_LOG_LEVEL. Flags take precedence."
)
LOCATION_HELP = "Another memory: --database-path FILE, --working-dir DIR or --database-url URL."
SWITCHES_HELP = "--no- turns a switch off, as in --no-warm-start-embedding-model."

COMMANDS = {
    "serve": "serve:serve",
    "install": "install:install",
    "uninstall": "install:uninstall",
    "ui": "serve:ui",
    "demo": "serve:demo",
    "store": "ingest:store_",
    "ingest": "ingest:ingest",
    "search": "search:search",
    "list": "show:list_",
    "show": "show:show",
    "sessions": "show:sessions",
    "timeline": "show:timeline",
    "stats": "show:stats",
    "review": "show:review",
    "verify": "show:verify",
    "report": "vector_memory.extras.window.commands:report",
    "export": "transfer:export",
    "import": "transfer:import_",
    "copy": "transfer:copy",
    "import-sessions": "transfer:import_sessions",
    "supersede": "curate:supersede",
    "quarantine": "maintain:quarantine",
    "undo": "maintain:undo",
    "delete": "maintain:delete",
    "pin": "curate:pin",
    "unpin": "curate:unpin",
    "edit": "curate:edit",
    "tag": "curate:tag",
    "cleanup": "maintain:cleanup",
    "backfill": "maintain:backfill",
    "reembed": "maintain:reembed",
    "models": "maintain:models",
    "doctor": "doctor:doctor",
    "backup": "maintain:backup",
    "restore": "maintain:restore",
    "database": "vector_memory.extras.teams.commands:database",
    "namespace": "vector_memory.extras.teams.commands:namespace",
    "token": "vector_memory.extras.teams.commands:token",
    "audit": "vector_memory.extras.teams.commands:audit",
    "fetch-model": "maintain:fetch_model",
    "completion": "maintain:completion",
    "hook": "hook:hook",
}
"""Each command with its module, in this package or an extra, and its function."""

app = App(
    name="vector-memory",
    version=__version__,
    config=fill_from_environment,
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
)

WITHOUT_MEMORY = {
    *("serve", "install", "uninstall", "demo", "copy", "models", "fetch-model", "completion"),
    *("database", "namespace", "token", "audit"),
}
"""Commands that use no memory, or name it in a way of their own."""

WITHOUT_SETTINGS = {"install", "uninstall", "copy", "completion"}
"""Commands that accept no settings."""

for _name, _function in COMMANDS.items():
    _notes = f"{SWITCHES_HELP}\n\n{VARIABLES_HELP}" if _name == "serve" else VARIABLES_HELP
    _notes = _notes if _name in WITHOUT_MEMORY else f"{LOCATION_HELP}\n\n{_notes}"
    _notes = "" if _name in WITHOUT_SETTINGS else _notes
    _place = _function if "." in _function else f"{__name__}.{_function}"
    app.command(_place, name=_name, help_epilogue=f"{examples_of(_name)}\n\n{_notes}")
