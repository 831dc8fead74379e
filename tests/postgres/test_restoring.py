"""A server whose files are put back, or that recovers to an earlier moment, while processes have a memory open."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import errors as postgres

from clusters import NOBODY, Cluster, as_unprivileged, running_cluster
from lattice import LatticeEmbedder
from postgres.test_generations import add
from vector_memory.domain import Scope
from vector_memory.errors import DatabaseError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from waiting import eventually

SESSION = Scope("report", session_id="s")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server that archives its log."""
    with running_cluster(archive_mode="on", archive_command="cp %p ../archive-%f") as started:
        yield started


@pytest.fixture
def url(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    return cluster.create_database(f"d{len(request.session.items)}_{request.session.items.index(request.node)}")


def opened(url: str, settings: Settings) -> SessionMemoryStore:
    """Return what a process has open."""
    return SessionMemoryStore(url, settings, embedder=LatticeEmbedder())


def base_backup(cluster: Cluster) -> Path:
    """Return a copy of the server's files."""
    folder = cluster.folder / f"backup-{len(list(cluster.folder.iterdir()))}"
    program = [str(cluster.programs / "bin/pg_basebackup"), "-h", str(cluster.folder), "-U", "postgres"]
    words = ["-D", str(folder), "--checkpoint=fast", "--no-sync"]
    subprocess.run([*program, *words], check=True, cwd="/", **as_unprivileged())
    return folder


def put_back(cluster: Cluster, backup: Path, recovery: str = "") -> None:
    """Replace the files of the server. `recovery`: settings of a recovery to an earlier moment."""
    cluster.stop()
    shutil.rmtree(cluster.data)
    shutil.copytree(backup, cluster.data)
    if recovery:
        (cluster.data / "recovery.signal").touch()
        with (cluster.data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"{recovery}\nrecovery_target_action = promote\n")
    if os.getuid() == 0:
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", cluster.data], check=True)
    cluster.start()
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        eventually(lambda: connection.execute("select where not pg_is_in_recovery()").fetchall())


def files(cluster: Cluster, _: str) -> Callable[[], None]:
    """Save the server's files. They continue on the same timeline."""
    backup = base_backup(cluster)
    return lambda: put_back(cluster, backup)


def moment(cluster: Cluster, url: str) -> Callable[[], None]:
    """Save the server's files, and note a moment after it, at which a recovery from them begins a timeline."""
    backup = base_backup(cluster)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_create_restore_point('before')")
        connection.execute("select pg_switch_wal()")
    return lambda: put_back(cluster, backup, "restore_command = 'cp ../archive-%f %p'\nrecovery_target_name = before\n")


def template(cluster: Cluster, url: str) -> Callable[[], None]:
    """Copy the database within the server."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]

    def copy(source: str, target: str) -> None:
        with psycopg.connect(cluster.url(), autocommit=True) as connection:
            connection.execute(f"drop database if exists {target} with (force)".encode())
            eventually(lambda: is_renamed(connection, source, "apart"))  # from processes that would connect to it
            connection.execute(f"create database {target} template apart".encode())
            connection.execute(f"alter database apart rename to {source}".encode())

    copy(f"{name}", "saved")
    return lambda: copy("saved", f"{name}")


def is_renamed(connection: psycopg.Connection[tuple[object, ...]], name: str, other: str) -> bool:
    connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
    with suppress(postgres.ObjectInUse):
        connection.execute(f"alter database {name} rename to {other}".encode())
        return True
    return False


def answers(store: SessionMemoryStore) -> bool:
    try:
        return bool(store.count_memories())
    except DatabaseError:
        return False


@pytest.mark.parametrize("save", [files, moment, template])
def test_processes_notice_what_a_restore_beneath_them_lost_and_give_no_id_again(
    cluster: Cluster, url: str, settings: Settings, save: Callable[[Cluster, str], Callable[[], None]]
) -> None:
    with opened(url, settings) as one, opened(url, settings) as other:
        kept = [add(one, f"kept {number}") for number in range(3)]
        restore = save(cluster, url)
        given = {*kept}
        for attempt in range(2):
            lost = [add(store, f"lost {attempt} {number}") for number, store in enumerate((one, other, one))]
            known = one.search_changes(SESSION).cursor
            restore()
            eventually(lambda: answers(one) and answers(other))
            assert {hit.id for hit in one.search_documents("lost 0", SESSION).results} == {*kept}
            answer = other.search_changes(SESSION, since=known)
            assert answer.results == []
            assert f"the ids after {kept[-1]}, up to {known}, are lost" in answer.message
            new = [add(store, f"new {attempt} {number}") for number, store in enumerate((other, one, other))]
            assert not given & {*lost, *new}
            given |= {*lost, *new}
            for store in (one, other):
                assert [hit.id for hit in store.search_changes(SESSION, since=known).results] == new
                assert store.search_documents(f"new {attempt} 1", SESSION).results[0].id == new[1]
