"""Reads the notes in a file of the tagged memory server that came before this one. The file is not changed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from vector_memory.errors import ValidationError
from vector_memory.storage.damaged import texts_in
from vector_memory.storage.sqlite.errors import translated_errors
from vector_memory.storage.sqlite.legacy import normal_tags, normal_time
from vector_memory.storage.sqlite.rows import as_dict, fetch, fetch_column

COLUMNS = {"id", "content", "category", "tags", "created_at", "updated_at", "access_count"}


class ForeignNote(NamedTuple):
    """A note as it is there; times are in this store's format. Reading a note was an update of it there."""

    content: str
    category: str
    tags: list[str]
    created_at: str
    read_at: str
    access_count: int


def foreign_notes(path: Path) -> Iterator[ForeignNote]:
    """Yield the notes by id, one at a time. Raises ValidationError for any other database, DatabaseError."""
    with translated_errors():
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            if not set(fetch_column(connection, "select name from pragma_table_info('memory_metadata')")) >= COLUMNS:
                raise ValidationError(
                    "The database is not one of the tagged memory server, so it cannot be imported: open a memory "
                    "with --database-path, and import what `vector-memory export` wrote of it."
                )
            for note_id in fetch_column(connection, "select id from memory_metadata order by id"):
                (row,) = fetch(connection, as_dict, "select * from memory_metadata where id = ?", (note_id,))
                yield foreign_note(row)
        finally:
            connection.close()


def foreign_note(row: dict[str, Any]) -> ForeignNote:
    """Return the note in a row of `memory_metadata`."""
    created_at = normal_time(row["created_at"])
    return ForeignNote(
        content=str(row["content"]),
        category=str(row["category"]),
        tags=texts_in(normal_tags(row["tags"])),
        created_at=created_at,
        read_at=normal_time(row["updated_at"] or created_at),
        access_count=int(row["access_count"] or 0),
    )
