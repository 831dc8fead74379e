"""What the servers for several teams share besides memories: namespaces with their limits, tokens, a key."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from vector_memory.errors import ConfigurationError
from vector_memory.settings import MemoryAddress
from vector_memory.storage.connection import Queries

Fields = Mapping[str, Any]
"""The columns of a row, by name."""

KEY_BYTES = 32

TABLES = """
create table if not exists server_key (
    id {single} primary key check (id = 1),
    key {bytes} not null
){options};
create table if not exists namespaces (
    name {text} primary key,
    memories {id},
    megabytes {id},
    calls_per_minute {id}
){keyed};
create table if not exists tokens (
    name {text} primary key,
    namespace {text} not null,
    permission text not null,
    sha256 text not null unique,
    created_at {real} not null,
    expires_at {real},
    sessions {texts},
    agent_id text
){keyed};
"""
"""Each engine fills in its types, as in `storage.queries.tables`."""


class Sizes(NamedTuple):
    """How much a namespace takes, in bytes. `log_bytes`: of its own write-ahead log, if it has one."""

    database_bytes: int
    log_bytes: int


class HeldMemory(NamedTuple):
    """A memory whose writers wait until the end of a transaction.

    `heir`: the memory it was given to. `give_to`: hands its tables over to an heir at the end of the transaction; they
    then refuse use.
    """

    heir: str | None
    give_to: Callable[[str | None], None]


class Teams(Queries, ABC):
    """The namespaces and tokens, in a transaction."""

    @abstractmethod
    def make_memory(self, name: str) -> None:
        """Make a place for the memory of a namespace, unless there is one, at the end of the transaction."""

    def namespaces(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        return self.connection.fetch_column("select name from namespaces order by name")

    def add_namespace(self, name: str, limits: Fields) -> bool:
        """Create a namespace without a memory; False: it exists."""
        sql = """
            insert into namespaces (name, memories, megabytes, calls_per_minute)
            values (%(name)s, %(memories)s, %(megabytes)s, %(calls_per_minute)s) on conflict do nothing returning name
        """
        return self.connection.fetch_value(sql, {**limits, "name": name}) is not None

    def remove_namespace(self, name: str) -> None:
        """Remove a namespace and its tokens. Its memory stays."""
        self.connection.later("delete from tokens where namespace = %(name)s", {"name": name})
        self.connection.later("delete from namespaces where name = %(name)s", {"name": name})

    def limits(self, name: str) -> Fields | None:
        """Return the limits of a namespace; None: it does not exist."""
        sql = "select memories, megabytes, calls_per_minute from namespaces where name = %(name)s"
        return self.connection.fetch_one(dict, sql, {"name": name})

    def set_limits(self, name: str, limits: Fields) -> bool:
        """Replace the limits of a namespace; False: it does not exist."""
        sql = """
            update namespaces set memories = %(memories)s, megabytes = %(megabytes)s,
                calls_per_minute = %(calls_per_minute)s where name = %(name)s returning name
        """
        return self.connection.fetch_value(sql, {**limits, "name": name}) is not None

    def tokens(self) -> list[Fields]:
        """Return all tokens, in the order of their creation."""
        return self.connection.fetch(dict, "select * from tokens order by created_at, name")

    def token(self, sha256: str) -> Fields | None:
        """Return the token with this hash, if there is one."""
        return self.connection.fetch_one(dict, "select * from tokens where sha256 = %(hash)s", {"hash": sha256})

    def add_token(self, token: Fields) -> bool:
        """Store a token; False: its name is in use."""
        sql = """
            insert into tokens (name, namespace, permission, sha256, created_at, expires_at, sessions, agent_id)
            values (%(name)s, %(namespace)s, %(permission)s, %(sha256)s, %(created_at)s, %(expires_at)s, %(sessions)s,
                %(agent_id)s)
            on conflict (name) do nothing returning name
        """
        return self.connection.fetch_value(sql, token) is not None

    def remove_token(self, name: str) -> bool:
        """Remove a token; False: there is none with this name."""
        sql = "delete from tokens where name = %(name)s returning name"
        return self.connection.fetch_value(sql, {"name": name}) is not None

    def key(self) -> bytes:
        """Return the secret that all servers share."""
        return bytes(self.connection.fetch_value("select key from server_key"))


class TeamTables(ABC):
    """The tables of `Teams` in one place. Safe to use from several threads and processes."""

    @abstractmethod
    def transaction(self, *, writes: bool = False) -> AbstractContextManager[Teams]:
        """Read, or change, in a transaction. Raises DatabaseError."""

    @abstractmethod
    def address(self, name: str) -> MemoryAddress:
        """Return where the memory of a namespace is."""

    @abstractmethod
    def has_memory(self, name: str) -> bool:
        """Return whether the place of the memory of a namespace that exists is still there."""

    @abstractmethod
    def sizes(self, name: str) -> Sizes:
        """Return how much a namespace takes."""

    def held(self, name: str) -> AbstractContextManager[HeldMemory]:
        """Let the writers of a namespace wait during the block. Raises ConfigurationError if it cannot be moved."""
        raise ConfigurationError(f"The namespace {name} is a file: only one in a database can be moved.")

    def memory_name(self, name: str) -> str | None:  # noqa: ARG002 - see `held`
        """Return the random name of the memory of a namespace that can be moved; None: there is no memory."""
        return None

    def close(self) -> None:  # noqa: B027 - a file is opened for each transaction
        """Close what is open. Repeated calls do nothing."""
