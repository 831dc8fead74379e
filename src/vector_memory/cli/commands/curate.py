"""The commands that change what stands beside a memory's text."""

from typing import Annotated

from cyclopts import Parameter

from vector_memory.cli.flags import AsJson, HiddenSettingsFlags, LocationFlags, MemoryId, existing, files_of
from vector_memory.cli.logging_setup import set_up_logging
from vector_memory.cli.terminal import printable, tell
from vector_memory.domain.text import counted
from vector_memory.errors import ConfigurationError
from vector_memory.settings import DatabaseLocation, Settings
from vector_memory.store import SessionMemoryStore


def pin(
    *memory_ids: MemoryId,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
    settings: HiddenSettingsFlags = Settings(),
) -> None:
    """Pin memories: neither their age nor a policy removes them, and they lead their session's context."""
    _pin_all(memory_ids, place, settings, pinned=True, as_json=as_json)


def unpin(
    *memory_ids: MemoryId,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
    settings: HiddenSettingsFlags = Settings(),
) -> None:
    """Undo pin."""
    _pin_all(memory_ids, place, settings, pinned=False, as_json=as_json)


def amend(
    memory_id: MemoryId,
    /,
    *,
    title: Annotated[str | None, Parameter(help="New title; an empty one removes it.")] = None,
    description: Annotated[str | None, Parameter(help="New description; an empty one removes it.")] = None,
    tags: Annotated[list[str] | None, Parameter(help="Tag in place of the present ones; repeatable.")] = None,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
    settings: HiddenSettingsFlags = Settings(),
) -> None:
    """Change the title, the description or the tags of a memory. Its text never changes: store another one."""
    with _opened(place, settings) as store:
        answer = store.amend_memory(memory_id, title=title, description=description, tags=tags)
    tell(answer.model_dump(), str(answer.message), as_json=as_json)


def tag(
    *memory_ids: MemoryId,
    add: Annotated[list[str] | None, Parameter(help="Tag to add; repeatable.")] = None,
    remove: Annotated[list[str] | None, Parameter(help="Tag to remove; repeatable.")] = None,
    as_json: AsJson = False,
    place: LocationFlags = DatabaseLocation(),
    settings: HiddenSettingsFlags = Settings(),
) -> None:
    """Add tags to memories, or remove some. Their other tags stay."""
    if not memory_ids or not (add or remove):
        raise ConfigurationError("Name the memories by their ids, and tags with --add or --remove.")
    with _opened(place, settings) as store:
        for number in memory_ids:
            store.describe_memory(number)  # none is changed if one does not exist
        answers = [store.tag_memory(number, add=add or [], remove=remove or []) for number in memory_ids]
    lines = [f"{answer.memory_id}: {', '.join(answer.tags) or 'no tags'}" for answer in answers]
    tagged = [{"memory_id": answer.memory_id, "tags": answer.tags} for answer in answers]
    tell({"success": True, "memories": tagged}, printable("\n".join(lines)), as_json=as_json)


def _pin_all(
    memory_ids: tuple[str, ...], place: DatabaseLocation, settings: Settings, *, pinned: bool, as_json: bool
) -> None:
    if not memory_ids:
        raise ConfigurationError("Name the memories by their ids.")
    with _opened(place, settings) as store:
        for number in memory_ids:
            store.describe_memory(number)  # none is changed if one does not exist
        ids = [(store.pin if pinned else store.unpin)(number).memory_id for number in memory_ids]
    message = f"{'Pinned' if pinned else 'Unpinned'} {counted(len(ids), 'memory', 'memories')}."
    tell({"success": True, "memory_ids": ids, "message": message}, message, as_json=as_json)


def _opened(place: DatabaseLocation, settings: Settings) -> SessionMemoryStore:
    address = existing(place)
    set_up_logging("ERROR", settings.log_file, files_of(address))
    return SessionMemoryStore(address, settings)
