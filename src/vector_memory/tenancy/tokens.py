"""The tokens of a server. Only a hash of each is kept."""

import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from pydantic import ValidationError as InvalidEntry

from vector_memory.domain.user_files import read_file
from vector_memory.errors import AccessDeniedError, ConfigurationError, NotFoundError, ValidationError
from vector_memory.storage.disk.drafts import Rules, draft_of
from vector_memory.storage.disk.ignoring import make_own_folder
from vector_memory.storage.disk.locking import lock, lock_file

logger = logging.getLogger(__name__)


class Permission(StrEnum):
    """What a token permits; each includes those before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    @property
    def included(self) -> tuple["Permission", ...]:
        """Itself and those that it includes, the smallest first."""
        return tuple(Permission)[: tuple(Permission).index(self) + 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The owner of a token. `sessions` None: all of the namespace. `agent_id` None: any."""

    name: str
    namespace: str
    permission: Permission
    sessions: tuple[str, ...] | None = None
    agent_id: str | None = None

    def may(self, permission: Permission) -> bool:
        """Return whether the token permits this."""
        return permission in self.permission.included

    def require(self, permission: Permission) -> None:
        """Raise AccessDeniedError unless the token permits this."""
        if not self.may(permission):
            raise AccessDeniedError(f"This needs a token with the scope {permission}; yours has {self.permission}.")


PREFIX = "vm_"
"""By which people and scanners recognize a token."""

SECRET_BYTES = 32
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")

Time = Annotated[float, Field(allow_inf_nan=False)]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True, slots=True, kw_only=True)
class Token(Caller):
    """What is kept of a token. `sha256`: of the secret, in hexadecimal. `expires_at`: Unix time; None: never."""

    name: Annotated[str, Field(pattern=rf"\A{NAME.pattern}\z")]
    sha256: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
    created_at: Time
    expires_at: Time | None = None

    def has_expired(self) -> bool:
        """Return whether its time is over."""
        return self.expires_at is not None and self.expires_at <= time.time()


class Tokens(ABC):
    """The tokens that open namespaces. Safe to use from several processes: changes are seen at the next call."""

    @abstractmethod
    def tokens(self) -> tuple[Token, ...]:
        """Return all tokens, also expired ones, in the order of their creation."""

    def find(self, secret: str) -> Token | None:
        """Return the valid token with this secret. The time it takes does not reveal which one matches."""
        found = self._with_hash(_hash(secret))
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
        if not self._add(token):
            raise ValidationError(f"There is a token {name} already: revoke it first, or choose another name.")
        return secret

    def revoke(self, name: str) -> None:
        """Remove a token: the next call with it is refused. Raises NotFoundError."""
        if not self._remove(name):
            raise NotFoundError(f"There is no token {name}: `vector-memory token list` names them.")

    def problem(self) -> str | None:
        """Return why changes of the tokens have no effect for now; None if they have."""
        return None

    @abstractmethod
    def _with_hash(self, digest: str) -> Token | None:
        """Return the token with this hash."""

    @abstractmethod
    def _add(self, token: Token) -> bool:
        """Store a token; return False if its name is in use."""

    @abstractmethod
    def _remove(self, name: str) -> bool:
        """Remove a token; return False if there is none with this name."""


class FileReading(NamedTuple):
    """What a file contained when it looked like `seen`. `problem`: why that is not a list of tokens."""

    seen: tuple[int, ...] | None
    tokens: tuple[Token, ...] = ()
    problem: str | None = None


class TokenFile(Tokens):
    """The tokens in one file, which is read again whenever it has changed.

    A server that has read it once keeps using what it knows while the file is damaged or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: FileReading | None = None
        self._good: tuple[Token, ...] | None = None
        self._said: str | None = None

    def tokens(self) -> tuple[Token, ...]:
        """Return all tokens, also expired ones, in the order of their creation. Raises ConfigurationError."""
        reading = self._read()
        if reading.problem is not None:
            raise ConfigurationError(reading.problem)
        return reading.tokens

    def problem(self) -> str | None:
        """Return why changes of the file have no effect for now; None if they have."""
        try:
            problem = self._read().problem
        except OSError as error:
            problem = f"The file of tokens cannot be read: {error.strerror}. The server keeps using those it knows."
        if problem is not None and problem != self._said:
            logger.error("%s", problem)
        self._said = problem
        return problem

    def _read(self) -> FileReading:
        """Return the file's current contents. Raises OSError."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._last, self._good = FileReading(None), ()
            return self._last
        seen = (status.st_ino, status.st_size, status.st_mtime_ns)
        last = self._last
        if last is None or last.seen != seen:
            last = reading_of(read_file(self._path), seen)
            if last.problem is None:
                self._good = last.tokens
            self._last = last
        return last

    def _known(self) -> tuple[Token, ...]:
        """Return the tokens as they are, or were before the file was damaged. Raises ConfigurationError."""
        if (problem := self.problem()) is not None and self._good is None:
            raise ConfigurationError(problem)
        return self._good or ()

    def _with_hash(self, digest: str) -> Token | None:
        found = None
        for token in self._known():
            if hmac.compare_digest(token.sha256, digest):
                found = token
        return found

    def _add(self, token: Token) -> bool:
        with self._changing() as tokens:
            is_new = all(other.name != token.name for other in tokens)
            if is_new:
                tokens.append(token)
        return is_new

    def _remove(self, name: str) -> bool:
        with self._changing() as tokens:
            kept = [token for token in tokens if token.name != name]
            was_there = len(kept) < len(tokens)
            tokens[:] = kept
        return was_there

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """Yield the tokens as a list to change, and replace the file by it, unless the block raises."""
        make_own_folder(self._path.parent)
        with lock_file(self._path.with_suffix(".lock")) as descriptor:
            lock(descriptor)
            tokens = list(self.tokens())
            yield tokens
            with draft_of(self._path, Rules(overwrite=True)) as draft:
                with draft.open() as stream:
                    stream.write(json.dumps([asdict(token) for token in tokens], indent=1).encode())
                draft.publish()


def token_file(data_dir: Path) -> TokenFile:
    """Return the tokens of a data folder."""
    return TokenFile(data_dir / "tokens.json")


def _hash(secret: str) -> str:
    """Return the hash of a secret. A slow hash is not needed, because the secret has 256 random bits."""
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def reading_of(data: bytes, seen: tuple[int, ...]) -> FileReading:
    """Return what the contents of a file mean."""
    try:
        tokens = adapter().validate_json(data, strict=True)
    except InvalidEntry as error:
        return FileReading(seen, problem=damaged(error.errors()[0]["loc"]))
    if len({token.name for token in tokens}) < len(tokens):
        return FileReading(seen, problem=damaged(("name",)))
    return FileReading(seen, tokens)


@cache
def adapter() -> TypeAdapter[tuple[Token, ...]]:
    """Return what reads a list of tokens."""
    return TypeAdapter(tuple[Token, ...])


def damaged(place: tuple[int | str, ...]) -> str:
    """Say where the tokens' file is damaged, without its contents."""
    entry = next((f" at entry {part + 1}" for part in place if isinstance(part, int)), "")
    field = next((f", {part}" for part in place if isinstance(part, str)), "")
    return f"The file of tokens is damaged{entry}{field}: restore it. A running server keeps using the tokens it knows."


def token_of(*, permission: str, sessions: list[str] | None, **fields: object) -> Token:
    """Return a token of its fields as they are stored."""
    known = None if sessions is None else tuple(sessions)
    return Token(permission=Permission(permission), sessions=known, **fields)  # type: ignore[arg-type]  # checked by use
