"""The command that keeps what a client's hook reports while no server runs. `clients/hook.py` calls it."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vector_memory.cli.flags import HiddenSettingsFlags, LocationFlags
from vector_memory.clients.reading.conversation import USER, leaves_out, message_of, storable, stored_fields
from vector_memory.clients.registry import CLIENTS
from vector_memory.domain import Project
from vector_memory.settings import DatabaseLocation, MemoryAddress, Redact, Settings, project_folder
from vector_memory.settings.locations import real_path
from vector_memory.writing.batches import CONTENT, KIND
from vector_memory.writing.outbox import outbox_of_memory


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


def keep_in_outbox(
    client: str, event: str, nanoseconds: int, data: bytes, address: MemoryAddress, settings: Settings
) -> None:
    """Write the text of an event to the disk, without secrets, unless capturing is off.

    `event`, `nanoseconds`: as `hook.py` names it, and when it was, since 1970. `data`: as the client describes it.
    Raises DatabaseError if the disk does not take it, and ValueError for data that is no JSON.
    """
    hooks, outbox = CLIENTS[client].command_hooks, outbox_of_memory(address)
    if hooks is None or outbox is None or not settings.capture:
        return

    def clean(text: str) -> str:
        return storable(text, redacts=settings.redact is not Redact.OFF).text

    given, heard_at = hooks.given(json.loads(data)), datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    project = Project.at(project_folder(), real_path(address) if isinstance(address, Path) else None)
    day = heard_at.astimezone().date().isoformat()
    session_id = clean(given.get("session_id", "").strip() or project.session_on(day))
    if leaves_out(given.get("prompt", "")):
        outbox.leave_out(session_id)
    said = message_of(event, given, hooks.agent, heard_at.isoformat(timespec="microseconds"))
    if (
        said is None
        or (said.agent_id != USER and outbox.leaves_out(session_id))
        or not (content := clean(said.content))
    ):
        return
    outbox.add({KIND: said.kind, CONTENT: content, **stored_fields(said, session_id, project.folder, client, clean)})
