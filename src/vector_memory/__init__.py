"""A vector memory for AI agents: one SQLite file or PostgreSQL schema, shared by many servers.

The names in `__all__` are the public API (docs/python-api.md). Each is imported on first use.
"""

from importlib import import_module

TYPE_CHECKING = False  # `typing` takes long to import, and an interrupt could not be handled meanwhile
if TYPE_CHECKING:
    from vector_memory.domain import MemoryKind, Page, Scope
    from vector_memory.errors import (
        AccessDeniedError,
        ChunkingError,
        ClosedMemoryError,
        ConfigurationError,
        DatabaseError,
        DatabaseLockError,
        DeletedEarlierError,
        DuplicateMemoryError,
        EmbeddingFailedError,
        EmbeddingUnavailableError,
        MemoryStorageError,
        NotFoundError,
        OtherModelError,
        QuotaExceededError,
        SearchError,
        ValidationError,
        VectorMemoryError,
    )
    from vector_memory.files import FileMemory
    from vector_memory.settings import Settings
    from vector_memory.store import SessionMemoryStore

__version__ = "0.1.0"

__all__ = [
    "AccessDeniedError",
    "ChunkingError",
    "ClosedMemoryError",
    "ConfigurationError",
    "DatabaseError",
    "DatabaseLockError",
    "DeletedEarlierError",
    "DuplicateMemoryError",
    "EmbeddingFailedError",
    "EmbeddingUnavailableError",
    "FileMemory",
    "MemoryKind",
    "MemoryStorageError",
    "NotFoundError",
    "OtherModelError",
    "Page",
    "QuotaExceededError",
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
"""The module of each public name; names not listed here are in `errors`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
