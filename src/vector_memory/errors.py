"""All errors, as one tree. Each class has the code that clients receive.

VectorMemoryError
├── ValidationError             a parameter is invalid
│   ├── DuplicateMemoryError    the same content is already stored in the same place
│   ├── DeletedEarlierError     a hook, an import or a sync brings what was deleted
│   ├── NotFoundError           no memory, chunk or session has this id
│   ├── AccessDeniedError       the caller's token does not permit it
│   └── QuotaExceededError      the caller's namespace is full, or called too often
├── MemoryStorageError          a memory could not be stored          ("MemoryError")
├── SearchError                 a search could not be answered
│   └── EmbeddingUnavailableError   there is no usable embedding model
│       ├── EmbeddingFailedError    the model failed on a text
│       └── OtherModelError         the stored vectors are of another model
├── ChunkingError               a document could not be cut into chunks
├── DatabaseError               SQLite failed, or the file cannot be used
│   ├── DatabaseLockError       another process kept the file locked
│   ├── CancelledCallError      the client cancelled the call
│   └── ClosedMemoryError       the memory is closed
└── ConfigurationError          a setting is invalid; raised only at start

Messages say what to do next. They never contain stored content, SQL, or paths that the caller did not give.
"""

import traceback
from collections.abc import Iterable
from pathlib import Path


class VectorMemoryError(Exception):
    """Base of all errors of this package. `code` is the value of `error` in a failed result."""

    code = "MemoryError"


class ValidationError(VectorMemoryError):
    """A parameter is invalid; nothing was changed."""

    code = "ValidationError"


class DuplicateMemoryError(ValidationError):
    """The same content is already stored under the same kind, agent, session, iteration and task.

    `in_session`: memories of this kind have a session, iteration, agent and task.
    """

    def __init__(self, memory_id: int, *, in_session: bool = True) -> None:
        scope = " in the same session, iteration, agent and task" if in_session else ""
        super().__init__(
            f"Memory already exists with id {memory_id}: the same content{scope}. Nothing was stored; use "
            f"memory_id {memory_id}."
        )
        self.memory_id = memory_id


class DeletedEarlierError(ValidationError):
    """The memory of this text was deleted, and its source brings the text again; nothing was stored."""

    def __init__(self) -> None:
        super().__init__("It was deleted earlier: store it with a tool or a command if you want it again.")


class NotFoundError(ValidationError):
    """Nothing is stored under the requested id."""


class AccessDeniedError(ValidationError):
    """The caller's token does not permit the call; nothing was changed."""

    code = "AccessDenied"


class QuotaExceededError(ValidationError):
    """The namespace is full, or was called too often; nothing was changed."""

    code = "QuotaExceeded"


class MemoryStorageError(VectorMemoryError):
    """A memory could not be stored; nothing was changed."""

    code = "MemoryError"


class SearchError(VectorMemoryError):
    """A search could not be answered."""

    code = "SearchError"


class EmbeddingUnavailableError(SearchError):
    """No embedding model can be used, so nothing can be compared by meaning."""


class EmbeddingFailedError(EmbeddingUnavailableError):
    """The embedding model failed on a text; it may succeed on others, and on this one later.

    `reason`: the type of its exception, whose message may quote the text.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The embedding model failed ({reason}): repeat the call. The log says where.")


class OtherModelError(EmbeddingUnavailableError):
    """The stored vectors were computed with another model than the configured one."""


class ChunkingError(VectorMemoryError):
    """A document could not be cut into chunks; nothing was stored."""

    code = "ChunkingError"


class DatabaseError(VectorMemoryError):
    """SQLite reported a failure, or the file cannot be used."""

    code = "DatabaseError"


class DatabaseLockError(DatabaseError):
    """Another process kept the database locked for longer than the timeout. It is safe to try again."""

    code = "DatabaseLockError"


class CancelledCallError(DatabaseError):
    """The client cancelled the call before anything was written. A cancelled call gets no answer."""

    def __init__(self) -> None:
        super().__init__("The call was cancelled while it waited. Nothing was changed.")


class ClosedMemoryError(DatabaseError):
    """The memory is closed, for example because the server is shutting down; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("The memory store is closed: open it again.")


class ConfigurationError(VectorMemoryError):
    """A setting is invalid. Raised before the server answers any request."""

    code = "ValidationError"


def is_about_text(error: Exception) -> bool:
    """Return whether something failed because of the text that it was about, so that others need not fail."""
    return isinstance(error, EmbeddingFailedError | ChunkingError) or not isinstance(error, VectorMemoryError)


def where(error: BaseException) -> str:
    """Return an error's type, the types of its causes, and the line that raised it.

    Its message is left out, because it may quote stored content.
    """
    frames = traceback.extract_tb(error.__traceback__)
    line = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown line"
    raised = f"{type(error).__name__} at {line}"
    cause = error.__cause__ or error.__context__
    return f"{raised}, from {where(cause)}" if cause else raised


def expired_memory(memory_id: int, at: str) -> NotFoundError:
    """Return the error for the id of a memory that expired at a time in UTC, ISO 8601; empty: it is held back."""
    if not at:
        return NotFoundError(f"Memory {memory_id} is held back: a person can release it with `vector-memory review`.")
    return NotFoundError(f"Memory {memory_id} expired on {at[:16]}Z and is being erased.")


def denied(sessions: Iterable[str]) -> AccessDeniedError:
    """Return the error for whatever is not in the sessions that a token is limited to."""
    return AccessDeniedError(f"This token is limited to sessions: {', '.join(sessions)}.")


def no_memory(memory_id: int) -> NotFoundError:
    """Return the error for an id that no memory has, or none that the caller may see."""
    return NotFoundError(f"There is no memory {memory_id}: it was deleted or never stored in this database.")
