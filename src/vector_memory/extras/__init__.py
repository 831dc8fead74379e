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
    "audit": "teams.usage",
    "page": "window.routes",
    "report": "window.session_report",
}
"""Each extra with its module in this folder."""

MISSING_DRIVER = (
    "A memory in PostgreSQL needs a driver: run `uv sync --extra postgres` in a clone, or "
    '`pip install "psycopg[binary]"` in the environment of vector-memory.'
)


def extra(name: str) -> Any:
    """Return the module of an extra. Raises ConfigurationError, which says what to install, if a driver is missing."""
    try:
        return import_module(f"{__name__}.{EXTRAS[name]}")
    except ImportError as error:
        # It has no name if libpq is what is missing.
        if not name.startswith("postgres") or error.name not in (None, "psycopg"):
            raise
        raise ConfigurationError(MISSING_DRIVER) from None
