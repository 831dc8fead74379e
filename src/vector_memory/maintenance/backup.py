"""Copies of a memory: made while servers run, and put back while none does."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

from vector_memory.errors import DatabaseError, ValidationError
from vector_memory.storage.disk.drafts import Draft, Rules, draft_of
from vector_memory.storage.disk.filesystem import log_index_of, log_of, make_private_folders
from vector_memory.storage.sqlite import inspection
from vector_memory.storage.sqlite.copying import Progress, copy_database, mark_backup, replace_database, unmark_backup
from vector_memory.storage.sqlite.database import Connection
from vector_memory.storage.sqlite.inspection import FileKind

OURS = {FileKind.ORIGINAL, FileKind.OLDER, FileKind.PRESENT}


class Copied(NamedTuple):
    """What was copied; `kept`: the file that holds what was there before."""

    memories: int
    size: int
    kept: Path | None = None


def back_up(source: Path, target: Path, *, overwrite: bool = False, on_progress: Progress | None = None) -> Copied:
    """Copy a memory, as it is at this moment, to a file; servers may go on writing. There is a whole copy or none.

    `overwrite` replaces an ordinary file, or a copy that this has made before and nobody has opened since; a memory,
    or any other database, is never replaced. Raises ValidationError if the target may not be written, DatabaseError if
    the memory is damaged.
    """
    require_copyable(source)
    rules = Rules(overwrite=overwrite, over_backups=True, databases=[source])
    with draft_of(target, rules) as draft:
        copy_database(source, draft.path, on_progress)
        memories = require_whole(draft.path, source)
        mark_backup(draft)
        draft.publish()
    return Copied(memories, target.stat().st_size)


def restore(source: Path, target: Path, *, overwrite: bool = False, on_progress: Progress | None = None) -> Copied:
    """Let the database `target` hold what the copy `source` holds; what it held is kept in a file beside it.

    Nothing is changed unless `source` is a whole memory that this release can read. Raises ValidationError if there is
    a target and `overwrite` is not said, DatabaseLockError if another process has it open.
    """
    require_copyable(source)
    require_other_file(source, target)
    if target.exists() and not overwrite:
        raise ValidationError(
            f"There is a memory at {target} already: add --overwrite to replace it. It will be kept as "
            f"{unused_name(target).name}."
        )
    make_private_folders(target.parent)
    kept = unused_name(target) if target.exists() else None
    with draft_of(kept or target, Rules(is_database=True)) as draft:
        copy_database(source, draft.path, on_progress)
        memories = require_whole(draft.path, source)
        unmark_backup(draft)
        if kept is None:
            put_in_place(draft, target)
        else:
            replace_database(draft.path, target, kept)
            target.chmod(0o600)
    return Copied(memories, target.stat().st_size, kept)


def put_in_place(draft: Draft, target: Path) -> None:
    """Make a finished copy the database where there is none."""
    # SQLite would take the log of a database that is gone for one of the new one.
    log_index_of(target).unlink(missing_ok=True)
    if log_of(target).exists():
        log_of(target).rename(log_of(unused_name(target)))
    draft.publish()


def require_copyable(source: Path) -> None:
    """Raise an error unless the file is a memory that this release can read. Whether it is whole is not looked at."""
    if not source.is_file():
        raise ValidationError(f"There is no memory at {source}: check the path.")
    try:
        kind = inspection.kind_of(source)
    except DatabaseError as error:
        raise DatabaseError(f"{source} cannot be copied. {error}") from error
    if kind == FileKind.NEWER:
        raise DatabaseError(f"{source} was written by a newer release of vector-memory: upgrade vector-memory first.")
    if kind not in OURS:
        raise DatabaseError(f"{source} is no memory of vector-memory, or its beginning is damaged: name another file.")


def require_other_file(source: Path, target: Path) -> None:
    """Raise a ValidationError if the two are the same file, or the target is none."""
    if target.exists() and (not target.is_file() or target.samefile(source)):
        raise ValidationError(f"{target} is {'the memory itself' if target.is_file() else 'not a file'}: name another.")


def require_whole(copy: Path, source: Path) -> int:
    """Return how many memories a copy holds. Raises DatabaseError if it is damaged, as its source was then."""

    def look(connection: Connection) -> int:
        if inspection.damage(connection):
            raise DatabaseError(
                f"{source} is damaged: nothing was copied. `vector-memory doctor --database-path` says more."
            )
        return inspection.count_memories(connection)

    return inspection.inspect(copy, look)


def unused_name(path: Path) -> Path:
    """Return the name under which a replaced database is kept."""
    return next(name for name in _names(path) if not name.exists() and not log_of(name).exists())


def _names(path: Path) -> Iterator[Path]:
    yield path.with_name(f"{path.name}.before-restore")
    yield from (path.with_name(f"{path.name}.before-restore-{number}") for number in count(2))
