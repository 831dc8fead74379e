"""The file's revision, which shows each process whether its in-memory data is still valid (`feed`)."""

import apsw


def begin_epoch(connection: apsw.Connection) -> None:
    """Invalidate the in-memory data of all processes, after tables were swapped or their rows rebuilt.

    If the row is missing, the time serves as an epoch that no process has seen.
    """
    connection.execute(
        "insert into revision values (1, unixepoch(), 0) on conflict do update set epoch = epoch + 1",
    )
