"""A memory in PostgreSQL, as the doctor sees it: its server, its schema, and what only PostgreSQL has."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from importlib.metadata import version
from typing import NamedTuple

from psycopg.sql import SQL, Identifier

from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import DatabaseError, VectorMemoryError
from vector_memory.extras.postgres import beginnings, migrations, schema
from vector_memory.extras.postgres.beginnings import BY_START, Generation, Lineage, is_over, state_in
from vector_memory.extras.postgres.connecting import (
    STATE,
    ServerState,
    connect,
    each_of,
    newest,
    opened,
    parameters_in,
    require_supported,
)
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.errors import FEWER, translated_errors
from vector_memory.extras.postgres.schema import VERSION
from vector_memory.extras.postgres.statement import fetch_column, fetch_value
from vector_memory.settings import DatabaseUrl, Settings
from vector_memory.storage.base import EXPORT_AND_IMPORT, Storage
from vector_memory.storage.opening import open_storage
from vector_memory.upkeep.backfill import Progress
from vector_memory.upkeep.doctor.agreement import agreements, compute_missing, rebuild
from vector_memory.upkeep.doctor.place import readable_size
from vector_memory.upkeep.doctor.report import (
    FIX,
    Advice,
    Finding,
    Level,
    checked,
    fine,
    first_names,
    problem,
    warning,
)
from vector_memory.writing.indexer import Indexer
from vector_memory.writing.links import links_of

TABLES = re.findall(r"create table (\w+)", "".join(schema.TABLES))
INDEXES = {
    match[1]: match[0] for match in re.finditer(r"create (?:unique )?index (\w+) on [^;]+", "".join(schema.TABLES))
}
"""The statements that create the indexes, by name."""

WRITES = ("select", "insert", "update", "delete")

MUCH_SPACE, MOST_TIMES = 32 << 20, 8
"""The space that postings may take: this many bytes in any case, and a multiple of what they need."""

SERVER = """
select current_setting('server_version') as version,
    (select extversion from pg_extension where extname = 'vector') as pgvector,
    exists (select from pg_available_extensions where name = 'vector') as can_have_pgvector,
    current_user::text as role, rolsuper as is_superuser,
    current_setting('autovacuum') = 'on' as has_autovacuum,
    (select version from pg_stat_ssl where pid = pg_backend_pid() and ssl) as tls,
    inet_server_addr() is null as is_socket,
    (
        select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
        where e.extname = 'vector' and has_schema_privilege('public', n.oid, 'create')
    )::text as open_schema
from pg_roles where rolname = current_user
"""

LACKING = """
select format('%%s on %%s', privilege, name) from unnest(%s::text[]) name, unnest(%s::text[]) privilege
where not has_table_privilege(quote_ident(current_schema()) || '.' || quote_ident(name), privilege)
"""

PRESENT = """
select c.relname from pg_class c
where c.relnamespace = to_regnamespace(quote_ident(current_schema())) and c.relkind = 'r'
"""

UNUSABLE_INDEXES = """
select i.relname from pg_index x join pg_class i on i.oid = x.indexrelid
where i.relnamespace = to_regnamespace(quote_ident(current_schema())) and not (x.indisvalid and x.indisready)
    and not exists (select from pg_stat_progress_create_index where index_relid = x.indexrelid)
"""
PRESENT_INDEXES = """
select i.relname from pg_index x join pg_class i on i.oid = x.indexrelid
where i.relnamespace = to_regnamespace(quote_ident(current_schema()))
"""

# Each store rewrites some postings; the old rows stay as long as a snapshot may see them, then leave empty space.
BLOAT = """
select pg_total_relation_size('keyword_postings') as taken, coalesce(sum(octet_length(postings)), 0)::bigint as needed,
    (
        select format('process %s of the role %s, in a transaction since %s', pid, usename, xact_start::timestamp(0))
        from pg_stat_activity
        where backend_xmin is not null and pid <> pg_backend_pid() and datname = current_database()
        order by xact_start limit 1
    ) as holder
from keyword_postings
"""

MISFILED = """
select distinct m.id from memory_passages p join session_memories m on m.id = p.memory_id
left join memory_chunks c on c.id = p.chunk_id
where c.parent_id <> m.id or (p.memory_type, p.agent_id, p.session_id, p.session_iter, p.task_code)
    is distinct from (m.memory_type, m.agent_id, m.session_id, m.session_iter, m.task_code)
order by m.id
"""


class Server(NamedTuple):
    """A server as a connection sees it.

    `tls`: the version of the encryption, or None. `open_schema`: pgvector's schema, if everybody may create functions
    in it, which statements could call; else None.
    """

    version: str
    pgvector: str | None
    can_have_pgvector: bool
    role: str
    is_superuser: bool
    has_autovacuum: bool
    tls: str | None
    is_socket: bool
    open_schema: str | None


class Bloat(NamedTuple):
    """The bytes that the postings take and need, and who has the oldest snapshot, as far as the role may see it."""

    taken: int
    needed: int
    holder: str | None

    @property
    def is_much(self) -> bool:
        """Whether postings take far more than they need."""
        return self.taken > MUCH_SPACE + MOST_TIMES * self.needed


@contextmanager
def inspected(url: str, schema_name: str, *, writes: bool = False) -> Iterator[Connection]:
    """Yield a connection in a transaction that may take as long as it needs. Raises DatabaseError."""
    with translated_errors(), closing(connect(url)) as connection:
        changing = connection.writing(beginnings.maintaining(schema_name))
        with changing if writes else connection.reading(beginnings.looking(schema_name)):
            yield connection


def faulty_indexes(connection: Connection) -> list[str]:
    """Return the indexes that are missing, or that PostgreSQL does not use because building them failed."""
    present = set(fetch_column(connection, PRESENT_INDEXES))
    unusable = fetch_column(connection, UNUSABLE_INDEXES)
    return sorted({*unusable, *(name for name in INDEXES if name not in present)})


def rebuild_indexes(connection: Connection) -> int:
    """Create the indexes again that are missing or unusable; return their number.

    Rows that a damaged index had hidden reappear, so the memory counts as changed, and writers wait.
    """
    connection.execute("update namespace set revision = revision + 1")
    names = faulty_indexes(connection)
    for name in names:
        if name in INDEXES:
            connection.execute(SQL("drop index if exists {}").format(Identifier(name)).as_string())
            connection.execute(INDEXES[name])
        else:  # of a constraint
            connection.execute(SQL("reindex index {}").format(Identifier(name)).as_string())
    return len(names)


def misfiled_memories(connection: Connection) -> list[int]:
    """Return the memories whose passages have a wrong session, kind, agent, iteration, task or chunk."""
    return fetch_column(connection, MISFILED)


# The state of each server of a URL, for the doctor.

SURVEY = f"""{STATE},
    pg_is_in_recovery(),
    pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end, '0/0'),
    exists (select 1 from pg_stat_wal_receiver), current_setting('synchronous_standby_names'),
    (select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum')),
    pg_has_role('pg_read_all_stats', 'usage'),
    (select sum(numbackends) from pg_stat_database)::integer, current_setting('max_connections')::integer
"""


class Surveyed(NamedTuple):
    """A server. The first fields are those of `ServerState`. `position`: in the log, in bytes.

    `has_to_confirm`: the standbys that do, as a setting names them; `confirming`: how many of them are connected, if
    the role `sees_standbys`.
    """

    started_at: datetime
    accepts_changes: bool
    timeline: int
    is_standby: bool
    position: int
    is_receiving: bool
    has_to_confirm: str
    confirming: int
    sees_standbys: bool
    connections: int
    most_connections: int

    @property
    def state(self) -> ServerState:
        """The state that decides whether it is used."""
        return ServerState._make(self[: len(ServerState._fields)])


def survey(url: str) -> Iterator[tuple[str, Surveyed | DatabaseError]]:
    """Return each server's address, with its state or why it gives none."""
    for parameters in each_of(parameters_in(url)):
        place = ":".join(f"{parameters[name]}" for name in ("host", "port") if parameters.get(name)) or "The server"
        try:
            asked = opened({**parameters, "target_session_attrs": "any"})
            with translated_errors(), closing(asked) as connection:
                yield place, Surveyed._make(connection.execute(SURVEY).fetchall()[0])
        except DatabaseError as error:
            yield place, error


ADVICE = Advice(FIX, "Restore the database from a backup, made with `pg_dump`.")

WITHOUT_REBUILDING = {"indexes", "unindexed", "outdated"}

# ruff: noqa: D102 - the methods are described in `ExaminedMemory`


class PostgresMemory:
    """`ExaminedMemory` over a schema."""

    def __init__(self, address: DatabaseUrl, settings: Settings, model: EmbeddingModel) -> None:
        self._address = address
        self._settings = settings
        self._model = model

    def engine(self) -> Iterator[Finding]:
        yield fine("driver", f"psycopg {version('psycopg')} is installed.")

    def place(self) -> Iterator[Finding]:
        try:
            yield from servers(self._address.conninfo())
            with inspected(self._address.conninfo(), self._address.schema) as connection:
                yield from server_findings(connection)
                if migrations.has_tables(connection, self._address.schema):
                    yield privileges(connection)
                    taken = fetch_value(connection, schema.SIZE, (self._address.schema,))
                    yield fine("size", f"The memory takes {taken / 1e6:,.1f} MB.")
        except VectorMemoryError as error:
            yield problem("connection", f"There is no connection to {self._address}. {error}")

    def contents(self, *, deep: bool) -> list[Finding]:
        found: list[Finding] = []
        try:
            with inspected(self._address.conninfo(), self._address.schema) as connection:
                found += schema_findings(connection, self._address.schema)
                if any(finding.state != Level.OK for finding in found):
                    return found
                found += upkeep_findings(connection, deep=deep)
            with closing(self._opened(read_only=True)) as storage, storage.read() as reader:
                indexer = Indexer(self._model, self._settings, links_of)
                found += agreements(reader, indexer, translated_errors, ADVICE, deep=deep, other={})
        except VectorMemoryError as error:
            found.append(problem("contents", f"The memory cannot be read. {error}"))
        return found

    def repair(self, wrong: set[str], on_progress: Progress | None) -> list[str]:
        url, schema = self._address.conninfo(), self._address.schema
        done: list[str] = []
        if "indexes" in wrong:
            with inspected(url, schema, writes=True) as connection:
                done.append(f"Rebuilt {counted(rebuild_indexes(connection), 'index', 'indexes')}.")
        with inspected(url, schema) as connection:
            misfiled = misfiled_memories(connection)
        with closing(self._opened()) as storage:
            indexer = Indexer(self._model, self._settings, links_of)
            if wrong - WITHOUT_REBUILDING:
                done.append(rebuild(storage, indexer, translated_errors, misfiled))
            done += compute_missing(storage, self._model, indexer, wrong, on_progress)
        return done

    def _opened(self, *, read_only: bool = False) -> Storage:
        return open_storage(self._address, dimensions=self._settings.embedding_dim, read_only=read_only)


def server_findings(connection: Connection) -> Iterator[Finding]:
    """Check the server, its extension and the connection."""
    server = Server._make(connection.execute(SERVER).fetchall()[0])
    how = "over a socket" if server.is_socket else f"encrypted with {server.tls}" if server.tls else "not encrypted"
    yield fine("connection", f"Connected to PostgreSQL {server.version} as {server.role}, {how}.")
    yield pgvector_extension(connection, server)
    if not server.has_autovacuum:
        yield warning("autovacuum", "The server does not clean its tables.", "Turn on `autovacuum` in its settings.")
    if server.open_schema is not None:
        yield warning(
            "search path",
            f"Any role may create functions in the schema {server.open_schema}, where pgvector is, and so change what "
            "the statements of other roles do.",
            f"Run `revoke create on schema {server.open_schema} from public` in the database.",
        )
    if server.is_superuser:
        yield warning(
            "role",
            f"The role {server.role} may do anything on this server.",
            "Let servers use a role of their own: `vector-memory database prepare --serve ROLE`.",
        )


def pgvector_extension(connection: Connection, server: Server) -> Finding:
    """Check that the database has a version of pgvector that this release can use."""
    if server.pgvector is None and server.can_have_pgvector:
        return warning(
            "extension",
            "pgvector is not yet installed in the database.",
            "Run `create extension vector` in it. A server does so itself if its role may.",
        )
    try:
        require_supported(connection)
    except VectorMemoryError as error:
        return problem("extension", str(error))
    return fine("extension", f"The database has pgvector {server.pgvector}.")


def privileges(connection: Connection) -> Finding:
    """Check that the role may read and write all tables."""
    missing = fetch_column(connection, LACKING, (TABLES, list(WRITES)))
    unreadable = [right for right in missing if right.startswith("select")]
    if unreadable:
        return problem(
            "privileges",
            f"The role may not read the memory: it lacks {first_names(unreadable)}.",
            "Run `vector-memory database prepare` with a role that owns the tables, and name this one.",
        )
    if missing:
        return warning(
            "privileges",
            f"The role can only read: it lacks {first_names(missing)}.",
            "Use it with `serve --read-only`, or store with another role.",
        )
    return fine("privileges", "The role may read and write all tables.")


def schema_findings(connection: Connection, schema: str) -> Iterator[Finding]:
    """Check the version of the schema and its tables."""
    recorded = migrations.recorded_version(connection, schema)
    if recorded > VERSION:
        yield problem("schema", "A newer release has changed the memory.", "Upgrade vector-memory to open it.")
    elif 0 < recorded < VERSION:
        yield problem("schema", "A development version has created the tables.", EXPORT_AND_IMPORT)
    elif not recorded:
        yield warning("schema", f"There is no memory in the schema {schema}.", "The server creates it when it starts.")
    else:
        yield fine("schema", "The tables have the format of this release.")
        if missing := [name for name in TABLES if name not in fetch_column(connection, PRESENT)]:
            yield problem("tables", f"Tables are missing: {first_names(missing)}.", ADVICE.restore)


def upkeep_findings(connection: Connection, *, deep: bool) -> Iterator[Finding]:
    """Check what exists only in PostgreSQL: indexes, space and copied fields."""
    yield checked("indexes", first_names(faulty_indexes(connection)), ADVICE)
    yield space(Bloat._make(connection.execute(BLOAT).fetchall()[0]))
    found = state_in(connection.together(connection.header)[0])
    yield generation(found.generations, found.lineage)
    if deep:
        yield checked("index", misfiled_memories(connection), ADVICE)


def space(bloat: Bloat) -> Finding:
    """Check that the keyword index does not take much more space than it needs."""
    message = f"The keyword index takes {readable_size(bloat.taken)} for {readable_size(bloat.needed)}."
    if not bloat.is_much:
        return fine("space", message)
    advice = "Run `vacuum full keyword_postings` in the schema while no server uses the memory."
    if bloat.holder:
        message += f" PostgreSQL may not clean it because of {bloat.holder}."
        advice = f"End that transaction first. {advice}"
    return warning("space", message, advice)


def generation(known: Sequence[Generation], lineage: Lineage) -> Finding:
    """Report whether the memory continues from a copy, which may lack the latest stores."""
    if is_over(known, lineage):
        restarted = ", or the server was restarted, which does not say its timeline" * (lineage.timeline == BY_START)
        return warning(
            "generation",
            f"Since the last store, another server has taken over, or a backup was restored{restarted}: what was "
            "stored last may be lost.",
            "Store again what is missing. The next store skips the ids that may be lost, so none is assigned twice.",
        )
    if len(known) <= 1:
        return fine("generation", "The memory has never continued from a copy.")
    latest = known[-1]
    return fine(
        "generation",
        f"Since {latest.began_at:.16} UTC the memory continues from a copy, a standby that took over or a restored "
        f"backup: what had ids from {latest.last_kept_id + 1} to {latest.first_id - 1} "
        f"{'may be' if latest.timeline == BY_START else 'is'} lost.",
    )


# The servers of a memory in PostgreSQL, as the doctor sees them.

MOST_USED = 0.8
"""The share of a server's connections in use from which they may soon run out."""


def servers(url: str) -> Iterator[Finding]:
    """Check each server of a URL, and whether one of them is certainly the primary."""
    found = list(survey(url))
    known = [each for _, each in found if isinstance(each, Surveyed)]
    latest = max((each.timeline for each in known), default=0)
    primaries = [each for each in known if each.accepts_changes and each.timeline == latest]
    for place, each in found:
        if isinstance(each, Surveyed):
            yield server(place, each, latest, primaries)
        elif len(found) > 1:
            yield warning("host", f"{place}: {each}", "Start that server, or remove it from the database URL.")
    if known:
        try:
            newest({each.state for each in known}, latest, needs_primary=False)
        except DatabaseError as error:
            yield problem("primary", f"{error}", "Stop all servers but the right one, and make them standbys again.")
    if primaries:
        yield confirmation(primaries[0])


def server(place: str, found: Surveyed, latest: int, primaries: Sequence[Surveyed]) -> Finding:
    """Report what a server is, and whether it does what it should."""
    is_earlier = found.accepts_changes and found.timeline < latest
    role = "a standby" if found.is_standby else "an earlier primary" if is_earlier else "the primary"
    message = (
        f"{place} is {role} on timeline {found.timeline}, with {found.connections} of {found.most_connections} "
        "connections in use"
    )
    if found.is_standby and primaries:
        message += f", {readable_size(max(primaries[0].position - found.position, 0))} behind the primary"
    if is_earlier:
        advice = f"Stop it, and make it a standby again, as with `pg_rewind`: timeline {latest} has replaced its own."
        return problem("host", f"{message}.", advice)
    if found.is_standby and not found.is_receiving:
        return warning("host", f"{message}, and receives nothing from it.", "Check that server's log.")
    if found.connections > MOST_USED * found.most_connections:
        return warning("host", f"{message}.", f"Raise its `max_connections`, or {FEWER}")
    return fine("host", f"{message}.")


def confirmation(primary: Surveyed) -> Finding:
    """Check that the standbys that have to confirm each store can do so."""
    if not primary.has_to_confirm:
        return fine("confirmation", "No standby has to confirm stores, so a failover can lose the latest.")
    if not primary.sees_standbys:
        message = "Standbys have to confirm each store. The role may not see which are connected."
        return warning("confirmation", message, "Grant it `pg_read_all_stats`, or run the doctor with another role.")
    if not primary.confirming:
        return problem(
            "confirmation",
            "No standby confirms stores, although one has to, so each store waits.",
            "Start the standby, or remove it from `synchronous_standby_names`.",
        )
    return fine("confirmation", f"{counted(primary.confirming, 'standby')} connected to confirm each store.")
