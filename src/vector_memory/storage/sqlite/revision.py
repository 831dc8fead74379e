"""The file's revision: what tells a process whether what it keeps of the file in memory is still right."""

import apsw

from vector_memory.storage.ranking import Revision
from vector_memory.storage.sqlite.guards import DamagedError
from vector_memory.storage.sqlite.rows import fetch_one

TABLE = """
create table revision (
    id integer primary key check (id = 1),
    epoch integer not null,
    removals integer not null
);
insert into revision values (1, 1, 0);
"""

TRIGGER = """
create trigger memory_unindexed after delete on keyword_memories begin
    update revision set removals = removals + 1;
end;
"""

MISSING = "The database has lost its revision: run `vector-memory doctor --fix`."


def revision_of(connection: apsw.Connection) -> Revision:
    """Return the revision of the file, as the transaction sees it."""
    sql = """
        select epoch, removals,
            coalesce((select seq from sqlite_sequence where name = 'session_memories'), 0) as last_memory_id,
            coalesce((select seq from sqlite_sequence where name = 'memory_chunks'), 0) as last_chunk_id,
            coalesce((select seq from sqlite_sequence where name = 'memory_passages'), 0) as last_passage_id
        from revision
    """
    revision = fetch_one(connection, Revision, sql)
    if revision is None:
        raise DamagedError(MISSING)
    return revision


def begin_epoch(connection: apsw.Connection) -> None:
    """Note that what others keep of the file is void: tables were exchanged, or their rows made again.

    Where the row is lost, the time makes a number that no process has seen.
    """
    connection.execute(
        "insert into revision values (1, unixepoch(), 0) on conflict do update set epoch = epoch + 1",
    )
