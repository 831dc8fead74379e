"""The tokens of a server. Only a hash of each is kept."""

import hashlib
import json
import re
import secrets
import time
from dataclasses import asdict, dataclass

from vector_memory.domain.callers import Caller, Permission
from vector_memory.errors import DatabaseError, NotFoundError, ValidationError
from vector_memory.storage.teams import TeamTables

PREFIX = "vm_"
"""By which people and scanners recognize a token."""

SECRET_BYTES = 32
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(Caller):
    """What is kept of a token. `sha256`: of the secret, in hexadecimal. `expires_at`: Unix time; None: never."""

    sha256: str
    created_at: float
    expires_at: float | None = None

    def has_expired(self) -> bool:
        """Return whether its time is over."""
        return self.expires_at is not None and self.expires_at <= time.time()


class Tokens:
    """The tokens that open namespaces. Safe to use from several processes: changes are seen at the next call.

    While they cannot be read, those that were seen before are still known. They open nothing then, but their owners
    learn what is wrong, instead of that they are unknown.
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
