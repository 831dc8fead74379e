"""A vector memory for AI agents: one SQLite file, shared by many server processes.

The names in `__all__` are the public API (docs/python-api.md); each is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vector_memory.domain import MemoryKind, Page, Scope
    from vector_memory.errors import (
        ChunkingError,
        ConfigurationError,
        DatabaseError,
        DatabaseLockError,
        DuplicateMemoryError,
        EmbeddingUnavailableError,
        MemoryStorageError,
        NotFoundError,
        SearchError,
        ValidationError,
        VectorMemoryError,
    )
    from vector_memory.files import FileMemory
    from vector_memory.settings import Settings
    from vector_memory.store import SessionMemoryStore

__version__ = "0.1.0"

__all__ = [
    "ChunkingError",
    "ConfigurationError",
    "DatabaseError",
    "DatabaseLockError",
    "DuplicateMemoryError",
    "EmbeddingUnavailableError",
    "FileMemory",
    "MemoryKind",
    "MemoryStorageError",
    "NotFoundError",
    "Page",
    "Scope",
    "SearchError",
    "SessionMemoryStore",
    "Settings",
    "ValidationError",
    "VectorMemoryError",
]

_MODULES = {
    "FileMemory": "files",
    "MemoryKind": "domain",
    "Page": "domain",
    "Scope": "domain",
    "SessionMemoryStore": "store",
    "Settings": "settings",
}
"""Where the public names are; all others are in `errors`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_module(f"{__name__}.server.environment")  # libraries read it when they are imported
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
