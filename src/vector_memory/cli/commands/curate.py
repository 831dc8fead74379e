"""The commands that change a memory's title, description, tags, pin and what it supersedes."""

from typing import Annotated

from cyclopts import Parameter

from vector_memory.cli.flags import Filters, MemoryId, StoreFlags, Switch
from vector_memory.cli.terminal import printable
from vector_memory.domain import Scope
from vector_memory.domain.text import counted
from vector_memory.domain.validation import MAX_IDS, parse_id
from vector_memory.errors import ConfigurationError
from vector_memory.reading.overview import MAX_MOMENTS
from vector_memory.store import SessionMemoryStore


def pin(
    *memory_ids: MemoryId,
    filters: Filters = Filters(),
    here: StoreFlags = StoreFlags(),
) -> None:
    """Pin memories: age and policies no longer remove them, and they come first in their session's context."""
    _pin_all(memory_ids, filters, here, pinned=True)


def unpin(
    *memory_ids: MemoryId,
    filters: Filters = Filters(),
    here: StoreFlags = StoreFlags(),
) -> None:
    """Undo pin."""
    _pin_all(memory_ids, filters, here, pinned=False)


def supersede(
    newer: MemoryId,
    /,
    *older: MemoryId,
    release: Annotated[bool, Switch(help="Undo this: the memory no longer supersedes them.")] = False,
    merge: Annotated[bool, Switch(help="Only near copies that the memory repeats; it gets their tags.")] = False,
    filters: Filters = Filters(),
    here: StoreFlags = StoreFlags(),
) -> None:
    """Mark earlier memories as superseded by a later one: searches then leave them out.

    Filters select among the earlier ones.
    """
    if release and merge:
        raise ConfigurationError("--release and --merge exclude each other: omit one.")
    with here.store() as store:
        chosen = _chosen(store, older, filters, MAX_IDS)
        if not older:
            number = parse_id("newer", newer)
            chosen = [one for one in chosen if int(one) < number]
        change = store.release if release else store.merge if merge else store.supersede
        result = change(newer, *chosen)
    here.tell(result.model_dump(), result.message or "")


def edit(
    memory_id: MemoryId,
    /,
    *,
    title: Annotated[str | None, Parameter(help="New title; an empty one removes it.")] = None,
    description: Annotated[str | None, Parameter(help="New description; an empty one removes it.")] = None,
    tags: Annotated[list[str] | None, Parameter(help="Tag that replaces the current ones; repeatable.")] = None,
    here: StoreFlags = StoreFlags(),
) -> None:
    """Change the title, the description or the tags of a memory. Its text never changes: store another one."""
    with here.store() as store:
        answer = store.amend_memory(memory_id, title=title, description=description, tags=tags)
    here.tell(answer.model_dump(), str(answer.message))


def tag(
    *memory_ids: MemoryId,
    add: Annotated[list[str] | None, Parameter(help="Tag to add; repeatable.")] = None,
    remove: Annotated[list[str] | None, Parameter(help="Tag to remove; repeatable.")] = None,
    filters: Filters = Filters(),
    here: StoreFlags = StoreFlags(),
) -> None:
    """Add tags to memories, or remove some. Their other tags stay."""
    if not add and not remove:
        raise ConfigurationError("Name tags with --add or --remove.")
    with here.store() as store:
        chosen = _chosen(store, memory_ids, filters, MAX_MOMENTS)
        answers = [store.tag_memory(number, add=add or [], remove=remove or []) for number in chosen]
    lines = [f"{answer.memory_id}: {', '.join(answer.tags) or 'no tags'}" for answer in answers]
    tagged = [{"memory_id": answer.memory_id, "tags": answer.tags} for answer in answers]
    here.tell({"success": True, "memories": tagged}, printable("\n".join(lines)))


def _pin_all(memory_ids: tuple[str, ...], filters: Filters, here: StoreFlags, *, pinned: bool) -> None:
    with here.store() as store:
        chosen = _chosen(store, memory_ids, filters, MAX_MOMENTS)
        ids = [(store.pin if pinned else store.unpin)(number).memory_id for number in chosen]
    message = f"{'Pinned' if pinned else 'Unpinned'} {counted(len(ids), 'memory', 'memories')}."
    here.tell({"success": True, "memory_ids": ids, "message": message}, message)


def _chosen(store: SessionMemoryStore, memory_ids: tuple[str, ...], filters: Filters, most: int) -> list[str]:
    """Return the ids of the named memories, which all exist, or of those that filters select."""
    scope = filters.scope(filters.kind)
    if bool(memory_ids) == (scope != Scope()):
        raise ConfigurationError("Name the memories by their ids, or select them with filters.")
    for number in memory_ids:
        store.describe_memory(number)  # none is changed if one does not exist
    if memory_ids:
        return [*memory_ids]
    found = store.get_timeline(scope, most)
    if found.total_memories > len(found.entries):
        raise ConfigurationError(f"The filters select {found.total_memories:,} memories: narrow them to {most:,}.")
    return [str(entry.memory_id) for entry in found.entries]
