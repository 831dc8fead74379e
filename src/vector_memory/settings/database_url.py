"""The address of a memory in PostgreSQL: what a URL says, and whether its connections are safe."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, unquote

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from vector_memory.domain.user_files import read_file
from vector_memory.errors import ConfigurationError


class SettingsModel(BaseModel):
    """Settings that cannot be changed, and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def refused_together(message: str, *names: str) -> PydanticCustomError:
    """Return the error for settings that contradict each other; `names` are the ones to change."""
    return PydanticCustomError("together", "{message}", {"message": message, "names": names})


DEFAULT_SCHEMA = "memory"
NAMESPACE_PREFIX = "ns_"
"""Begins the name of a namespace's schema."""

MANY_NAMESPACES = 1_000
"""From this many on, operations on a whole database take long, and further ones belong in another database."""

MOST_CONNECTIONS = 10
"""Maximum number of connections of a process to a database, unless its URL says otherwise."""

CONNECTIONS = re.compile(r"[1-9][0-9]{1,2}|[2-9]")
"""Some work reads while it writes, so one is too few."""

SHARED_SCHEMA = "vector_memory"
"""Schema that a database's servers share: namespaces and tokens."""

HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[^/?#@:,\[\]]*)(?::\d*)?"
URL = re.compile(
    r"postgres(?:ql)?://(?P<user>[^/?#@]*@)?"
    rf"(?P<hosts>{HOST}(?:,{HOST})*)"
    r"(?:/(?P<database>[^/?#@&=]*))?"
    r"(?:\?(?P<parameters>[^#]*))?"
)
SERVICE = "the service"
"""Placeholder for the hosts that a libpq service names."""

SCHEMES = ("postgresql://", "postgres://")
LIKE_A_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""Begins a URL of any kind, also one whose slashes were joined; the drive of a path has one letter."""

HALF_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})")
SCHEMA = re.compile(r"[a-z_][a-z0-9_-]{0,62}")
NOT_FOR_MEMORIES = re.compile(rf"pg_.*|information_schema|{SHARED_SCHEMA}")

UNSAFE_MODES = ("disable", "allow", "prefer")
SAFE_MODES = ("require", "verify-ca", "verify-full")
"""Values of sslmode, without and with the certainty that a connection is encrypted."""

OWN_CERTIFICATES = "~/.postgresql/root.crt"
"""Where libpq looks for the certificates of authorities unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUrl:
    """A memory in a schema of a PostgreSQL database. Only `conninfo` reveals a password: as text, there is none.

    `url`: what libpq understands, and `pooler`. `hosts`: the names, addresses or socket folders of servers.
    `connections`: the maximum of a process for all its memories in the database.
    """

    url: str = field(repr=False)
    hosts: tuple[str, ...]
    database: str
    schema: str = DEFAULT_SCHEMA
    connections: int = MOST_CONNECTIONS
    password_file: Path | None = None

    @classmethod
    def parse(cls, text: str, *, password_file: Path | None = None, unencrypted: bool = False) -> "DatabaseUrl":
        """Return the address in a URL. `unencrypted`: a connection to another machine may do without TLS.

        Raises ConfigurationError, which never quotes the URL.
        """
        match = URL.fullmatch(text)
        if match is None or HALF_ENCODED.search(text):
            raise ConfigurationError(
                "The database URL is invalid: write postgresql://USER@HOST:PORT/DATABASE, special characters as %XX."
            )
        parameters = _parameters(match["parameters"] or "")
        schema = _checked_schema(parameters.pop("schema", DEFAULT_SCHEMA))
        connections = _checked_connections(parameters.pop("connections", f"{MOST_CONNECTIONS}"))
        if parameters.get("pooler", "prepared") != "prepared":
            raise ConfigurationError("The pooler in the database URL is invalid: write prepared, or omit it.")
        if password_file is not None and has_password(text):
            raise ConfigurationError("There is a password in the database URL and a password file: use one of them.")
        hosts = _hosts(match["hosts"], parameters)
        possible = (*hosts, SERVICE) if _names_service(parameters) else hosts
        _require_encryption(possible, parameters, unencrypted=unencrypted)
        query = "&".join(f"{name}={quote(value, safe='/')}" for name, value in parameters.items())
        place, database = f"{match['user'] or ''}{match['hosts']}", match["database"] or ""
        return cls(
            url=f"postgresql://{place}/{database}?{query}".removesuffix("?"),
            hosts=hosts,
            database=unquote(database) or os.environ.get("PGDATABASE", ""),
            schema=schema,
            connections=connections,
            password_file=password_file,
        )

    def conninfo(self) -> str:
        """Return libpq's connection string, the password included.

        Raises ConfigurationError if its file is unusable.
        """
        if self.password_file is None:
            return self.url
        try:
            password = read_file(self.password_file).decode("utf-8-sig").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigurationError(f"The password file {self.password_file} cannot be read: {reason}.") from None
        if not password:
            raise ConfigurationError(f"The password file {self.password_file} is empty.")
        return with_parameters(self.url, f"password={quote(password, safe='')}")

    def of_namespace(self, name: str) -> "DatabaseUrl":
        """Return the address of a namespace of this database."""
        return replace(self, schema=f"{NAMESPACE_PREFIX}{name}")

    def __str__(self) -> str:
        """Return the address for people: hosts, database and schema only."""
        hosts = ",".join(self.hosts)
        named = {"host": hosts if hosts.startswith("/") else "", "schema": self.schema}
        shown = "&".join(f"{name}={value}" for name, value in named.items() if value not in ("", DEFAULT_SCHEMA))
        return f"postgresql://{'' if named['host'] else hosts}/{self.database}?{shown}".removesuffix("?")


def with_parameters(url: str, parameters: str) -> str:
    """Return a URL with more parameters, which take precedence."""
    return f"{url}{'&' if '?' in url else '?'}{parameters}"


MemoryAddress = Path | DatabaseUrl
"""Where a memory is: the path of its SQLite file, or a schema of a PostgreSQL database."""


def memory_address(address: Path | str | DatabaseUrl) -> MemoryAddress:
    """Return the address that a path or URL names. Raises ConfigurationError for an invalid URL."""
    if isinstance(address, str) and address.startswith(SCHEMES):
        return DatabaseUrl.parse(address)
    return address if isinstance(address, DatabaseUrl) else checked_path(Path(address))


def checked_path(path: Path) -> Path:
    """Return a path. Raises ConfigurationError if it is a URL, which may contain a password: nothing may name it."""
    if LIKE_A_URL.match(str(path)):
        raise ConfigurationError(
            "A URL was given where a path is expected: give postgresql://USER@HOST/DATABASE to --database-url."
        )
    return path


def has_password(text: str) -> bool:
    """Return whether a text is a URL that contains a password, or may contain one, because it is invalid."""
    if not text.lower().startswith(SCHEMES):
        return False
    match = URL.fullmatch(text)
    if match is None:
        return "password" in text or "@" in text
    parameters = _parameters(match["parameters"] or "")
    return ":" in (match["user"] or "") or any(name.endswith("password") for name in parameters)


def _parameters(query: str) -> dict[str, str]:
    """Return the parameters of a URL as libpq reads them: a plus sign stands for itself."""
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return {unquote(name): unquote(value) for name, _, value in pairs}


def _checked_schema(name: str) -> str:
    if not SCHEMA.fullmatch(name) or NOT_FOR_MEMORIES.fullmatch(name):
        raise ConfigurationError(
            "The schema in the database URL is invalid: its name has up to 63 lower-case letters, digits, hyphens and "
            f"underscores, and is not {SHARED_SCHEMA}, information_schema or pg_..."
        )
    return name


def _checked_connections(number: str) -> int:
    if not CONNECTIONS.fullmatch(number):
        raise ConfigurationError("The connections in the database URL are invalid: write a number from 2 to 999.")
    return int(number)


def _hosts(listed: str, parameters: dict[str, str]) -> tuple[str, ...]:
    """Return the hosts that libpq connects to; a folder stands for the socket in it."""
    named = parameters.get("hostaddr") or os.environ.get("PGHOSTADDR") or parameters.get("host")
    if named is None:
        named = ",".join(unquote(_without_port(one)) for one in listed.split(","))
    if not named.strip(",") and _names_service(parameters):
        named = SERVICE
    return tuple((named or os.environ.get("PGHOST") or "localhost").split(","))


def _names_service(parameters: dict[str, str]) -> bool:
    """Return whether libpq takes parameters from a service: also the address of a host, unless the URL has it."""
    return "hostaddr" not in parameters and ("service" in parameters or "PGSERVICE" in os.environ)


def _without_port(host: str) -> str:
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _require_encryption(hosts: Sequence[str], parameters: dict[str, str], *, unencrypted: bool) -> None:
    """Require that nobody on the way to a server on another machine can read or change what is sent."""
    mode = parameters.get("sslmode") or os.environ.get("PGSSLMODE")
    if mode not in (None, *UNSAFE_MODES, *SAFE_MODES):
        raise ConfigurationError(f"The sslmode of the database is unknown; accepted: {', '.join(SAFE_MODES)}.")
    if unencrypted or mode in SAFE_MODES or all(host.startswith(("/", "@")) or is_loopback(host) for host in hosts):
        return
    if mode is not None:
        raise ConfigurationError(
            f"sslmode={mode} lets others read what is sent to the database on another machine: use "
            "sslmode=verify-full, or --database-unencrypted in a network that you trust."
        )
    parameters["sslmode"] = "verify-full"
    named = "sslrootcert" in parameters or "PGSSLROOTCERT" in os.environ
    if not named and not Path(os.path.expanduser(OWN_CERTIFICATES)).exists():  # noqa: PTH111 - without a home, Path's raises
        parameters["sslrootcert"] = "system"


def is_loopback(host: str) -> bool:
    """Return whether an address can only be reached from this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
