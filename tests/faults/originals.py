"""A file of the original server, upgraded while something goes wrong."""

import tempfile
from functools import cache
from pathlib import Path

import apsw

from original_files import EARLY, texts_in, unpacked


def copied_original(folder: Path) -> Path:
    """Return a copy of the file, ready to be taken over: the smaller one, which is written faster."""
    return unpacked(folder, EARLY)


@cache
def original_texts() -> dict[int, str]:
    """Return the texts of the file by their ids."""
    with tempfile.TemporaryDirectory() as folder:
        return texts_in(copied_original(Path(folder)))


def whole_copies(path: Path) -> list[Path]:
    """Return the copies that were made before the upgrade and hold every text."""
    return [copy for copy in path.parent.glob("*.before-upgrade*") if is_whole(copy)]


def is_whole(copy: Path) -> bool:
    """Tell whether a copy is a database of the original server with every text. SQLite's own files are none."""
    if copy.name.endswith(("-journal", "-wal", "-shm")):
        return False
    connection = apsw.Connection(str(copy))
    tables = {row[0] for row in connection.execute("select name from sqlite_schema")}
    connection.close()
    return "session_memories" in tables and "schema_migrations" not in tables and texts_in(copy) == original_texts()


def is_taken_over(path: Path) -> bool:
    """Tell whether a file has been upgraded."""
    connection = apsw.Connection(str(path))
    found = connection.execute("select 1 from sqlite_schema where name = 'schema_migrations'").fetchall()
    connection.close()
    return bool(found)
