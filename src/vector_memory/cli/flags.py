"""The flags that several commands share, each described once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from vector_memory.domain import MemoryKind
from vector_memory.errors import ConfigurationError
from vector_memory.settings import Place, Settings

PlaceFlags = Annotated[Place, Parameter(name="*")]
SettingsFlags = Annotated[Settings, Parameter(name="*")]
HiddenSettingsFlags = Annotated[Settings, Parameter(name="*", show=False)]
"""The settings are understood, and not listed: that is done by `serve --help`."""

AsJson = Annotated[bool, Parameter(name="--json", help="Print one JSON object; errors too.", negative=())]

if TYPE_CHECKING:
    Kind = MemoryKind
else:  # of an enumeration the names would be offered, which are not those on the wire
    Kind = Literal[tuple(kind.value for kind in MemoryKind)]

# Which memories a command is about.
OfAgent = Annotated[str | None, Parameter(name="--agent", help="Only this agent.")]
OfSession = Annotated[str | None, Parameter(name="--session", help="Only this session.")]
OfIteration = Annotated[str | None, Parameter(name="--iter", help="Only this iteration, as 2 or v2.")]
OfKind = Annotated[Kind | None, Parameter(name="--kind", help="Only this kind.")]
OfTask = Annotated[str | None, Parameter(name="--task", help="Only this task.")]

MemoryId = Annotated[str, Parameter(help="Id of a memory, as search, timeline and every receipt show it.")]


def existing(place: Place) -> Path:
    """Return the memory's file. Raises ConfigurationError if there is none."""
    path = place.file()
    if not path.is_file():
        raise ConfigurationError(f"There is no memory at {path}: name its file with --database-path.")
    return path
