"""Backups: copied while servers are running, and restored while none is."""

import shutil
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

from vector_memory.answers.models import Result
from vector_memory.errors import ConfigurationError, DatabaseError, ValidationError
from vector_memory.settings import MemoryAddress
from vector_memory.storage.disk.drafts import Draft, Rules, draft_of
from vector_memory.storage.disk.filesystem import log_index_of, log_of, make_private_folders
from vector_memory.storage.disk.ignoring import keep_out_of_git
from vector_memory.storage.sqlite import inspection
from vector_memory.storage.sqlite.copying import Progress, copy_database, mark_backup, replace_database, unmark_backup
from vector_memory.storage.sqlite.database import Connection, shrink_database
from vector_memory.storage.sqlite.inspection import FileKind
from vector_memory.storage.sqlite.migrations import DEVELOPMENT

COPYABLE = {FileKind.ORIGINAL, FileKind.PRESENT}


class CopiedFile(NamedTuple):
    """The result of a copy. `kept`: the file that contains the previous memory."""

    memories: int
    size: int
    kept: Path | None = None


def back_up(source: Path, target: Path, *, overwrite: bool = False, on_progress: Progress | None = None) -> CopiedFile:
    """Copy the current state of a memory to a file; servers may be writing to it. A failure leaves no partial copy.

    `overwrite` replaces an ordinary file, or a copy that this function made and no process has opened since, but never
    a memory or any other database. Raises ValidationError if the target must not be written, DatabaseError if the
    memory is damaged.
    """
    require_copyable(source)
    rules = Rules(overwrite=overwrite, over_backups=True, databases=[source])
    with draft_of(target, rules) as draft:
        keep_out_of_git(target)
        copy_database(source, draft.path, on_progress)
        memories = require_whole(draft.path, source)
        mark_backup(draft)
        draft.publish()
    return CopiedFile(memories, target.stat().st_size)


class Room(NamedTuple):
    """The bytes of a file, of its unused pages, those that shrinking it needs, and those that are free on its disk."""

    size: int
    unused: int
    needed: int
    free: int


def room_in(path: Path) -> Room:
    """Return how much of a memory's file is unused, and whether it can be shrunk."""
    size, unused = inspection.inspect(path, inspection.sizes) if path.exists() else (0, 0)
    return Room(size, unused, 2 * (size - unused), shutil.disk_usage(path.parent).free)


def shrink(path: Path) -> Result:
    """Give the unused pages of a memory's file back to the disk. Readers go on; writers wait.

    Raises ValidationError if the disk has not enough room, DatabaseLockError if others write for too long.
    """
    room = room_in(path)
    if room.free < room.needed:
        raise ValidationError(f"Shrinking needs {room.needed / 1e6:,.0f} MB on the disk: free some space, then repeat.")
    shrink_database(path)
    return Result(message=f"The file is {(room.size - room_in(path).size) / 1e6:,.1f} MB smaller.")


def restore_memory(
    source: Path, target: Path, *, overwrite: bool = False, on_progress: Progress | None = None
) -> CopiedFile:
    """Replace the database `target` with the copy `source`. The previous database is kept in a file next to it.

    Nothing is changed unless `source` is an undamaged memory that this release can read. Raises ValidationError if the
    target exists and `overwrite` is false, DatabaseLockError if another process has it open.
    """
    require_copyable(source)
    require_other_file(source, target)
    if target.exists() and not overwrite:
        raise ValidationError(
            f"There is already a memory at {target}: add --overwrite to replace it. It will be kept as "
            f"{unused_name(target).name}."
        )
    make_private_folders(target.parent)
    keep_out_of_git(target)
    kept = unused_name(target) if target.exists() else None
    with draft_of(kept or target, Rules(is_database=True)) as draft:
        copy_database(source, draft.path, on_progress)
        memories = require_whole(draft.path, source)
        unmark_backup(draft)
        if kept is None:
            put_in_place(draft, target)
        else:
            replace_database(target, kept, lambda _: draft.path)
            target.chmod(0o600)
    return CopiedFile(memories, target.stat().st_size, kept)


def put_in_place(draft: Draft, target: Path) -> None:
    """Move a finished copy to where no database exists."""
    # SQLite would apply the leftover log of a deleted database to the new one.
    log_index_of(target).unlink(missing_ok=True)
    if log_of(target).exists():
        log_of(target).rename(log_of(unused_name(target)))
    draft.publish()


def file_of(address: MemoryAddress) -> Path:
    """Return the file of a memory. Raises ConfigurationError, which names the programs to use, if it has none."""
    if isinstance(address, Path):
        return address
    raise ConfigurationError(
        f"This memory is in PostgreSQL: `pg_dump --format=custom --schema={address.schema} URL > memory.dump` backs it "
        "up, and `pg_restore --dbname=URL memory.dump` restores it."
    )


def require_copyable(source: Path) -> None:
    """Raise an error unless the file is a memory that this release can read. This does not check for damage."""
    if not source.is_file():
        raise ValidationError(f"There is no memory at {source}: check the path.")
    try:
        kind = inspection.kind_of(source)
    except DatabaseError as error:
        raise DatabaseError(f"{source} cannot be copied. {error}") from error
    if kind == FileKind.NEWER:
        raise DatabaseError(f"{source} was written by a newer release of vector-memory: upgrade vector-memory first.")
    if kind == FileKind.DEVELOPMENT:
        raise DatabaseError(f"{source} cannot be copied. {DEVELOPMENT}")
    if kind not in COPYABLE:
        raise DatabaseError(f"{source} is not a memory, or its header is damaged: choose another file.")


def require_other_file(source: Path, target: Path) -> None:
    """Raise ValidationError if both are the same file, or the target is not a file."""
    if target.exists() and (not target.is_file() or target.samefile(source)):
        reason = "the memory itself" if target.is_file() else "not a file"
        raise ValidationError(f"{target} is {reason}: choose another.")


def require_whole(copy: Path, source: Path) -> int:
    """Return the number of memories in a copy. Raises DatabaseError if the copy, and so its source, is damaged."""

    def checked_count(connection: Connection) -> int:
        if inspection.damage(connection):
            raise DatabaseError(
                f"{source} is damaged: nothing was copied. Run `vector-memory doctor --database-path` on it."
            )
        return inspection.count_memories(connection)

    return inspection.inspect(copy, checked_count)


def unused_name(path: Path, before: str = "restore") -> Path:
    """Return an unused name for keeping a replaced database, such as `memory.db.before-restore-2`."""
    names = (
        path.with_name(f"{path.name}.before-{before}{number}") for number in chain([""], map("-{}".format, count(2)))
    )
    return next(name for name in names if not name.exists() and not log_of(name).exists())
