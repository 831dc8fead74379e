"""The namespaces of a server: each is a folder with a memory file of its own."""

import re
import threading
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import ClosedMemoryError, NotFoundError, ValidationError
from vector_memory.settings import DATABASE_NAME, Settings
from vector_memory.storage.disk.filesystem import log_of, make_private_folders
from vector_memory.store import SessionMemoryStore
from vector_memory.tenancy.callers import Caller
from vector_memory.tenancy.quotas import Pace, Quota, read_quota, write_quota

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
FOLDER = "namespaces"


class Sizes(NamedTuple):
    """The sizes of a namespace's files, in bytes."""

    database_bytes: int
    log_bytes: int


def size_of(path: Path) -> int:
    """Return the size of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


class Namespaces:
    """The memories of a data folder. They are opened at their first use and share one embedding model.

    Safe to use from several threads; several processes may serve the same folder.
    """

    def __init__(self, data_dir: Path, settings: Settings | None = None, *, read_only: bool = False) -> None:
        self.settings = settings = settings or Settings()
        self._read_only = read_only
        self._folder = data_dir / FOLDER
        self._model = EmbeddingModel(lambda: load_embedder(settings))
        self._lock = threading.Lock()
        self._open: dict[str, SessionMemoryStore] = {}
        self._paces: defaultdict[str, Pace] = defaultdict(Pace)
        self._works_in_background = False
        self._closed = False

    def names(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        return sorted(path.name for path in self._folder.glob("*/") if NAME.fullmatch(path.name))

    def create(self, name: str) -> None:
        """Create an empty namespace. Raises ValidationError for a name that is invalid or in use."""
        if not NAME.fullmatch(name):
            raise ValidationError(
                "A namespace's name has up to 64 lower-case letters, digits, hyphens and underscores."
            )
        make_private_folders(self._folder)
        try:
            (self._folder / name).mkdir(mode=0o700)
        except FileExistsError:
            raise ValidationError(f"There is a namespace {name} already.") from None

    def require(self, name: str) -> None:
        """Raise NotFoundError unless there is such a namespace."""
        if not NAME.fullmatch(name) or not (self._folder / name).is_dir():
            raise NotFoundError(
                f"There is no namespace {name}: create it with `vector-memory namespace create {name}`."
            )

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
        quota = read_quota(self._folder / name)
        self._paces[name].count(quota.calls_per_minute)
        if stores and quota != Quota(calls_per_minute=quota.calls_per_minute):
            memories = 0 if quota.memories is None else store.count_memories()
            quota.require_room(memories, self.sizes(name).database_bytes)

    def set_quota(self, name: str, quota: Quota) -> None:
        """Limit a namespace. Raises NotFoundError."""
        self.require(name)
        write_quota(self._folder / name, quota)

    def sizes(self, name: str) -> Sizes:
        """Return the sizes of a namespace's files."""
        path = self._folder / name / DATABASE_NAME
        return Sizes(size_of(path), size_of(log_of(path)))

    @property
    def has_model(self) -> bool:
        """Whether the embedding model is loaded."""
        return self._model.is_ready

    def problem(self) -> str | None:
        """Say why calls cannot be answered completely yet; None: they can."""
        if self._closed:
            return "The server is ending."
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

    def _opened(self, name: str) -> SessionMemoryStore:
        with self._lock:
            if self._closed:
                raise ClosedMemoryError
            if name not in self._open:
                self.require(name)
                path = self._folder / name / DATABASE_NAME
                store = SessionMemoryStore(path, self.settings, model=self._model, read_only=self._read_only)
                if self.settings.embed_in_background:
                    store.defer_vectors()
                if self._works_in_background:
                    store.start_background_work()
                self._open[name] = store
            return self._open[name]

    def _stores(self) -> list[SessionMemoryStore]:
        with self._lock:
            return list(self._open.values())
