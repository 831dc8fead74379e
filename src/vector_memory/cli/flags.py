"""Flags that several commands share, each described once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from vector_memory.domain import MemoryKind
from vector_memory.errors import ConfigurationError
from vector_memory.settings import DatabaseLocation, Settings

LocationFlags = Annotated[DatabaseLocation, Parameter(name="*")]
SettingsFlags = Annotated[Settings, Parameter(name="*")]
HiddenSettingsFlags = Annotated[Settings, Parameter(name="*", show=False)]
"""Settings that a command accepts but does not list: `serve --help` lists them."""

AsJson = Annotated[
    bool,
    Parameter(
        name="--json", help="Print the result, or the error, as one JSON object.", negative=(), show_default=False
    ),
]

if TYPE_CHECKING:
    Kind = MemoryKind
else:  # cyclopts would offer an enumeration's names, not its values
    Kind = Literal[tuple(kind.value for kind in MemoryKind)]

# Filters.
OfAgent = Annotated[str | None, Parameter(name="--agent", help="Only this agent.")]
OfSession = Annotated[str | None, Parameter(name="--session", help="Only this session.")]
OfIteration = Annotated[str | None, Parameter(name="--iter", help="Only this iteration, such as 2 or v2.")]
OfKind = Annotated[Kind | None, Parameter(name="--kind", help="Only this kind.")]
OfTask = Annotated[str | None, Parameter(name="--task", help="Only this task.")]

MemoryId = Annotated[str, Parameter(help="Id of a memory, as printed by search and timeline.")]


def existing(place: DatabaseLocation) -> Path:
    """Return the path of the database. Raises ConfigurationError if it does not exist."""
    path = place.file()
    if not path.is_file():
        raise ConfigurationError(f"There is no memory at {path}: set its path with --database-path.")
    return path
