"""Engines that do not say their timeline, as some managed offers: the start of the server stands for it."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from clusters import Cluster, running_cluster, running_standby
from vector_memory.domain import Scope
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.errors import DatabaseError
from vector_memory.extras.postgres.beginnings import JUMP
from vector_memory.settings import DatabaseUrl, Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor import Doctor
from vector_memory.upkeep.doctor.report import Level
from waiting import eventually

SETTINGS = Settings(embedding_model="toy")
NAMES = "pg_control_system(), pg_control_checkpoint(), pg_current_wal_lsn(), pg_walfile_name(pg_lsn)"
REFUSED = f"revoke execute on function {NAMES} from public"
UNSUPPORTED = """
alter function pg_catalog.pg_current_wal_lsn() rename to pg_original_wal_lsn;
create function pg_catalog.pg_current_wal_lsn() returns pg_lsn language plpgsql as $$
begin
    raise 'wal_level must be set to ''logical''' using errcode = 'object_not_in_prerequisite_state';
end
$$
"""


@contextmanager
def hiding(how: str) -> Iterator[Cluster]:
    """Start a server whose database `team` hides the timeline from the role `memory`."""
    with running_cluster() as cluster:
        cluster.create_database("team")
        with psycopg.connect(cluster.url("team"), autocommit=True) as connection:
            for statement in ("create role memory login", "alter database team owner to memory", how):
                connection.execute(statement)
        yield cluster


def opened(cluster: Cluster, user: str = "memory") -> SessionMemoryStore:
    return SessionMemoryStore(cluster.url("team", user), SETTINGS)


def add(store: SessionMemoryStore, text: str) -> int:
    return int(store.store_memory("report", text, session_id="s", agent_id="a").memory_id or 0)


def count_on(standby: Cluster) -> int:
    """Return how many memories a standby has."""
    with psycopg.connect(standby.url("team")) as connection:
        return len(connection.execute("select 1 from memory.session_memories").fetchall())


def disconnect(standby: Cluster, primary: Cluster) -> None:
    """Let a standby receive no more. The primary would wait a minute for one that is paused when it stops."""
    standby.set("primary_conninfo", "")
    with psycopg.connect(primary.url(), autocommit=True) as connection:
        eventually(lambda: not connection.execute("select 1 from pg_stat_replication").fetchall())


@pytest.mark.parametrize("how", [REFUSED, UNSUPPORTED], ids=["refused", "unsupported"])
def test_a_process_that_does_not_know_what_a_failover_has_lost_gives_no_lost_id_again(how: str) -> None:
    with hiding(how) as primary:
        with opened(primary) as store:
            kept = [add(store, f"kept {number}") for number in range(2)]
        with running_standby(primary) as standby:
            eventually(lambda: count_on(standby) == len(kept))
            disconnect(standby, primary)
            with opened(primary) as store:
                lost = add(store, "lost")
                known = store.search_changes(Scope("report", session_id="s")).cursor
            assert lost == kept[-1] + 1
            primary.stop()
            standby.promote()
            with opened(standby) as store:
                new = add(store, "new")
                answer = store.search_changes(Scope("report", session_id="s"), since=known)
                again = add(store, "once more")
    assert (new, again) == (kept[-1] + JUMP + 1, new + 1)
    assert [hit.id for hit in answer.results] == [new]
    assert f"the ids after {kept[-1]}, up to {known}, are lost" in answer.message


def test_roles_of_which_only_some_may_see_the_timeline_share_a_memory() -> None:
    with hiding(REFUSED) as cluster, opened(cluster) as store, opened(cluster, "postgres") as other:
        first = add(store, "first")
        ids = [add((other, store)[number % 2], f"text {number}") for number in range(6)]
        report = Doctor(
            DatabaseUrl.parse(cluster.url("team", "memory")), SETTINGS, EmbeddingModel(lambda: load_embedder(SETTINGS))
        ).examine()
    assert ids == [first + JUMP + 1 + number for number in range(6)]
    assert [finding.name for finding in report.findings if finding.state is not Level.OK] == []


def test_several_servers_that_hide_their_timeline_are_refused() -> None:
    with hiding(REFUSED) as cluster:
        url = f"postgresql://memory@/team?host={cluster.folder},{cluster.folder}"
        with pytest.raises(DatabaseError, match="lacks a privilege"):
            SessionMemoryStore(url, SETTINGS).close()
