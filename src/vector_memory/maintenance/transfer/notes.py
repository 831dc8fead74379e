"""Notes of the tagged memory server that came before this one, as an export that can be imported."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vector_memory.domain import SHARED_AGENT, MemoryKind
from vector_memory.maintenance.transfer.lines import Header, MemoryLine
from vector_memory.storage.disk.protection import DATABASE
from vector_memory.storage.sqlite.import_tagged import ForeignNote, foreign_notes
from vector_memory.tagged.categories import CATEGORIES, OTHER
from vector_memory.tagged.tags import normalized_tag


def is_database(source: IO[bytes]) -> bool:
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
            body.write(line_of(note).encoded())
            count += 1
        body.seek(0)
        export.write(Header(memories=count).encoded())
        export.writelines(body)
        export.seek(0)
        yield export


def line_of(note: ForeignNote) -> MemoryLine:
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
