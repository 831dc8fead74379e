"""Opening a memory without importing what searching and storing need, and finding sessions in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from vector_memory.cli.flags import existing
from vector_memory.domain import Scope
from vector_memory.errors import NotFoundError
from vector_memory.settings import DEFAULT_DIM, DatabaseLocation
from vector_memory.storage.base import Storage
from vector_memory.storage.opening import open_storage

NAMES_COMPARED = 10_000


@contextmanager
def opened(place: DatabaseLocation, *, read_only: bool = True) -> Iterator[Storage]:
    """Open a memory. Raises ConfigurationError if it does not exist."""
    storage = open_storage(existing(place), dimensions=DEFAULT_DIM, read_only=read_only)
    try:
        yield storage
    finally:
        storage.close()


def require_session(storage: Storage, session: str) -> None:
    """Raise NotFoundError if nothing is stored in a session, with the most similar name that is in use."""
    with storage.read() as reader:
        if reader.count(Scope(session_id=session)):
            return
        names, _ = reader.find_names("session_id", "", Scope(), NAMES_COMPARED)
    by_lower_case = {name.lower(): name for name in names}
    similar = get_close_matches(session.lower(), by_lower_case, n=1)
    advice = f'did you mean "{by_lower_case[similar[0]]}"?' if similar else "run `vector-memory sessions` to list them."
    raise NotFoundError(f'There is no session "{session}": {advice}')
