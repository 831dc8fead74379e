"""State that the servers for several teams share: the namespaces with their quotas, the tokens, and a key."""

import hashlib
import json
import os
import re
import secrets
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vector_memory.domain.callers import Caller, Permission
from vector_memory.errors import DatabaseError, NotFoundError, QuotaExceededError, ValidationError
from vector_memory.settings import DEFAULT_DIM, MemoryAddress
from vector_memory.storage.disk.filesystem import lock, lock_file, make_private_folders
from vector_memory.storage.opening import open_teams
from vector_memory.storage.teams import TeamTables
from vector_memory.writing.writer import require_room

# The tokens of a server. Only a hash of each is kept.

PREFIX = "vm_"
"""Prefix by which people and scanners recognize a token."""

SECRET_BYTES = 32
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(Caller):
    """A stored token. `sha256`: of the secret, in hexadecimal. `expires_at`: Unix time; None: never."""

    sha256: str
    created_at: float
    expires_at: float | None = None

    def has_expired(self) -> bool:
        """Return whether its time is over."""
        return self.expires_at is not None and self.expires_at <= time.time()


class Tokens:
    """The tokens that open namespaces. Safe to use from several processes: changes are seen at the next call.

    While the tables cannot be read, tokens seen before are still recognized. They open nothing then, but their owners
    learn the reason rather than that the token is unknown.
    """

    def __init__(self, tables: TeamTables) -> None:
        self._tables = tables
        self._seen: dict[str, Token] = {}

    def tokens(self) -> tuple[Token, ...]:
        """Return all tokens, also expired ones, in the order of their creation."""
        with self._tables.transaction() as teams:
            return tuple(token_of(**fields) for fields in teams.tokens())

    def find(self, secret: str) -> Token | None:
        """Return the valid token with this secret. The time it takes does not reveal which one matches."""
        digest = _hash(secret)
        try:
            with self._tables.transaction() as teams:
                fields = teams.token(digest)
        except DatabaseError:
            if (found := self._seen.get(digest)) is None:
                raise
        else:
            found = None if fields is None else token_of(**fields)
            self._seen.pop(digest, None)
            if found is not None:
                self._seen[digest] = found
        return None if found is None or found.has_expired() else found

    def create(
        self,
        name: str,
        namespace: str,
        permission: Permission,
        *,
        sessions: tuple[str, ...] | None = None,
        agent_id: str | None = None,
        expires_at: float | None = None,
    ) -> str:
        """Add a token and return its secret, which is kept nowhere. Raises ValidationError for a name in use."""
        if not NAME.fullmatch(name):
            raise ValidationError(
                "A token's name has up to 64 lower-case letters, digits, dots, hyphens and underscores."
            )
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        token = Token(
            name=name,
            namespace=namespace,
            permission=permission,
            sha256=_hash(secret),
            created_at=time.time(),
            expires_at=expires_at,
            sessions=sessions,
            agent_id=agent_id,
        )
        with self._tables.transaction(writes=True) as teams:
            if not teams.add_token(asdict(token) | {"sessions": None if sessions is None else list(sessions)}):
                raise ValidationError(f"A token named {name} already exists: revoke it first, or choose another name.")
        return secret

    def revoke(self, name: str) -> None:
        """Remove a token: the next call with it is refused. Raises NotFoundError."""
        with self._tables.transaction(writes=True) as teams:
            if not teams.remove_token(name):
                raise NotFoundError(f"There is no token {name}: `vector-memory token list` names them.")


def _hash(secret: str) -> str:
    """Return the hash of a secret. A slow hash is not needed, because the secret has 256 random bits."""
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def token_of(*, permission: str, sessions: list[str] | str | None, **fields: object) -> Token:
    """Return a token of its fields as they are stored. An engine without lists keeps them as JSON."""
    listed = json.loads(sessions) if isinstance(sessions, str) else sessions
    known = None if listed is None else tuple(listed)
    return Token(permission=Permission(permission), sessions=known, **fields)  # type: ignore[arg-type]  # checked by use


PACES = "paces"
MINUTE = 60.0
HEAD = struct.Struct("qq")
"""Begins a file of calls: the limit, and how many calls were noted. Their times follow, the latest `limit` of them."""

TIME = struct.Struct("d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of a namespace; None: none. `megabytes`: of its database. `calls_per_minute`: on each machine."""

    memories: int | None = None
    megabytes: int | None = None
    calls_per_minute: int | None = None

    @property
    def limits_size(self) -> bool:
        """Whether it limits the size of the namespace."""
        return self.memories is not None or self.megabytes is not None

    def require_room(self, memories: int, size: int) -> None:
        """Raise QuotaExceededError if a namespace of this size has no room left."""
        if self.memories is not None:
            require_room(memories, self.memories)
        if self.megabytes is not None and size >= self.megabytes * 2**20:
            raise QuotaExceededError(
                f"This namespace may take {self.megabytes:,} MB and is full: delete memories, or ask for more."
            )


class Paces:
    """Counts the calls of the last minute in each namespace, in files that the processes of a machine share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / PACES

    def count(self, name: str, most: int | None) -> None:
        """Count a call. Raises QuotaExceededError, which says when to try again, if there were `most` already."""
        if most is None:
            return
        make_private_folders(self._folder)
        with lock_file(self._folder / name) as descriptor:
            lock(descriptor)
            wait = wait_for_place(descriptor, most) if most else MINUTE
        if wait:
            raise QuotaExceededError(
                f"This namespace may make {most:,} calls a minute: try again in {max(1, round(wait))} s."
            )


def wait_for_place(descriptor: int, most: int) -> float:
    """Note a call in place of the one `most` calls ago, or return the seconds until that one is a minute old.

    Times in the future are from before the machine was started.
    """
    now, head = time.monotonic(), os.pread(descriptor, HEAD.size, 0)
    limit, number = HEAD.unpack(head) if len(head) == HEAD.size else (most, 0)
    if limit != most:  # the limit was changed
        number = 0
    place = HEAD.size + number % most * TIME.size
    if number >= most:
        (before,) = TIME.unpack(os.pread(descriptor, TIME.size, place))
        if now - MINUTE < before <= now:
            return float(before + MINUTE - now)
    os.pwrite(descriptor, TIME.pack(now), place)
    os.pwrite(descriptor, HEAD.pack(most, number + 1), 0)
    return 0.0


NAMESPACE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")
"""A schema's name has up to 63 characters, three of which are the prefix."""

UNLIMITED = Quota()

QUOTA_SECONDS = 2.0
"""How long a quota is cached before it is read again."""


class Registry:
    """The registry in a data folder, or in a database. `dimensions`: the length of vectors in new schemas.

    Safe to use from several threads; several processes may use the same one. `tokens`: those that open the namespaces.
    `address`, `sizes`, `close`: as of its tables.
    """

    def __init__(self, place: MemoryAddress, dimensions: int = DEFAULT_DIM) -> None:
        self.tables = tables = open_teams(place, dimensions)
        self.address, self.sizes, self.close = tables.address, tables.sizes, tables.close
        self.tokens = Tokens(self.tables)
        self._quotas: dict[str, tuple[Quota, float]] = {}

    def names(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        with self.tables.transaction() as teams:
            return teams.namespaces()

    def create(self, name: str, quota: Quota = UNLIMITED) -> None:
        """Create an empty namespace, or its place again. Raises ValidationError for an invalid name or one in use."""
        if not NAMESPACE_NAME.fullmatch(name):
            raise ValidationError(
                "A namespace's name has up to 60 lower-case letters, digits, hyphens and underscores."
            )
        with self.tables.transaction(writes=True) as teams:
            if not teams.add_namespace(name, asdict(quota)):
                if self.tables.has_memory(name):
                    raise ValidationError(f"A namespace named {name} already exists.")
                teams.set_limits(name, asdict(quota))
            teams.make_memory(name)

    def require(self, name: str) -> None:
        """Raise NotFoundError unless there is such a namespace."""
        self.quota(name)
        if not self.tables.has_memory(name):
            raise missing_namespace(name)

    def quota(self, name: str) -> Quota:
        """Return the limits of a namespace. Raises NotFoundError."""
        known, until = self._quotas.get(name, (UNLIMITED, 0.0))
        if time.monotonic() < until:
            return known
        with self.tables.transaction() as teams:
            limits = teams.limits(name)
        if limits is None:
            raise missing_namespace(name)
        self._quotas[name] = quota, _ = Quota(**limits), time.monotonic() + QUOTA_SECONDS
        return quota

    def set_quota(self, name: str, quota: Quota) -> None:
        """Limit a namespace. Servers notice it within seconds. Raises NotFoundError."""
        with self.tables.transaction(writes=True) as teams:
            if not teams.set_limits(name, asdict(quota)):
                raise missing_namespace(name)

    def tokens_of(self, name: str) -> list[Mapping[str, Any]]:
        """Return the tokens of a namespace."""
        with self.tables.transaction() as teams:
            return [token for token in teams.tokens() if token["namespace"] == name]

    def require_free(self, tokens: Sequence[Mapping[str, Any]]) -> None:
        """Raise ValidationError if other tokens have these names."""
        with self.tables.transaction() as teams:
            known = {token["name"]: token["sha256"] for token in teams.tokens()}
        for token in tokens:
            if known.get(token["name"], token["sha256"]) != token["sha256"]:
                raise ValidationError(
                    f"The other database has another token {token['name']}: revoke one of them first."
                )

    def take_over(self, name: str, quota: Quota, tokens: Sequence[Mapping[str, Any]]) -> None:
        """Add a namespace whose memory is here, with the tokens of another database. May be repeated."""
        self.require_free(tokens)
        with self.tables.transaction(writes=True) as teams:
            is_new = teams.add_namespace(name, asdict(quota))
            for token in tokens:
                teams.add_token(token)
            if is_new:
                teams.make_memory(name)

    def key(self) -> bytes:
        """Return the secret that all servers share."""
        with self.tables.transaction() as teams:
            return teams.key()


def missing_namespace(name: str) -> NotFoundError:
    """Return the error for a namespace that does not exist."""
    return NotFoundError(f"There is no namespace {name}: create it with `vector-memory namespace create {name}`.")
