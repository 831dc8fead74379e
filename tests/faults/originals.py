"""A file of the original server, upgraded while something goes wrong."""

import shutil
from pathlib import Path

import apsw

ORIGINAL = Path(__file__).parent.parent / "data" / "original.db"


def copied_original(folder: Path) -> Path:
    """Return a copy of the file, ready to be taken over."""
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(ORIGINAL, folder / "memory.db"))


def original_texts(path: Path = ORIGINAL) -> dict[int, str]:
    """Return the texts of a file by their ids, whichever server wrote it."""
    connection = apsw.Connection(str(path))
    found = dict(connection.execute("select id, content from session_memories").fetchall())
    connection.close()
    return found


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
    return (
        "session_memories" in tables and "schema_migrations" not in tables and original_texts(copy) == original_texts()
    )


def is_taken_over(path: Path) -> bool:
    """Tell whether a file has been upgraded."""
    connection = apsw.Connection(str(path))
    found = connection.execute("select 1 from sqlite_schema where name = 'schema_migrations'").fetchall()
    connection.close()
    return bool(found)
