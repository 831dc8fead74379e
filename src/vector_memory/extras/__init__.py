"""What not every memory needs: PostgreSQL, teams, and pages for people. Nothing else imports from this folder.

Each extra is imported when it is asked for.
"""

from importlib import import_module
from typing import Any

from vector_memory.errors import ConfigurationError

EXTRAS = {
    "postgres": "postgres.engine",
    "postgres doctor": "postgres.doctor",
    "teams": "teams.serving",
    "page": "window.running",
    "report": "window.report",
}
"""Each extra with its module in this folder."""

MISSING = {
    "psycopg": "A memory in PostgreSQL needs a driver: run `uv sync --extra postgres` in a clone, or "
    '`pip install "psycopg[binary]"` in the environment of vector-memory.'
}
"""What to install, for each library of an extra."""


def extra(name: str) -> Any:
    """Return the module of an extra. Raises ConfigurationError if a library is missing, and says what to install."""
    try:
        return import_module(f"{__name__}.{EXTRAS[name]}")
    except ImportError as error:
        library = error.name or "psycopg"  # it has no name if libpq is what is missing
        if library not in MISSING:
            raise
        raise ConfigurationError(MISSING[library]) from None
