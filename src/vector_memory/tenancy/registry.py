"""What the servers of several teams share: the namespaces with their quotas, the tokens, and a key."""

from typing import NamedTuple, Protocol

from vector_memory.errors import NotFoundError, ValidationError
from vector_memory.settings import MemoryAddress
from vector_memory.tenancy.quotas import Quota
from vector_memory.tenancy.tokens import Tokens


class Sizes(NamedTuple):
    """How much a namespace takes, in bytes. `log_bytes`: of its own write-ahead log, if it has one."""

    database_bytes: int
    log_bytes: int


class Registry(Protocol):
    """Safe to use from several threads; several processes may use the same one."""

    @property
    def tokens(self) -> Tokens:
        """The tokens that open the namespaces."""

    def names(self) -> list[str]:
        """Return the names of all namespaces, sorted."""

    def create(self, name: str) -> None:
        """Create an empty namespace. Raises ValidationError for a name that is invalid or in use."""

    def require(self, name: str) -> None:
        """Raise NotFoundError unless there is such a namespace."""

    def address(self, name: str) -> MemoryAddress:
        """Return where the memory of a namespace is."""

    def quota(self, name: str) -> Quota:
        """Return the limits of a namespace. Raises ConfigurationError if they are damaged."""

    def set_quota(self, name: str, quota: Quota) -> None:
        """Limit a namespace. Servers notice it within seconds. Raises NotFoundError."""

    def sizes(self, name: str) -> Sizes:
        """Return how much a namespace takes."""

    def key(self) -> bytes:
        """Return a secret that all servers share."""

    def require_available(self) -> None:
        """Raise DatabaseError if nothing can be read for now."""

    def close(self) -> None:
        """Close what is open. Repeated calls do nothing."""


def invalid_name(longest: int) -> ValidationError:
    """Return the error for a name that no namespace may have."""
    return ValidationError(
        f"A namespace's name has up to {longest} lower-case letters, digits, hyphens and underscores."
    )


def existing_name(name: str) -> ValidationError:
    """Return the error for a name that is in use."""
    return ValidationError(f"There is a namespace {name} already.")


def missing_namespace(name: str) -> NotFoundError:
    """Return the error for a namespace that does not exist."""
    return NotFoundError(f"There is no namespace {name}: create it with `vector-memory namespace create {name}`.")
