"""What the servers of several teams share: the namespaces with their quotas, the tokens, and a key."""

import os
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vector_memory.domain.user_files import read_file
from vector_memory.errors import DatabaseError, NotFoundError, ValidationError
from vector_memory.settings import DATABASE_NAME, DEFAULT_DIM, DatabaseUrl, MemoryAddress
from vector_memory.storage.disk.drafts import Rules, draft_of
from vector_memory.storage.disk.filesystem import log_of, make_private_folders, size_of
from vector_memory.storage.disk.ignoring import make_own_folder
from vector_memory.storage.opening import open_shared
from vector_memory.tenancy.quotas import Quota, read_quota, write_quota
from vector_memory.tenancy.tokens import Token, Tokens, token_file, token_of

if TYPE_CHECKING:
    from vector_memory.storage.opening import HeldMemory, SharedTables


class Sizes(NamedTuple):
    """How much a namespace takes, in bytes. `log_bytes`: of its own write-ahead log, if it has one."""

    database_bytes: int
    log_bytes: int


class Registry(ABC):
    """Safe to use from several threads; several processes may use the same one."""

    longest_name: int
    tokens: Tokens
    """The tokens that open the namespaces."""

    def create(self, name: str) -> None:
        """Create an empty namespace. Raises ValidationError for a name that is invalid or in use."""
        if not self.valid(name):
            raise ValidationError(
                f"A namespace's name has up to {self.longest_name} lower-case letters, digits, hyphens and underscores."
            )
        if not self._added(name):
            raise ValidationError(f"There is a namespace {name} already.")

    def valid(self, name: str) -> bool:
        """Return whether a namespace may have this name."""
        return NAME.fullmatch(name) is not None and len(name) <= self.longest_name

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all namespaces, sorted."""

    @abstractmethod
    def _added(self, name: str) -> bool:
        """Create an empty namespace unless the name is in use, and return whether it did."""

    @abstractmethod
    def require(self, name: str) -> None:
        """Raise NotFoundError unless there is such a namespace."""

    @abstractmethod
    def address(self, name: str) -> MemoryAddress:
        """Return where the memory of a namespace is."""

    @abstractmethod
    def quota(self, name: str) -> Quota:
        """Return the limits of a namespace. Raises ConfigurationError if they are damaged."""

    @abstractmethod
    def set_quota(self, name: str, quota: Quota) -> None:
        """Limit a namespace. Servers notice it within seconds. Raises NotFoundError."""

    @abstractmethod
    def sizes(self, name: str) -> Sizes:
        """Return how much a namespace takes."""

    @abstractmethod
    def key(self) -> bytes:
        """Return a secret that all servers share."""

    def require_available(self) -> None:  # noqa: B027 - a folder is always there
        """Raise DatabaseError if nothing can be read at the moment."""

    def close(self) -> None:  # noqa: B027 - files are opened for each use
        """Close what is open. Repeated calls do nothing."""


def missing_namespace(name: str) -> NotFoundError:
    """Return the error for a namespace that does not exist."""
    return NotFoundError(f"There is no namespace {name}: create it with `vector-memory namespace create {name}`.")


NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
FOLDER = "namespaces"
KEY_BYTES = 32


class FolderRegistry(Registry):
    """The registry in a data folder."""

    longest_name = 64

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._folder = data_dir / FOLDER
        self.tokens = token_file(data_dir)

    def names(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        return sorted(path.name for path in self._folder.glob("*/") if self.valid(path.name))

    def _added(self, name: str) -> bool:
        make_own_folder(self._data_dir)
        make_private_folders(self._folder)
        try:
            (self._folder / name).mkdir(mode=0o700)
        except FileExistsError:
            return False
        return True

    def require(self, name: str) -> None:
        """Raise NotFoundError unless there is such a namespace."""
        if not self.valid(name) or not (self._folder / name).is_dir():
            raise missing_namespace(name)

    def address(self, name: str) -> Path:
        """Return the file of a namespace."""
        return self._folder / name / DATABASE_NAME

    def quota(self, name: str) -> Quota:
        """Return the limits of a namespace. Raises ConfigurationError if their file is damaged."""
        return read_quota(self._folder / name)

    def set_quota(self, name: str, quota: Quota) -> None:
        """Limit a namespace. Raises NotFoundError."""
        self.require(name)
        write_quota(self._folder / name, quota)

    def sizes(self, name: str) -> Sizes:
        """Return the sizes of a namespace's files."""
        path = self.address(name)
        return Sizes(size_of(path), size_of(log_of(path)))

    def key(self) -> bytes:
        """Return the key of the folder, which is made at its first use."""
        path = self._data_dir / "state.key"
        if not path.exists():
            make_own_folder(self._data_dir)
            with suppress(ValidationError), draft_of(path, Rules()) as draft:  # unless another worker was faster
                with draft.open() as stream:
                    stream.write(os.urandom(KEY_BYTES))
                draft.publish()
        return read_file(path)


QUOTA_SECONDS = 2.0
"""How long a quota is believed before it is read again."""


class DatabaseRegistry(Registry):
    """The registry in the `tables` of a PostgreSQL database. `dimensions`: the length of vectors in new namespaces."""

    longest_name = 60
    """A schema's name has up to 63 characters, three of which are the prefix."""

    def __init__(self, address: DatabaseUrl, dimensions: int = DEFAULT_DIM) -> None:
        self._address = address
        self._dimensions = dimensions
        self.tables = open_shared(address)
        self._quotas: dict[str, tuple[Quota, float]] = {}
        self.tokens = TokenTable(self.tables)

    def names(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        return self.tables.namespaces()

    def _added(self, name: str) -> bool:
        return self.tables.add_namespace(name, self.address(name).schema, self._dimensions)

    def require(self, name: str) -> None:
        """Raise NotFoundError unless there is such a namespace."""
        self.quota(name)

    def address(self, name: str) -> DatabaseUrl:
        """Return the schema of a namespace."""
        return self._address.of_namespace(name)

    def quota(self, name: str) -> Quota:
        """Return the limits of a namespace. Raises NotFoundError."""
        known, until = self._quotas.get(name, (Quota(), 0.0))
        if time.monotonic() < until:
            return known
        limits = self.tables.limits(name)
        if limits is None:
            raise missing_namespace(name)
        self._quotas[name] = quota, _ = Quota(**limits), time.monotonic() + QUOTA_SECONDS
        return quota

    def set_quota(self, name: str, quota: Quota) -> None:
        """Limit a namespace. Servers notice it within seconds. Raises NotFoundError."""
        if not self.tables.set_limits(name, asdict(quota)):
            raise missing_namespace(name)

    def sizes(self, name: str) -> Sizes:
        """Return the size of a namespace's tables; the log is the server's."""
        return Sizes(self.tables.size_of(self.address(name).schema), 0)

    def held(self, name: str) -> AbstractContextManager["HeldMemory"]:
        """Let the writers of a namespace wait during the block."""
        return self.tables.held(self.address(name).schema)

    def memory_name(self, name: str) -> str | None:
        """Return the random name of the memory of a namespace; None: there is no memory."""
        return self.tables.memory_name(self.address(name).schema)

    def tokens_of(self, name: str) -> list[Mapping[str, Any]]:
        """Return the tokens of a namespace."""
        return [token for token in self.tables.tokens() if token["namespace"] == name]

    def require_free(self, tokens: Sequence[Mapping[str, Any]]) -> None:
        """Raise ValidationError if there are other tokens under the names of these."""
        known = {token["name"]: token["sha256"] for token in self.tables.tokens()}
        for token in tokens:
            if known.get(token["name"], token["sha256"]) != token["sha256"]:
                raise ValidationError(
                    f"The other database has another token {token['name']}: revoke one of them first."
                )

    def take_over(self, name: str, quota: Quota, tokens: Sequence[Mapping[str, Any]]) -> None:
        """Add a namespace whose memory is here, with the tokens of another database. May be repeated."""
        self.require_free(tokens)
        self._added(name)
        self.set_quota(name, quota)
        for token in tokens:
            self.tables.add_token(token)

    def key(self) -> bytes:
        """Return a secret that all servers of the database share."""
        return self.tables.key()

    def require_available(self) -> None:
        """Raise DatabaseError if the database cannot be reached."""
        self.tables.ping()

    def close(self) -> None:
        """Close all connections."""
        self.tables.close()


class TokenTable(Tokens):
    """The tokens in a table of the database. While that is away, those that were seen before are still known.

    They open nothing then, but their owners learn what is wrong, instead of that they are unknown.
    """

    def __init__(self, tables: "SharedTables") -> None:
        self._tables = tables
        self._lock = threading.Lock()
        self._seen: dict[str, Token] = {}

    def tokens(self) -> tuple[Token, ...]:
        """Return all tokens, also expired ones, in the order of their creation."""
        return tuple(token_of(**fields) for fields in self._tables.tokens())

    def _with_hash(self, digest: str) -> Token | None:
        try:
            fields = self._tables.token(digest)
        except DatabaseError:
            with self._lock:
                if digest in self._seen:
                    return self._seen[digest]
            raise
        with self._lock:
            if fields is None:
                self._seen.pop(digest, None)
                return None
            self._seen[digest] = token = token_of(**fields)
            return token

    def _add(self, token: Token) -> bool:
        sessions = None if token.sessions is None else list(token.sessions)
        return self._tables.add_token(asdict(token) | {"sessions": sessions})

    def _remove(self, name: str) -> bool:
        return self._tables.remove_token(name)
