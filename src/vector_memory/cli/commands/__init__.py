"""The commands of the command line, one module per group, imported when a command runs.

They are listed in the order of `vector-memory --help`. To add a command, add a function to the module of its group, a
line here, and a line in `cli/main.py`.
"""

from cyclopts import App, Parameter

from vector_memory import __version__
from vector_memory.cli.arguments import fill_from_environment

VARIABLES_HELP = (
    "Every setting is also an environment variable: --default-chunk-size is VECTOR_MEMORY_DEFAULT_CHUNK_SIZE. Flags "
    "take precedence."
)

COMMANDS = {
    "serve": "serve:serve",
    "demo": "serve:demo",
    "ingest": "ingest:ingest",
    "search": "search:search",
    "show": "show:show",
    "sessions": "show:sessions",
    "timeline": "show:timeline",
    "stats": "show:stats",
    "report": "report:report",
    "export": "transfer:export",
    "import": "transfer:import_",
    "delete": "maintain:delete",
    "backfill": "maintain:backfill",
    "reembed": "maintain:reembed",
    "doctor": "maintain:doctor",
    "backup": "maintain:backup",
    "restore": "maintain:restore",
    "fetch-model": "maintain:fetch_model",
    "completion": "completion:completion",
}
"""Each command with its module in this package and its function."""

app = App(
    name="vector-memory",
    version=__version__,
    config=fill_from_environment,
    help_format="plaintext",
    default_parameter=Parameter(negative_iterable=()),
)

for _name, _function in COMMANDS.items():
    app.command(f"{__name__}.{_function}", name=_name, help_epilogue=VARIABLES_HELP)
