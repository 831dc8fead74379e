# ruff: noqa: PLR0913 - a command's parameters are its flags
"""The commands that prepare a database, and manage the namespaces and tokens of a server for several teams."""

import re
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from vector_memory.cli import flags
from vector_memory.cli.terminal import as_json as one_line_of_json
from vector_memory.cli.terminal import console, grid, one_line, print_json, progress, say
from vector_memory.domain.callers import Permission
from vector_memory.domain.text import counted
from vector_memory.errors import ConfigurationError, DatabaseError, ValidationError
from vector_memory.extras import extra
from vector_memory.extras.teams.audit import AuditLog, Checked
from vector_memory.extras.teams.namespaces import move
from vector_memory.extras.teams.registry import Quota, Registry, Token, Tokens
from vector_memory.extras.teams.usage import audit_folder
from vector_memory.server.resources import memory_uri
from vector_memory.settings import DEFAULT_DIM, MANY_NAMESPACES, DatabaseLocation, DatabaseServer, DatabaseUrl, Settings

AuditKey = Annotated[
    Path | None, Parameter(help="File with the server's key; also VECTOR_MEMORY_AUDIT_KEY.", show_default=False)
]
if TYPE_CHECKING:
    Scope = Permission | str
else:  # cyclopts would offer an enumeration's names, not its values
    Scope = Literal[tuple(permission.value for permission in Permission)]


@flags.Flags
@dataclass(frozen=True)
class FolderFlags(flags.OutputFlags):
    """The data folder of a server for several teams."""

    data_dir: Annotated[
        Path | None,
        Parameter(help="Folder of the namespaces and tokens; also VECTOR_MEMORY_DATA_DIR.", show_default=False),
    ] = None

    def folder(self) -> Path:
        """Return the data folder. Raises ConfigurationError if none is given."""
        if self.data_dir is None:
            raise ConfigurationError(
                "Say where the namespaces are: --data-dir for a folder, or --database-url for a database."
            )
        return flags.given_path(self.data_dir)


@flags.Flags
@dataclass(frozen=True)
class TeamFlags(FolderFlags):
    """Where the namespaces and tokens are: a database, or else the data folder."""

    database: flags.DatabaseFlags = DatabaseServer()

    def registry(self, dimensions: int = DEFAULT_DIM) -> Registry:
        """Return the namespaces and tokens. Raises ConfigurationError."""
        return Registry(self.database.url() or self.folder(), dimensions)


SHOWN_ONCE = "This token is shown once. Keep it where your client reads it, not in a shared file:"

DURATION = re.compile(r"(\d{1,5})([hdw])")
SECONDS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400}


def namespace(
    action: Annotated[Literal["create", "limit", "list", "move"], Parameter(help="What to do.")],
    name: Annotated[str | None, Parameter(help="Name of the namespace.", show_default=False)] = None,
    /,
    *,
    max_memories: Annotated[int | None, Parameter(help="Maximum number of memories.")] = None,
    max_mb: Annotated[int | None, Parameter(help="Maximum size of the database, in MB.")] = None,
    calls_per_minute: Annotated[int | None, Parameter(help="Maximum number of calls a minute and process.")] = None,
    to: Annotated[str | None, Parameter(help="PostgreSQL database to move it to.", show_default=False)] = None,
    teams: TeamFlags = TeamFlags(),
    settings: flags.HiddenSettingsFlags = Settings(),
) -> None:
    """Create a namespace, set its limits, move it to another database, or list all.

    Each is a separate memory on a server for several teams. Calls that write wait while it is moved.
    """
    quota = Quota(memories=max_memories, megabytes=max_mb, calls_per_minute=calls_per_minute)
    with closing(teams.registry(settings.embedding_dim)) as registry:
        if action == "list":
            names = registry.names()
            if names or teams.as_json:
                teams.tell({"namespaces": names}, "\n".join(names))
        elif action == "move":
            move_namespace(registry, required(name, "namespace move NAME --to URL"), teams, to, settings)
        elif action == "limit":
            name = required(name, "namespace limit NAME --max-memories N")
            registry.set_quota(name, quota)
            say(f"Set the limits of {name}; limits that you did not name are removed.")
        else:
            name = required(name, "namespace create NAME")
            registry.create(name, quota)
            following = f"Next: `vector-memory token create TOKEN --namespace {name}`"
            teams.tell({"namespace": name}, f"Created the namespace {name}. {following}")


def move_namespace(source: Registry, name: str, teams: TeamFlags, to: str | None, settings: Settings) -> None:
    """Move a namespace to another database. Raises ConfigurationError unless two databases are named."""
    address = DatabaseServer(database_url=to, database_unencrypted=teams.database.database_unencrypted).url()
    if address is None or teams.database.url() in (None, address):
        raise ConfigurationError("Name the database of the namespace with --database-url, and another one with --to.")
    with closing(Registry(address, settings.embedding_dim)) as target:
        moved = move(source, target, name, progress)
    message = f"Moved {name} to {address}, as an earlier call had begun."
    if moved.memories is not None:
        memories, seconds = counted(moved.memories, "memory", "memories"), f"{moved.seconds:.1f}"
        message = f"Moved {name} with {memories} and its tokens to {address}. Its writers waited for {seconds} s."
    body = {"namespace": name, "memories": moved.memories, "seconds": round(moved.seconds, 1), "target": str(address)}
    teams.tell(body, message)


def token(
    action: Annotated[Literal["create", "list", "revoke"], Parameter(help="What to do.")],
    name: Annotated[str | None, Parameter(help="Name of the token to create or revoke.", show_default=False)] = None,
    /,
    *,
    namespace: Annotated[str | None, Parameter(help="The namespace it opens.")] = None,
    scope: Annotated[Scope, Parameter(help="What it permits; each includes those before it.")] = Permission.READ.value,
    session: Annotated[list[str] | None, Parameter(help="Only this session; repeatable.", show_default=False)] = None,
    agent: Annotated[str | None, Parameter(help="Store as this agent only.")] = None,
    expires: Annotated[str | None, Parameter(help="Time until it expires: 12h, 90d or 8w.")] = None,
    teams: TeamFlags = TeamFlags(),
) -> None:
    """Create, list or revoke the tokens that clients send to a server for several teams.

    A new token is printed once and kept nowhere: only its SHA-256 is stored. A running server notices changes at the
    next call.
    """
    with closing(teams.registry()) as registry:
        if action == "list":
            list_tokens(registry.tokens, as_json=teams.as_json)
        elif action == "revoke":
            name = required(name, "token revoke NAME")
            registry.tokens.revoke(name)
            teams.tell({"revoked": name}, f"Revoked {name}: the next call with it is refused.")
        else:
            name = required(name, "token create NAME")
            opened = required(namespace, f"token create {name} --namespace NAMESPACE")
            registry.require(opened)
            secret = registry.tokens.create(
                name,
                opened,
                Permission(scope),
                sessions=tuple(session) if session else None,
                agent_id=agent,
                expires_at=None if expires is None else time.time() + seconds_in(expires),
            )
            if not teams.as_json:  # only the secret on standard output, so that a script can keep it
                sys.stderr.write(f"{SHOWN_ONCE}\n")
            body = {"token": secret, "name": name, "namespace": opened, "scope": str(scope)}
            teams.tell(body, secret)


def audit(
    *,
    token: Annotated[str | None, Parameter(help="Only the calls of this token.")] = None,
    namespace: Annotated[str | None, Parameter(help="Only the calls in this namespace.")] = None,
    memory: Annotated[int | None, Parameter(help="Only calls that named, changed or returned this memory.")] = None,
    verify: Annotated[bool, flags.Switch(help="Only check that no line was changed or removed.")] = False,
    audit_key: AuditKey = None,
    teams: FolderFlags = FolderFlags(),
    place: flags.LocationFlags = DatabaseLocation(),
) -> None:
    """Print who called what, when and on which ids, and check that no line was changed or removed.

    Without --data-dir: the log of a memory whose servers run with --audit.
    """
    folder = teams.folder() if teams.data_dir else audit_folder(flags.existing(place))
    log = AuditLog(folder, None if audit_key is None else flags.given_path(audit_key))
    if not teams.data_dir and not log.files():
        raise ConfigurationError("No call was recorded: start this memory's servers with VECTOR_MEMORY_AUDIT=true.")
    if not verify:
        for line in log.lines():
            found = {str(one) for name, ids in line["ids"].items() if name != "chunk_id" for one in ids}
            is_about = memory is None or not found.isdisjoint({str(memory), memory_uri(memory)})
            if is_about and token in (None, line["token"]) and namespace in (None, line["namespace"]):
                written = one_line_of_json(line, sys.stdout.encoding, indent=None)
                sys.stdout.write(f"{written if teams.as_json else in_words(line)}\n")
    checked = log.verify()
    if broken := checked.broken:
        raise DatabaseError(f"The audit log fails its check: {broken.file.name}, line {broken.line}: {broken.reason}.")
    if verify:
        say_intact(checked, teams)


def say_intact(checked: Checked, teams: FolderFlags) -> None:
    """Say that every line is intact, and what the log itself reports as missing."""
    facts = {"lines": checked.lines, "missing": checked.missing, "newest": checked.newest}
    notes = ["The audit log is intact."]
    if checked.missing:
        notes.append(f"It notes that {counted(checked.missing, 'call')} could not be recorded.")
    if checked.unfinished:
        notes.append("The last line is incomplete: a full disk, the end of a process or somebody cut it off.")
    teams.tell({"intact": True, **facts, "unfinished": checked.unfinished}, " ".join(notes))


def in_words(line: dict[str, Any]) -> str:
    """Format a line of the audit log for people."""
    ids = " ".join(f"{name}={','.join(map(str, values))}" for name, values in line["ids"].items())
    who = f"{line['token'] or '-'} {line['namespace'] or '-'}"
    missing = f"after {counted(line['missing'], 'missing call')}" if "missing" in line else ""
    return one_line(f"{line['at'][:19]} {who} {line['call']} {ids} {line['error'] or ''} {missing}".rstrip())


def list_tokens(tokens: Tokens, *, as_json: bool) -> None:
    """Print the tokens, without their secrets."""
    listed = tokens.tokens()
    if as_json:
        print_json({"tokens": [token_facts(token) for token in listed]})
        return
    table = grid(("token", "namespace", "scope", "sessions", "agent", "expires (UTC)"))
    for token in listed:
        table.add_row(
            Text(token.name, style="bold"),
            token.namespace,
            token.permission,
            "all" if token.sessions is None else ", ".join(token.sessions),
            token.agent_id or "any",
            Text("expired", style="red") if token.has_expired() else as_date(token.expires_at) or "never",
        )
    if listed:
        console().print(table)


def token_facts(token: Token) -> dict[str, object]:
    """Return the printable facts about a token."""
    facts = {name: getattr(token, name) for name in ("name", "namespace", "sessions", "agent_id")}
    dates = {"created_at": as_date(token.created_at), "expires_at": as_date(token.expires_at)}
    return {**facts, "scope": str(token.permission), **dates, "expired": token.has_expired()}


def as_date(moment: float | None) -> str | None:
    """Return a Unix time as text, to the minute."""
    return None if moment is None else f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M}"


def seconds_in(duration: str) -> int:
    """Return the seconds of a duration such as 90d. Raises ValidationError."""
    match = DURATION.fullmatch(duration)
    if match is None:
        raise ValidationError(
            f'--expires is "{duration}"; accepted: a number of hours, days or weeks, such as 12h or 90d.'
        )
    return int(match[1]) * SECONDS[match[2]]


def required(value: str | None, usage: str) -> str:
    """Return a value that this action needs. Raises ConfigurationError with the usage."""
    if value is None:
        raise ConfigurationError(f"An argument is missing: `vector-memory {usage}`.")
    return value


def database(
    action: Annotated[Literal["prepare", "index"], Parameter(help="Prepare tables, or create an index of vectors.")],
    /,
    *,
    serve: Annotated[
        list[str] | None, Parameter(help="Role that reads and writes memories; repeatable.", show_default=False)
    ] = None,
    read: Annotated[
        list[str] | None, Parameter(help="Role that only reads memories; repeatable.", show_default=False)
    ] = None,
    only: Annotated[bool, flags.Switch(help="These roles may use only the memory of the URL.")] = False,
    drop: Annotated[bool, flags.Switch(help="With `index`: drop the index instead.")] = False,
    output: flags.OutputFlags = flags.OutputFlags(),
    server: flags.DatabaseFlags = DatabaseServer(),
    settings: flags.ModelSettingsFlags = flags.DEFAULTS,
) -> None:
    """Create or upgrade the tables in a PostgreSQL database, and let roles use them. Can be repeated.

    Pass the URL of a role that can create tables. Servers do not need such a role: --serve and --read name theirs,
    which must exist. These roles can use the memory and all namespaces, including future ones, and nothing else; run
    this again after an upgrade. With --only they can use only the memory of the URL, such as `?schema=ns_NAME`.

    `index` creates an approximate index of vectors (HNSW) while servers read and write the memory. It speeds up
    searches of more than 50,000 passages; each store then takes longer.
    """
    address = server.url()
    if address is None:
        raise ConfigurationError("Name the database with --database-url or VECTOR_MEMORY_DATABASE_URL.")
    if action == "index":
        _index(address, output, drop=drop)
    elif drop:
        raise ConfigurationError("Only an index can be dropped: `vector-memory database index --drop`.")
    elif both := sorted({*(serve or ())} & {*(read or ())}):
        raise ConfigurationError(f"{both[0]} is both in --serve and in --read: choose one.")
    else:
        schemas: list[str] = extra("postgres").prepare_database(
            address, dimensions=settings.embedding_dim, serving=serve or (), reading=read or (), only=only
        )
        _report(address, schemas, serve or [], read or [], output)


def _index(address: DatabaseUrl, output: flags.OutputFlags, *, drop: bool) -> None:
    extra("postgres").index_vectors(address, drop=drop)
    message = f"{'Dropped' if drop else 'Created'} the index of vectors of {address}"
    output.tell({"success": True, "dropped": drop}, message)


def _report(
    address: DatabaseUrl, schemas: Sequence[str], serving: list[str], reading: list[str], output: flags.OutputFlags
) -> None:
    lines = [f"Prepared {address}, schemas: {', '.join(schemas)}"]
    lines += [f"The role {role} may serve." for role in serving]
    lines += [f"The role {role} may read." for role in reading]
    if len(schemas) >= MANY_NAMESPACES:
        lines.append(f"The database has {len(schemas):,} memories: create further namespaces in another database.")
    body = {"success": True, "schemas": schemas, "serving": serving, "reading": reading}
    output.tell(body, "\n".join(lines))
