"""Reads the sessions in the SQLite file of opencode, or of a client made of it, while the client uses it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw

from vector_memory.domain.user_files import MAX_BYTES
from vector_memory.errors import ValidationError
from vector_memory.storage.sqlite.rows import fetch_column, translated_errors


class OpencodeSession(NamedTuple):
    """A session. `root`: the id of the user's session that it is a part of, or its own. `revert`: where it goes on.

    `kinds`: the types of its parts, one for each part. `messages`: id, data and the text parts of each, as JSON.
    """

    root: str
    folder: str
    title: str
    revert: str
    kinds: list[str]
    messages: list[tuple[str, str, list[str]]]


@contextmanager
def _opencode_file(path: Path) -> Iterator[apsw.Connection]:
    """Open the file for reading. Raises DatabaseError."""
    with translated_errors():
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(5_000)
            yield connection
        finally:
            connection.close()


def session_ids(path: Path) -> list[str]:
    """Return the sessions in the order in which they began. Raises DatabaseError."""
    with _opencode_file(path) as connection:
        return [str(one) for one in fetch_column(connection, "select id from session order by time_created, id")]


def session_in(path: Path, session_id: str) -> OpencodeSession | None:
    """Return a session; None if it is gone. Raises DatabaseError, ValidationError if it is too long to be read."""
    with _opencode_file(path) as connection, connection:  # one moment of all
        sql = "select directory, title, coalesce(revert, '{}') from session where id = ?"
        rows = connection.execute(sql, (session_id,)).fetchall()
        if not rows:
            return None
        root = fetch_column(
            connection,
            "with recursive above (id, parent) as (select id, parent_id from session where id = ? union "
            "select s.id, s.parent_id from session s join above on s.id = above.parent) "
            "select id from above where parent is null or parent not in (select id from session)",
            (session_id,),
        )
        texts = "from part where session_id = ? and json_valid(data) and json_extract(data, '$.type') = 'text'"
        (size,) = fetch_column(connection, f"select coalesce(sum(length(data)), 0) {texts}", (session_id,))
        if size > MAX_BYTES:
            raise ValidationError(f"The session has more than {MAX_BYTES:,} characters.")
        kinds = fetch_column(
            connection,
            "select iif(json_valid(data), coalesce(json_extract(data, '$.type'), '?'), '?') from part "
            "where session_id = ?",
            (session_id,),
        )
        parts: dict[str, list[str]] = {}
        for message_id, data in connection.execute(f"select message_id, data {texts} order by id", (session_id,)):
            parts.setdefault(str(message_id), []).append(str(data))
        messages = connection.execute("select id, data from message where session_id = ? order by id", (session_id,))
        said = [(str(one), str(data), parts.get(str(one), [])) for one, data in messages]
    folder, title, revert = map(str, rows[0])
    return OpencodeSession(str((root or [session_id])[0]), folder, title, revert, list(map(str, kinds)), said)
