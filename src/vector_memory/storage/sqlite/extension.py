"""sqlite-vec, the extension that keeps and compares vectors."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import apsw

from vector_memory.errors import ConfigurationError


def load_vector_search(connection: apsw.Connection) -> None:
    """Load sqlite-vec, then shut the door that lets SQL load extensions."""
    connection.enable_load_extension(True)
    connection.load_extension(vector_search_library())
    connection.enable_load_extension(False)


@cache
def vector_search_library() -> str:
    """Return where sqlite-vec is, without importing its module, which imports numpy: a fifth of a command's start."""
    module = find_spec("sqlite_vec")
    if module is None or module.origin is None:
        raise ConfigurationError("sqlite-vec is not installed: install vector-memory with its dependencies.")
    return str(Path(module.origin).with_name("vec0"))
