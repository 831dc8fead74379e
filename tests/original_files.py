"""Databases that earlier servers wrote: see data/original/README.md."""

import lzma
from pathlib import Path

import apsw

DATA = Path(__file__).parent / "data" / "original"
EARLY, LATE, TAGGED = "2025-10-08", "2025-11-12", "tagged-1.10"
"""Session memories without chunks, and with chunks and vectors; tagged memories."""


def unpacked(folder: Path, name: str = LATE) -> Path:
    """Write a file of an earlier server into a folder, open to everybody as it left it, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "memory.db"
    path.write_bytes(lzma.decompress((DATA / f"{name}.db.xz").read_bytes()))
    path.chmod(0o644)
    return path


def texts_in(path: Path) -> dict[int, str]:
    """Return the texts of a file by their ids, whichever server wrote it."""
    connection = apsw.Connection(str(path))
    found = dict(connection.execute("select id, content from session_memories").fetchall())
    connection.close()
    return found
