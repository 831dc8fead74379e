"""Namespaces of several machines: each is a schema of one PostgreSQL database, which keeps what their servers share."""

import re
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from vector_memory.errors import DatabaseError
from vector_memory.settings import DEFAULT_DIM, DatabaseUrl
from vector_memory.storage.opening import open_shared
from vector_memory.tenancy.quotas import Quota
from vector_memory.tenancy.registry import Sizes, existing_name, invalid_name, missing_namespace
from vector_memory.tenancy.tokens import Token, Tokens, token_of

if TYPE_CHECKING:
    from vector_memory.storage.opening import SharedTables

LONGEST_NAME = 60
"""A schema's name has up to 63 characters, three of which are the prefix."""

NAME = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{LONGEST_NAME - 1}}}")

QUOTA_SECONDS = 2.0
"""How long a quota is believed before it is read again."""


class DatabaseRegistry:
    """`Registry` over a PostgreSQL database. `dimensions`: the length of the vectors of new namespaces."""

    def __init__(self, address: DatabaseUrl, dimensions: int = DEFAULT_DIM) -> None:
        self._address = address
        self._dimensions = dimensions
        self._tables = open_shared(address)
        self._quotas: dict[str, tuple[Quota, float]] = {}
        self.tokens: Tokens = TokenTable(self._tables)

    def names(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        return self._tables.namespaces()

    def create(self, name: str) -> None:
        """Create an empty namespace. Raises ValidationError for a name that is invalid or in use."""
        if not NAME.fullmatch(name):
            raise invalid_name(LONGEST_NAME)
        if not self._tables.add_namespace(name, self.address(name).schema, self._dimensions):
            raise existing_name(name)

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
        limits = self._tables.limits(name)
        if limits is None:
            raise missing_namespace(name)
        self._quotas[name] = quota, _ = Quota(**limits), time.monotonic() + QUOTA_SECONDS
        return quota

    def set_quota(self, name: str, quota: Quota) -> None:
        """Limit a namespace. Servers notice it within seconds. Raises NotFoundError."""
        if not self._tables.set_limits(name, asdict(quota)):
            raise missing_namespace(name)

    def sizes(self, name: str) -> Sizes:
        """Return the size of a namespace's tables; the log is the server's."""
        return Sizes(self._tables.size_of(self.address(name).schema), 0)

    def key(self) -> bytes:
        """Return a secret that all servers of the database share."""
        return self._tables.key()

    def require_available(self) -> None:
        """Raise DatabaseError if the database cannot be reached."""
        self._tables.ping()

    def close(self) -> None:
        """Close all connections."""
        self._tables.close()


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
