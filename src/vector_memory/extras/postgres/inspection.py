"""Inspects a server and a schema without changing them, and repairs what only PostgreSQL has."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import NamedTuple

from psycopg.sql import SQL, Identifier

from vector_memory.errors import DatabaseError
from vector_memory.extras.postgres import beginnings, schema
from vector_memory.extras.postgres.connecting import connect, opened, parameters_in, statements_alone
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.errors import translated_errors
from vector_memory.extras.postgres.hosts import STATE, ServerState, each_of
from vector_memory.extras.postgres.statement import fetch_column, fetch_one, fetch_value
from vector_memory.extras.postgres.transaction_header import State, state_in

TABLES = re.findall(r"create table (\w+)", "".join(schema.TABLES))
INDEXES = {
    match[1]: match[0] for match in re.finditer(r"create (?:unique )?index (\w+) on [^;]+", "".join(schema.TABLES))
}
"""The statements that create the indexes, by name."""

WRITES = ("select", "insert", "update", "delete")

LARGE = 10_000
"""Rows from which on a table without statistics, or with many dead rows, makes searches slow."""
MOST_DEAD = 0.3
"""The share of dead rows from which on a table should be cleaned."""
MUCH_SPACE, MOST_TIMES = 32 << 20, 8
"""The space that postings may take: this many bytes in any case, and a multiple of what they need."""

SERVER = """
select current_setting('server_version') as version,
    (select extversion from pg_extension where extname = 'vector') as pgvector,
    exists (select from pg_available_extensions where name = 'vector') as can_have_pgvector,
    current_user::text as role, rolsuper as is_superuser, pg_is_in_recovery() as is_standby,
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

NEGLECTED = """
select relname from pg_stat_user_tables
where schemaname = current_schema() and (
    n_dead_tup > greatest(%(large)s, %(share)s * n_live_tup)
    or n_live_tup > %(large)s and coalesce(last_analyze, last_autoanalyze) is null
) order by relname
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
    is_standby: bool
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


def server_of(connection: Connection) -> Server:
    """Return what the server and the role are."""
    found = fetch_one(connection, Server, SERVER)
    if found is None:
        raise LookupError("the role has no row in pg_roles")
    return found


def size(connection: Connection, schema_name: str) -> int:
    """Return the bytes of the tables and indexes."""
    return int(fetch_value(connection, schema.SIZE, (schema_name,)))


def state_of(connection: Connection) -> State:
    """Return the state of the memory."""
    return state_in(connection.together(connection.header)[0])


def missing_privileges(connection: Connection) -> list[str]:
    """Return the rights on tables that the role does not have, such as "insert on session_memories"."""
    return fetch_column(connection, LACKING, (TABLES, list(WRITES)))


def missing_tables(connection: Connection) -> list[str]:
    """Return the tables of this release that do not exist."""
    present = set(fetch_column(connection, PRESENT))
    return [name for name in TABLES if name not in present]


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


def neglected_tables(connection: Connection) -> list[str]:
    """Return the tables with many dead rows, and large ones without statistics."""
    return fetch_column(connection, NEGLECTED, {"large": LARGE, "share": MOST_DEAD})


def bloat(connection: Connection) -> Bloat:
    """Return what the postings take."""
    return Bloat._make(connection.execute(BLOAT).fetchall()[0])


def vacuum(url: str, schema_name: str) -> int:
    """Clean these tables and compute their statistics; return their number."""
    with inspected(url, schema_name) as connection:
        names = neglected_tables(connection)
    with statements_alone(url) as connection:
        for name in names:
            connection.execute(SQL("vacuum (analyze) {}").format(Identifier(schema_name, name)).as_string())
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
    (select sum(numbackends) from pg_stat_database)::integer, current_setting('max_connections')::integer,
    (select count(*) from pg_class where relname = 'namespace' and relkind = 'r'),
    (select count(*) from pg_class where relkind = 'r' and relnamespace in (
        select relnamespace from pg_class where relname = 'namespace' and relkind = 'r'
    )),
    current_setting('max_locks_per_transaction')::bigint
        * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint)
"""


class Surveyed(NamedTuple):
    """A server. The first fields are those of `ServerState`. `position`: in the log, in bytes.

    `has_to_confirm`: the standbys that do, as a setting names them; `confirming`: how many of them are connected, if
    the role `sees_standbys`. `memories` of the database have `tables`, and `locks` is for how many objects the server
    has locks.
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
    memories: int
    tables: int
    locks: int

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
