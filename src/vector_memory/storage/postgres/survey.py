"""What each server of a URL says of itself, for the doctor."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from typing import NamedTuple

from vector_memory.errors import DatabaseError
from vector_memory.storage.postgres.connecting import opened, parameters_in
from vector_memory.storage.postgres.errors import translated_errors
from vector_memory.storage.postgres.hosts import STATE, ServerState, each_of

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

    system_id: int
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
        """What decides whether it is used."""
        return ServerState._make(self[: len(ServerState._fields)])


def survey(url: str) -> Iterator[tuple[str, Surveyed | DatabaseError]]:
    """Return the place of each server, with what it says or why it does not."""
    for parameters in each_of(parameters_in(url)):
        place = ":".join(f"{parameters[name]}" for name in ("host", "port") if parameters.get(name)) or "The server"
        try:
            asked = opened({**parameters, "target_session_attrs": "any"})
            with translated_errors(), closing(asked) as connection:
                yield place, Surveyed._make(connection.execute(SURVEY).fetchall()[0])
        except DatabaseError as error:
            yield place, error
