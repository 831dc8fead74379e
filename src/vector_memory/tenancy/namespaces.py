"""The namespaces of a server: each is a memory of its own."""

import threading
from collections import defaultdict

from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import ClosedMemoryError, DatabaseError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.tenancy.callers import Caller
from vector_memory.tenancy.quotas import Pace, Quota
from vector_memory.tenancy.registry import Registry


class Namespaces:
    """The memories of a registry. They are opened at their first use and share one embedding model.

    Safe to use from several threads; several processes may serve the same registry.
    """

    def __init__(self, registry: Registry, settings: Settings | None = None, *, read_only: bool = False) -> None:
        self.registry = registry
        self.settings = settings = settings or Settings()
        self._read_only = read_only
        self._model = EmbeddingModel(lambda: load_embedder(settings))
        self._lock = threading.Lock()
        self._open: dict[str, SessionMemoryStore] = {}
        self._paces: defaultdict[str, Pace] = defaultdict(Pace)
        self._works_in_background = False
        self._closed = False

    def store_of(self, caller: Caller) -> SessionMemoryStore:
        """Return the caller's memory, limited to the sessions of the token. Do not close it."""
        store = self._opened(caller.namespace)
        return store if caller.sessions is None else store.limited_to(caller.sessions)

    def admit(self, name: str, *, stores: bool) -> None:
        """Count a call, and open the namespace. Takes long if its file is upgraded: never call it in the event loop.

        Raises QuotaExceededError if there were too many calls, or for a store if the namespace is full, and
        NotFoundError if there is no such namespace.
        """
        store = self._opened(name)
        quota = self.registry.quota(name)
        self._paces[name].count(quota.calls_per_minute)
        if stores and quota != Quota(calls_per_minute=quota.calls_per_minute):
            memories = 0 if quota.memories is None else store.count_memories()
            quota.require_room(memories, self.registry.sizes(name).database_bytes)

    @property
    def has_model(self) -> bool:
        """Whether the embedding model is loaded."""
        return self._model.is_ready

    def problem(self) -> str | None:
        """Say why calls cannot be answered completely yet; None: they can."""
        if self._closed:
            return "The server is ending."
        try:
            self.registry.require_available()
        except DatabaseError as error:
            return str(error)
        return None if self._model.failure is None else str(self._model.failure)

    def start_background_work(self) -> None:
        """Load the model, and from now on do the background work of each namespace that is in use."""
        self._works_in_background = True
        if self.settings.warm_start_embedding_model:
            self._model.start_loading()
        for store in self._stores():
            store.start_background_work()

    def unload_idle_model(self) -> None:
        """Give the model's memory back if it was not used for as long as the settings say."""
        if self.settings.embedding_idle_seconds:
            self._model.unload_if_idle(self.settings.embedding_idle_seconds)

    def close(self) -> None:
        """Close all memories. Repeated calls do nothing."""
        self._closed = True
        for store in self._stores():
            store.close()
        self.registry.close()

    def _opened(self, name: str) -> SessionMemoryStore:
        with self._lock:
            if self._closed:
                raise ClosedMemoryError
            if name not in self._open:
                self.registry.require(name)
                address = self.registry.address(name)
                store = SessionMemoryStore(address, self.settings, model=self._model, read_only=self._read_only)
                if self.settings.embed_in_background:
                    store.defer_vectors()
                if self._works_in_background:
                    store.start_background_work()
                self._open[name] = store
            return self._open[name]

    def _stores(self) -> list[SessionMemoryStore]:
        with self._lock:
            return list(self._open.values())
