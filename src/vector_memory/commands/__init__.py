"""The commands of the command line, one module for each group of them, imported when one of them is run.

The order is that of `vector-memory --help`. A new command is a function in the module of its group, a line here, and a
line in `cli.py`.
"""

from cyclopts import App, Parameter

from vector_memory import __version__
from vector_memory.arguments import fill_from_environment

VARIABLES_HELP = (
    "Every setting is also an environment variable: --default-chunk-size is DEFAULT_CHUNK_SIZE, and --database-path "
    "and --working-dir are VECTOR_MEMORY_DATABASE_PATH and VECTOR_MEMORY_WORKING_DIR. A flag wins."
)

COMMANDS = {
    "serve": "serving:serve",
    "demo": "serving:demo",
    "ingest": "ingesting:ingest",
    "search": "searching:search",
    "show": "looking:show",
    "sessions": "looking:sessions",
    "timeline": "looking:timeline",
    "stats": "looking:stats",
    "report": "reporting:report",
    "export": "moving:export",
    "import": "moving:import_",
    "delete": "upkeep:delete",
    "backfill": "upkeep:backfill",
    "reembed": "upkeep:reembed",
    "doctor": "upkeep:doctor",
    "backup": "upkeep:backup",
    "restore": "upkeep:restore",
    "fetch-model": "upkeep:fetch_model",
    "completion": "completing:completion",
}
"""Each command: its module in this package, and its function there."""

app = App(
    name="vector-memory",
    version=__version__,
    config=fill_from_environment,
    help_format="plaintext",
    default_parameter=Parameter(negative_iterable=()),
)

for _name, _function in COMMANDS.items():
    app.command(f"{__name__}.{_function}", name=_name, help_epilogue=VARIABLES_HELP)
