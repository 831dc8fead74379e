"""A memory in PostgreSQL, as the doctor sees it."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.metadata import version

from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import DatabaseError, VectorMemoryError
from vector_memory.extras.postgres import inspection, migrations
from vector_memory.extras.postgres.connecting import require_supported
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.errors import FEWER, translated_errors
from vector_memory.extras.postgres.generations import BY_START, Generation, Lineage, is_over
from vector_memory.extras.postgres.hosts import newest
from vector_memory.extras.postgres.inspection import Surveyed, survey
from vector_memory.extras.postgres.schema import VERSION
from vector_memory.settings import MANY_NAMESPACES, DatabaseUrl, Settings
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
    fixable,
    problem,
    warning,
)
from vector_memory.writing.indexer import Indexer
from vector_memory.writing.links import links_of

ADVICE = Advice(FIX, "Restore the database from a backup, made with `pg_dump`.")

WITHOUT_REBUILDING = {"indexes", "vacuum", "unindexed", "outdated"}

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
            with inspection.inspected(self._address.conninfo(), self._address.schema) as connection:
                yield from server_findings(connection)
                if migrations.has_tables(connection, self._address.schema):
                    yield privileges(connection)
                    size = inspection.size(connection, self._address.schema)
                    yield fine("size", f"The memory takes {size / 1e6:,.1f} MB.")
        except VectorMemoryError as error:
            yield problem("connection", f"There is no connection to {self._address}. {error}")

    def contents(self, *, deep: bool) -> list[Finding]:
        found: list[Finding] = []
        try:
            with inspection.inspected(self._address.conninfo(), self._address.schema) as connection:
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
            with inspection.inspected(url, schema, writes=True) as connection:
                done.append(f"Rebuilt {counted(inspection.rebuild_indexes(connection), 'index', 'indexes')}.")
        if "vacuum" in wrong:
            done.append(f"Cleaned {counted(inspection.vacuum(url, schema), 'table')}.")
        with inspection.inspected(url, schema) as connection:
            misfiled = inspection.misfiled_memories(connection)
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
    server = inspection.server_of(connection)
    how = "over a socket" if server.is_socket else f"encrypted with {server.tls}" if server.tls else "not encrypted"
    yield fine("connection", f"Connected to PostgreSQL {server.version} as {server.role}, {how}.")
    yield pgvector_extension(connection, server)
    if server.is_standby:
        yield warning("standby", "The server is a standby.", "It can only be read: connect to the primary to store.")
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


def pgvector_extension(connection: Connection, server: inspection.Server) -> Finding:
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
    missing = inspection.missing_privileges(connection)
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
        missing = inspection.missing_tables(connection)
        if missing:
            yield problem("tables", f"Tables are missing: {first_names(missing)}.", ADVICE.restore)


def upkeep_findings(connection: Connection, *, deep: bool) -> Iterator[Finding]:
    """Check what exists only in PostgreSQL: indexes, dead rows and copied fields."""
    yield checked("indexes", first_names(inspection.faulty_indexes(connection)), ADVICE)
    neglected = inspection.neglected_tables(connection)
    if neglected:
        message = f"Tables with many dead rows or without statistics: {first_names(neglected)}."
        yield fixable("vacuum", message, Level.WARNING)
    else:
        yield fine("vacuum", "The tables are clean, and large ones have statistics.")
    yield space(inspection.bloat(connection))
    found = inspection.state_of(connection)
    yield generation(found.generations, found.lineage)
    if deep:
        yield checked("index", inspection.misfiled_memories(connection), ADVICE)


def space(bloat: inspection.Bloat) -> Finding:
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
        yield namespaces(primaries[0])


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


def namespaces(primary: Surveyed) -> Finding:
    """Check that there are not too many memories in the database for its tools."""
    message = f"The database has {counted(primary.memories, 'memory', 'memories')} with {primary.tables:,} tables"
    if primary.tables > primary.locks:
        advice = "Raise `max_locks_per_transaction`, or dump one schema at a time with `--schema`."
        return warning("namespaces", f"{message}: `pg_dump` may need more locks than the server has.", advice)
    if primary.memories >= MANY_NAMESPACES:
        return warning("namespaces", f"{message}.", "Create further namespaces in another database.")
    return fine("namespaces", f"{message}.")
