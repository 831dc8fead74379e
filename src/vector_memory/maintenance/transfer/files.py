"""The files of exports and reports, and the database of the tagged memory server, which is read as an export."""

import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vector_memory.domain import SHARED_AGENT, MemoryKind
from vector_memory.errors import DatabaseError
from vector_memory.maintenance.transfer.lines import Header, MemoryLine
from vector_memory.storage.disk.drafts import Rules, draft_of
from vector_memory.storage.disk.protection import DATABASE
from vector_memory.storage.sqlite.import_tagged import ForeignNote, foreign_notes
from vector_memory.tagged.tags import CATEGORIES, OTHER, normalized_tag


@contextmanager
def new_file(target: Path, *, overwrite: bool, databases: Sequence[Path]) -> Iterator[IO[bytes]]:
    """Yield a stream to a file that exists, complete, only after the block succeeds.

    Pipes and terminals are written to directly. Raises ValidationError if the file exists and `overwrite` is false, or
    if it is one of `databases` or any other, which are never replaced; DatabaseError if it cannot be written.
    """
    if is_stream(target):
        with written_to(target) as stream:
            yield stream
        return
    with draft_of(target, Rules(overwrite=overwrite, databases=databases)) as draft:
        with draft.open() as stream:
            yield stream
        draft.publish()


@contextmanager
def written_to(target: Path) -> Iterator[IO[bytes]]:
    """Yield an open pipe or device. Raises BrokenPipeError if its reader is gone, as for standard output."""
    try:
        with target.open("wb") as stream:
            yield stream
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DatabaseError(f"{target} could not be written ({error.strerror}): choose another path.") from error


def is_stream(target: Path) -> bool:
    """Whether a path is a pipe or a character device, such as a terminal."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def is_sqlite(source: IO[bytes]) -> bool:
    """Return whether a seekable stream is an SQLite database; its position is unchanged afterwards."""
    start = source.tell()
    head = source.read(len(DATABASE))
    source.seek(start)
    return head == DATABASE


@contextmanager
def notes_as_export(path: Path) -> Iterator[IO[bytes]]:
    """Yield the notes in a file as a seekable export. Raises ValidationError for any other database, DatabaseError."""
    with tempfile.TemporaryFile() as body, tempfile.TemporaryFile() as export:
        count = 0
        for note in foreign_notes(path):
            body.write(line_of_note(note).encoded())
            count += 1
        body.seek(0)
        export.write(Header(memories=count).encoded())
        export.writelines(body)
        export.seek(0)
        yield export


def line_of_note(note: ForeignNote) -> MemoryLine:
    """Return the line of a note. Its tags are written as this server compares them."""
    return MemoryLine(
        memory_type=MemoryKind.TAGGED,
        agent_id=SHARED_AGENT,
        content=note.content,
        tags=list(dict.fromkeys(filter(None, map(normalized_tag, note.tags)))),
        metadata={"category": note.category if note.category in CATEGORIES else OTHER},
        created_at=note.created_at,
        accessed_at=note.read_at,
        access_count=note.access_count,
    )
