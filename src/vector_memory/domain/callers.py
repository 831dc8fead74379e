"""Callers and their permissions."""

from dataclasses import dataclass
from enum import StrEnum

from vector_memory.errors import AccessDeniedError


class Permission(StrEnum):
    """The permission of a token; each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    @property
    def included(self) -> tuple["Permission", ...]:
        """All permissions it includes, itself last."""
        return tuple(Permission)[: tuple(Permission).index(self) + 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The owner of a token. `sessions`: None: all of the namespace. `agent_id`: None: any."""

    name: str
    namespace: str
    permission: Permission
    sessions: tuple[str, ...] | None = None
    agent_id: str | None = None

    def may(self, permission: Permission) -> bool:
        """Whether the token permits this."""
        return permission in self.permission.included

    def require(self, permission: Permission) -> None:
        """Raise AccessDeniedError unless the token permits this."""
        if not self.may(permission):
            raise AccessDeniedError(f"This needs a token with the scope {permission}; yours has {self.permission}.")
