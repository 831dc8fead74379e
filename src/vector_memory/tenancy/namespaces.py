"""The namespaces of a server: each is a folder with a memory file of its own."""

import re
import threading
from pathlib import Path

from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import ClosedMemoryError, NotFoundError, ValidationError
from vector_memory.settings import DATABASE_NAME, Settings
from vector_memory.storage.disk.filesystem import make_private_folders
from vector_memory.store import SessionMemoryStore
from vector_memory.tenancy.callers import Caller

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
FOLDER = "namespaces"


class Namespaces:
    """The memories of a data folder. They are opened at their first use and share one embedding model.

    Safe to use from several threads; several processes may serve the same folder.
    """

    def __init__(self, data_dir: Path, settings: Settings | None = None) -> None:
        self.settings = settings = settings or Settings()
        self._folder = data_dir / FOLDER
        self._model = EmbeddingModel(lambda: load_embedder(settings))
        self._lock = threading.Lock()
        self._open: dict[str, SessionMemoryStore] = {}
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
                store = SessionMemoryStore(path, self.settings, model=self._model)
                if self.settings.embed_in_background:
                    store.defer_vectors()
                if self._works_in_background:
                    store.start_background_work()
                self._open[name] = store
            return self._open[name]

    def _stores(self) -> list[SessionMemoryStore]:
        with self._lock:
            return list(self._open.values())
