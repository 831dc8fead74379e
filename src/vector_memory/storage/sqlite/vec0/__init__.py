"""sqlite-vec: how to load it, and the shadow tables that store a vec0 table.

No other package names these tables or relies on how sqlite-vec stores vectors, which is not documented: it is a
property of its release VERSION. `blocks` reads and checks the tables; this module is imported at every start, so it
does not import numpy.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import apsw

from vector_memory.errors import ConfigurationError

VERSION = "0.1.9"
"""The release that this adapter was written for. pyproject.toml requires exactly this one."""

SHADOW_TABLES = {
    "info": {"key", "value"},
    "chunks": {"chunk_id", "size", "sequence_id", "partition00", "validity", "rowids"},
    "rowids": {"rowid", "id", "chunk_id", "chunk_offset"},
    "vector_chunks00": {"rowid", "vectors"},
}
"""The shadow tables of a vec0 table, by the suffixes of their names, and their columns."""


def shadow_tables(metadata: int) -> dict[str, set[str]]:
    """Return the same of a table with so many metadata columns."""
    return SHADOW_TABLES | {f"metadatachunks{number:02}": {"rowid", "data"} for number in range(metadata)}


def load_vector_search(connection: apsw.Connection) -> None:
    """Load sqlite-vec, and then disable the loading of extensions through SQL."""
    connection.enable_load_extension(True)
    connection.load_extension(vector_search_library())
    connection.enable_load_extension(False)


@cache
def vector_search_library() -> str:
    """Return the path of the sqlite-vec library without importing its module, which imports numpy.

    That import would take a fifth of a command's start.
    """
    module = find_spec("sqlite_vec")
    if module is None or module.origin is None:
        raise ConfigurationError("sqlite-vec is not installed: install vector-memory with its dependencies.")
    return str(Path(module.origin).with_name("vec0"))
