"""The command that keeps what a client's hook reports while no server runs. `clients/hook.py` calls it."""

import sys
from typing import Annotated

from cyclopts import Parameter

from vector_memory.cli.flags import HiddenSettingsFlags, LocationFlags
from vector_memory.clients.keeping import keep_in_outbox
from vector_memory.settings import DatabaseLocation, Settings


def hook(
    client: Annotated[str, Parameter(help="Client whose hook it is.")],
    event: Annotated[str, Parameter(help="What happened: prompt, answer, subagent or compaction.")],
    nanoseconds: Annotated[str, Parameter(help="When, in nanoseconds since 1970.")],
    /,
    *,
    place: LocationFlags = DatabaseLocation(),
    settings: HiddenSettingsFlags = Settings(),
) -> None:
    """Keep what a client's hook reports, as JSON on standard input, until a server stores it."""
    keep_in_outbox(client, event, int(nanoseconds), sys.stdin.buffer.read(), place.address(), settings)
