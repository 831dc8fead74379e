"""Copies the tables of a memory into another database, where they follow while others write to the memory.

Nobody notes what is changed. But each row has the number of the transaction that wrote it, so the server finds what is
newer than a snapshot, and sends little. A memory is newer whenever its chunks or passages are, and a block of the
keyword index whenever its postings are. That links were deleted shows in their number.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, NamedTuple

from vector_memory.errors import DatabaseError, ValidationError
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.database import PostgresDatabase
from vector_memory.storage.postgres.rows import fetch_column, fetch_value
from vector_memory.storage.postgres.transactions import ANALYZE
from vector_memory.storage.postings import BUCKETS

KEYS = {
    "embedding_models": "id",
    "session_memories": "id",
    "memory_lifecycle": "memory_id",
    "supersessions": "older_id, newer_id",
    "later_links": "older_id, newer_id",
    "memory_chunks": "id",
    "memory_passages": "id",
    "keyword_blocks": "id",
    "keyword_memories": "memory_id",
    "keyword_postings": "id",
    "canonical_tags": "id",
    "trace_keys": "key",
    "traces": "digest, created_at",
}
"""The tables that are copied, in the order in which they refer to each other, and their primary keys."""

LINKS = ("memory_lifecycle", "supersessions", "later_links", "trace_keys", "traces")
NUMBERED = ("keyword_blocks", "canonical_tags")
"""Tables whose ids come from a sequence."""

NEWER = "age(xmin) <= age(%(since)s::text::xid)"
"""Whether a row may have been written after a snapshot. `since`: the oldest transaction that was open then."""

MARK = "select pg_snapshot_xmin(pg_current_snapshot())::xid::text"

VECTORS = "select 'memory_passages'::regclass::oid"
"""Which table has the vectors: another one when all have been computed again."""

COMPLETE = "memory_id in (select id from session_memories where embedding_model_id is not null)"
"""Passages of a memory that does not have all its vectors yet are left out: they are computed again."""

ALL = {**dict.fromkeys(KEYS, "true"), "memory_passages": COMPLETE}
OF_CHANGED = {
    "session_memories": "id = any(%(memories)s)",
    **dict.fromkeys(LINKS, NEWER),
    "memory_chunks": "parent_id = any(%(memories)s)",
    "memory_passages": f"memory_id = any(%(memories)s) and {COMPLETE}",
    "keyword_blocks": "id = any(%(blocks)s)",
    "keyword_memories": "block_id = any(%(blocks)s)",
    "keyword_postings": f"""
        id in (
            select p.id from unnest(%(blocks)s::bigint[]) b(id)
            join keyword_postings p on p.id >= b.id * {BUCKETS} and p.id < (b.id + 1) * {BUCKETS}
        )
    """,
    "canonical_tags": "true",
}
"""The rows that a table gets again: of memories and of blocks those that have changed, and all tags."""

REPLACED = {
    "keyword_memories": OF_CHANGED["keyword_memories"],
    "keyword_postings": OF_CHANGED["keyword_postings"],
    "keyword_blocks": OF_CHANGED["keyword_blocks"],
    "memory_passages": "memory_id = any(%(memories)s)",
    "memory_chunks": OF_CHANGED["memory_chunks"],
    "canonical_tags": "true",
}
"""The rows that are deleted before, so that they can be added like the first ones."""

SETTINGS = {"idle_in_transaction_session_timeout": "0", "enable_seqscan": "on"}

OTHERS = (
    "The other database has a namespace with this name and other memories: move it to another one, or drop that schema."
)
OTHER_VECTORS = (
    "The namespace in the other database is for vectors of another length: drop it there, and repeat the command with "
    "the settings of this one."
)
OTHER_MODEL = "All vectors were computed again meanwhile: repeat the command."
UNEQUAL = "The other database does not return what was written: check its disk, drop the namespace there, and repeat."

Step = Callable[[int, int], object]
"""Is told how many tables are done, and of how many."""


class Changed(NamedTuple):
    """What may have changed since a snapshot: ids of memories and of blocks."""

    since: str
    memories: list[int]
    blocks: list[int]


class Follower:
    """A memory, and its copy in another database. Nobody else may write to the copy."""

    def __init__(self, source: PostgresDatabase, target: PostgresDatabase) -> None:
        self._source = source
        self._target = target
        self._since: str | None = None
        self._vectors: int | None = None

    def copy(self, on_step: Step) -> None:
        """Copy everything, in one transaction, and compare it. An earlier copy of the same memory is replaced.

        Raises ValidationError if the target has other memories, or cannot have these vectors.
        """
        with self._source.read() as origin:
            take_time(origin)
            since, self._vectors = fetch_value(origin, MARK), fetch_value(origin, VECTORS)
            with self._target.write() as target:
                take_time(target)
                if target.state.dimensions != origin.state.dimensions:
                    raise ValidationError(OTHER_VECTORS)
                require_copy(origin, target)
                for table in reversed(KEYS):
                    target.execute(f"delete from {table}")
                for number, table in enumerate(KEYS):
                    add_rows(origin, target, table, ALL[table])
                    on_step(number, 2 * len(KEYS))
                raise_ids(origin, target)
                target.execute(ANALYZE)
            with self._target.read() as copied:
                take_time(copied)
                for number, table in enumerate(KEYS, len(KEYS)):
                    if hash_of_rows(origin, table, ALL[table]) != hash_of_rows(copied, table, "true"):
                        raise DatabaseError(UNEQUAL)
                    on_step(number, 2 * len(KEYS))
        self._since = since

    def catch_up(self, before_each: Callable[[], object] = lambda: None, seconds: float = 0) -> int:
        """Bring what has changed since the last time, in one transaction; return how many memories the copy has.

        `before_each`: is called before each change of a table, and may raise an error to give up. `seconds`: what a
        statement may take; 0: as long as it needs.
        """
        with self._source.read() as origin, self._target.write() as target:
            take_time(origin, seconds)
            take_time(target, seconds)
            since = fetch_value(origin, MARK)
            if fetch_value(origin, VECTORS) != self._vectors:
                raise DatabaseError(OTHER_MODEL)
            keep_model(origin, target)
            changed = self._changed(origin)
            gone = {*fetch_column(target, "select id from keyword_blocks")} - {
                *fetch_column(origin, "select id from keyword_blocks")
            }
            replaced = changed._replace(blocks=[*changed.blocks, *gone])._asdict()
            for table, condition in REPLACED.items():
                before_each()
                target.execute(f"delete from {table} where {condition}", replaced)
            for table, condition in OF_CHANGED.items():
                before_each()
                if table in ("session_memories", *LINKS):
                    update(origin, target, table, condition, changed._asdict())
                else:
                    add_rows(origin, target, table, condition, changed._asdict())
            raise_ids(origin, target)
            count = row_count(target, "session_memories")
        self._since = since
        return count

    def _changed(self, origin: Connection) -> Changed:
        since = {"since": self._since}
        memories, blocks = (
            fetch_column(origin, f"select id from {table} where {NEWER}", since)
            for table in ("session_memories", "keyword_blocks")
        )
        return Changed(f"{self._since}", memories, blocks)


def take_time(connection: Connection, seconds: float = 0) -> None:
    """Let a transaction take as long as it needs, and read whole tables. `seconds`: the most that a statement takes."""
    for name, value in {**SETTINGS, "statement_timeout": f"{seconds * 1_000:.0f}"}.items():
        connection.execute("select set_config(%s, %s, true)", (name, value))


def require_copy(origin: Connection, target: Connection) -> None:
    """Raise ValidationError if the target has memories, unless they are those of the origin."""
    if row_count(target, "session_memories"):
        named = "id, content_hash, created_at"
        with scratch_table(target, "session_memories", named) as scratch:
            stream(origin, f"select {named} from session_memories", None, target, scratch)
            same, other = target.execute(f"""
                select count(*) filter (where (k.content_hash, k.created_at) = (m.content_hash, m.created_at)),
                    count(*) filter (where (k.content_hash, k.created_at) <> (m.content_hash, m.created_at))
                from session_memories m join {scratch} k on k.id = m.id
            """).fetchall()[0]
        last = fetch_value(target, "select max(id) from session_memories")
        if other or not same or last > origin.state.last_memory_id:
            raise ValidationError(OTHERS)


def keep_model(origin: Connection, target: Connection) -> None:
    """Bring the model of the first vectors. Raises DatabaseError if the target has those of another one."""
    models = "select id, model, dimensions, precision, engine from embedding_models"
    mine, theirs = (connection.execute(models).fetchall() for connection in (target, origin))
    if mine and mine != theirs:
        raise DatabaseError(OTHER_MODEL)
    if not mine:
        add_rows(origin, target, "embedding_models", "true")


@contextmanager
def scratch_table(target: Connection, like: str, columns: str) -> Iterator[str]:
    """Create a table for the block. Nobody else sees it, because the transaction drops it."""
    target.execute(f"create table incoming as select {columns} from {like} limit 0")
    yield "incoming"
    target.execute("drop table incoming")


def names_in(connection: Connection, table: str) -> list[str]:
    """Return the names of the columns of a table."""
    sql = (
        "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped order by 1"
    )
    return fetch_column(connection, sql, (table,))


def add_rows(
    origin: Connection, target: Connection, table: str, condition: str, values: Mapping[str, Any] | None = None
) -> None:
    """Add rows of a table."""
    named = ", ".join(names_in(target, table))
    stream(origin, f"select {named} from {table} where {condition}", values, target, f"{table} ({named})")


def update(origin: Connection, target: Connection, table: str, condition: str, values: Mapping[str, Any]) -> None:
    """Add rows of a table, or replace them; and delete those that are no longer in the other."""
    columns, key = names_in(target, table), KEYS[table]
    named = ", ".join(columns)
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key.split(", "))
    action = f"update set {changes}" if changes else "nothing"
    with scratch_table(target, table, named) as scratch:
        stream(origin, f"select {named} from {table} where {condition}", values, target, scratch)
        target.execute(f"insert into {table} ({named}) select {named} from {scratch} on conflict ({key}) do {action}")
    if is_longer(target, origin, table):
        with scratch_table(target, table, key) as scratch:
            stream(origin, f"select {key} from {table}", None, target, scratch)
            same = " and ".join(f"k.{name} = t.{name}" for name in key.split(", "))
            target.execute(f"delete from {table} t where not exists (select from {scratch} k where {same})")
        if is_longer(target, origin, table):
            raise DatabaseError(UNEQUAL)


def is_longer(target: Connection, origin: Connection, table: str) -> bool:
    """Return whether tables have different numbers of rows. The target has all those of the origin."""
    return row_count(target, table) != row_count(origin, table)


def row_count(connection: Connection, table: str) -> int:
    """Return the number of rows of a table."""
    return int(fetch_value(connection, f"select count(*) from {table}"))


def stream(origin: Connection, query: str, values: Mapping[str, Any] | None, target: Connection, into: str) -> None:
    """Add the rows of a query to a table of the target."""
    with (
        origin.cursor().copy(f"copy ({query}) to stdout (format binary)", values) as rows,
        target.cursor().copy(f"copy {into} from stdin (format binary)") as added,
    ):
        for row in rows:
            added.write(row)


def hash_of_rows(connection: Connection, table: str, condition: str) -> bytes:
    """Return a hash of rows of a table."""
    named = ", ".join(sorted(names_in(connection, table)))
    query = f"select {named} from {table} where {condition} order by {KEYS[table]}"
    hashed = blake2b()
    with connection.cursor().copy(f"copy ({query}) to stdout (format binary)") as rows:
        for row in rows:
            hashed.update(row)
    return hashed.digest()


def raise_ids(origin: Connection, target: Connection) -> None:
    """Let only higher ids be given."""
    mine, theirs = target.state, origin.state
    mine.last_memory_id = max(mine.last_memory_id, theirs.last_memory_id)
    mine.last_chunk_id = max(mine.last_chunk_id, theirs.last_chunk_id)
    mine.last_passage_id = max(mine.last_passage_id, theirs.last_passage_id)
    mine.has_new_ids = True
    for table in NUMBERED:
        target.execute(f"""
            select setval(pg_get_serial_sequence('{table}', 'id'), coalesce(max(id), 0) + 1, false) from {table}
        """)
