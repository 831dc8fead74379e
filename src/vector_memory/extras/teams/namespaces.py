"""The namespaces of a server: each is a separate memory."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from vector_memory.domain.callers import Caller
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.embedding.model import return_freed_memory
from vector_memory.errors import ClosedMemoryError, ConfigurationError, DatabaseError, ValidationError, where
from vector_memory.extras.teams.registry import Quota, Registry
from vector_memory.settings import MemoryAddress, Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.backfill import Progress
from vector_memory.upkeep.copying import copy_all
from vector_memory.writing.outbox import outbox_of_memory

logger = logging.getLogger(__name__)

IDLE_SECONDS = 600.0
"""A namespace unused for this long is closed."""

MOST_OPEN = 64
"""Namespaces that are open at the same time, unless more are in use. Each has about 2 MB, 8 files and 3 threads."""

SECONDS_BETWEEN_LOOKS = 60.0
"""Texts may wait for a namespace that is not open."""

SECONDS_BETWEEN_ERASING = 12 * 3_600.0
ERASED_AT_ONCE = 16
"""Expired memories of closed namespaces are erased twice a day, a few namespaces at a time."""


@dataclass(slots=True, eq=False)
class OpenNamespace:
    """A namespace that is open or in use. `lock`: held while it is opened or closed. `users`: calls that use it."""

    store: SessionMemoryStore | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    used_at: float = 0.0


class Namespaces:
    """The memories of a registry. They are open while they are used, and share one embedding model.

    Safe to use from several threads; several processes may serve the same registry.
    """

    def __init__(
        self,
        registry: Registry,
        settings: Settings | None = None,
        *,
        read_only: bool = False,
        idle_seconds: float = IDLE_SECONDS,
        most_open: int = MOST_OPEN,
    ) -> None:
        self.registry = registry
        self.settings = settings = settings or Settings()
        self._idle_seconds = idle_seconds
        self._most_open = most_open
        self._read_only = read_only
        self._model = EmbeddingModel(lambda: load_embedder(settings), queries_first=True)
        self._lock = threading.Lock()
        self._places: dict[str, OpenNamespace] = {}
        self._works_in_background = False
        self._next_look = self._erase_at = 0.0
        self._to_erase: list[str] = []
        self._closed = False

    @contextmanager
    def in_use(self, name: str) -> Iterator[OpenNamespace]:
        """Keep a namespace open during the block once it is opened. Opens nothing, and takes no time."""
        with self._lock:
            if self._closed:
                raise ClosedMemoryError
            place = self._places.setdefault(name, OpenNamespace())
            place.users += 1
        try:
            yield place
        finally:
            with self._lock:
                place.users -= 1
                place.used_at = time.monotonic()
                if not place.users and place.store is None:
                    del self._places[name]

    def is_open(self, name: str) -> bool:
        """Return whether a namespace is open."""
        place = self._places.get(name)
        return place is not None and place.store is not None

    def open(self, name: str) -> None:
        """Open a namespace that is in use. Takes long if its file is upgraded: never call it in the event loop.

        Raises NotFoundError if there is no such namespace.
        """
        place = self._places[name]
        with place.lock:
            if self._closed:
                raise ClosedMemoryError
            if place.store is None:
                self.registry.require(name)
                place.store = self._opened(self.registry.address(name))
        while self.open_count > self._most_open and self._close_one():
            pass

    def store_of(self, caller: Caller) -> SessionMemoryStore:
        """Return the caller's memory, limited to the sessions of the token; it is open. Do not close it."""
        store = self._places[caller.namespace].store
        if store is None:
            raise ClosedMemoryError
        return store if caller.sessions is None else store.limited_to(caller.sessions)

    def admit_store(self, name: str, quota: Quota) -> None:
        """Admit a call that stores in a namespace that is open. Never call it in the event loop.

        Raises QuotaExceededError if the namespace is full. Another call or process may fill it before this one stores,
        so the store counts again.
        """
        store = self._places[name].store
        if store is None:
            raise ClosedMemoryError
        store.limit(quota.memories)
        if quota.limits_size:
            quota.require_room(store.count_memories(), self.registry.sizes(name).database_bytes)

    @property
    def open_count(self) -> int:
        """How many namespaces are open in this process."""
        return len(self._open_places())

    def count_pending(self) -> dict[str, int]:
        """Return how many memories of each open namespace have vectors being computed."""
        counts = {}
        for name, place in self._open_places().items():
            if (store := place.store) is not None:
                with suppress(DatabaseError):  # it may be closed at any moment
                    counts[name] = store.count_pending()
        return counts

    @property
    def has_model(self) -> bool:
        """Whether the embedding model is loaded."""
        return self._model.is_ready

    def problem(self) -> str | None:
        """Return why calls cannot be answered completely yet; None if they can."""
        if self._closed:
            return "The server is ending."
        try:
            self.registry.key()
        except (ConfigurationError, DatabaseError) as error:
            return str(error)
        return None if self._model.failure is None else str(self._model.failure)

    def start_background_work(self) -> None:
        """Load the model, and from now on run the background work of each namespace in use."""
        self._works_in_background = True
        if self.settings.warm_start_embedding_model:
            self._model.start_loading()
        for place in self._open_places().values():
            if place.store is not None:
                place.store.start_background_work()

    def unload_idle(self) -> None:
        """Unload the model and close idle namespaces; open those for which texts wait, and erase what has expired.

        May take seconds.
        """
        self._model.unload_if_idle(self.settings.embedding_idle_seconds)
        closed = False
        with suppress(ClosedMemoryError):
            while self._close_one(time.monotonic() - self._idle_seconds):
                closed = True
        if closed:
            return_freed_memory()
        if self._works_in_background and not self._read_only and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
            self._open_waiting()
            self._erase_expired()

    def close(self) -> None:
        """Close all memories. Repeated calls do nothing."""
        with self._lock:
            self._closed, places = True, list(self._places.values())
        for place in places:
            with place.lock:
                if place.store is not None:
                    place.store.close()
        self.registry.close()

    def _opened(self, address: MemoryAddress) -> SessionMemoryStore:
        store = SessionMemoryStore(address, self.settings, model=self._model, read_only=self._read_only)
        if self.settings.embed_in_background:
            store.defer_vectors()
        if self._works_in_background:
            store.start_background_work()
        return store

    def _open_waiting(self) -> None:
        """Open as many namespaces with waiting texts as allowed, so that these are stored even if nobody calls.

        Another process has left them behind, or this one has closed the namespace before they could be stored.
        """
        try:
            for name in self.registry.names():
                if self.open_count >= self._most_open:
                    return
                outbox = outbox_of_memory(self.registry.address(name))
                if not self.is_open(name) and outbox is not None and not outbox.is_empty():
                    with self.in_use(name):
                        self.open(name)
        except Exception as error:  # the next look may succeed
            logger.warning("What waits for a namespace is not stored yet: %s", where(error))

    def _erase_expired(self) -> None:
        """Erase expired memories in the next closed namespaces; open ones do so themselves."""
        if not self._to_erase and time.monotonic() >= self._erase_at:
            self._erase_at = time.monotonic() + SECONDS_BETWEEN_ERASING
            self._to_erase = self.registry.names()
        now, self._to_erase = self._to_erase[:ERASED_AT_ONCE], self._to_erase[ERASED_AT_ONCE:]
        for name in now:
            if self.is_open(name):
                continue
            try:
                with SessionMemoryStore(self.registry.address(name), self.settings, model=self._model) as store:
                    store.erase_expired()
            except Exception as error:  # it may have been deleted, or the next turn succeeds
                logger.warning("What has expired in a namespace is not erased yet: %s", where(error))

    def _open_places(self) -> dict[str, OpenNamespace]:
        with self._lock:
            return {name: place for name, place in self._places.items() if place.store is not None}

    def _close_one(self, unused_since: float = math.inf) -> bool:
        """Close the least recently used namespace that is idle since a time; False: there is none."""
        unused = [
            (place.used_at, name)
            for name, place in self._open_places().items()
            if not place.users and place.used_at <= unused_since and place.store and not place.store.is_busy
        ]
        if not unused:
            return False
        with self.in_use(min(unused)[1]) as place, place.lock:
            with self._lock:
                if place.users > 1:
                    return False
                store, place.store = place.store, None
            try:
                if store is not None:
                    store.close()
            except Exception as error:
                logger.warning("A namespace was not closed properly: %s", where(error))
        return True


# Moves a namespace to another database: its memory, limits and tokens.


OTHERS = (
    "The other database has a namespace with this name: move it to another one, or drop that schema and its row in "
    "the table `namespaces`."
)
ELSEWHERE = "An earlier call has moved this namespace to another database: repeat the command with the URL of that one."


class Moved(NamedTuple):
    """How many memories were copied, and for how long writers waited. None and 0: an earlier call has done that."""

    memories: int | None
    seconds: float


def move(
    source: Registry, target: Registry, name: str, shown: Callable[[str], AbstractContextManager[Progress]]
) -> Moved:
    """Move a namespace. After a failure, repeat the call.

    Raises NotFoundError if there is none, and ValidationError if the target has its name, other memories in its
    schema, or other tokens under the same names.
    """
    quota = source.quota(name)
    with source.tables.held(name) as memory:
        is_here = memory.heir is None
    if is_here:
        if name in target.names():
            raise ValidationError(OTHERS)
        target.require_free(source.tokens_of(name))
        copy_all(source.address(name), target.address(name), shown)
    with source.tables.held(name) as memory:
        began, memories = time.monotonic(), None
        if memory.heir is None:
            memories = copy_all(source.address(name), target.address(name), shown).memories
            memory.give_to(target.tables.memory_name(name))
        elif memory.heir != target.tables.memory_name(name):
            raise ValidationError(ELSEWHERE)
    waited = time.monotonic() - began
    target.take_over(name, quota, source.tokens_of(name))
    with source.tables.transaction(writes=True) as teams:
        teams.remove_namespace(name)
    return Moved(memories, 0.0 if memories is None else waited)
