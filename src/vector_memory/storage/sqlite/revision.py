"""The file's revision, which tells each process whether what it keeps in memory is still right (`feed`)."""

import apsw

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


def begin_epoch(connection: apsw.Connection) -> None:
    """Note that what others keep of the file is void: tables were exchanged, or their rows made again.

    Where the row is lost, the time makes a number that no process has seen.
    """
    connection.execute(
        "insert into revision values (1, unixepoch(), 0) on conflict do update set epoch = epoch + 1",
    )
