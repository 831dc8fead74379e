"""Servers, PostgreSQL and the network between them fail while agents store: nothing that was acknowledged is lost."""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from clusters import NOBODY, Cluster, running_cluster, running_standby
from engine_memories import add, new_memory, opened
from faults.agents import Agents, Served, losses
from faults.conftest import mounted
from faults.effort import effort
from faults.proxy import Proxy, proxy_to
from hooks.test_kept_process import REPORTS, report
from servers import Server
from vector_memory.errors import DatabaseError
from waiting import eventually

SERVERS = effort(quick=2, long=4)
WRITERS = effort(quick=4, long=8)
ROUNDS = effort(quick=1, long=12)
MORE = effort(quick=5, long=40)
"""Memories that are stored between two failures."""

DURABLE = {"fsync": "on", "synchronous_commit": "on"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server that writes to the disk what it confirms."""
    with running_cluster(**DURABLE) as started:
        yield started


BALLAST = "ballast"


def fill(folder: Path) -> None:
    """Leave no space on the disk of a folder."""
    with (folder / BALLAST).open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(65_536))


def start_again(cluster: Cluster) -> None:
    """See to it that a server answers, which may have gone on without space, or has ended, or is about to end."""

    def answers() -> bool:
        if cluster.process.poll() is not None:
            cluster.start()
        with suppress(psycopg.OperationalError), psycopg.connect(cluster.url()):
            return True
        return False

    eventually(answers)


def disk_of_160_mb(folder: Path) -> AbstractContextManager[Path]:
    """Mount a disk that a test can fill."""
    return mounted(folder, f"size=160m,mode=700,uid={NOBODY},gid={NOBODY}")


@contextmanager
def standby_of(cluster: Cluster) -> Iterator[Cluster]:
    """Start a standby without whose confirmation the server commits nothing."""
    with running_standby(cluster) as standby:
        cluster.set("synchronous_standby_names", "*")
        with psycopg.connect(cluster.url()) as connection:
            sql = "select 1 from pg_stat_replication where sync_state = 'sync'"
            eventually(lambda: connection.execute(sql).fetchall())
        try:
            yield standby
        finally:
            standby.stop()
            if cluster.process is not None:
                cluster.set("synchronous_standby_names", "")


@contextmanager
def serving(folder: Path, urls: list[str], **variables: str) -> Iterator[Agents]:
    """Start a server for each address, for agents that are not at work yet."""
    with ExitStack() as stack:
        servers = []
        for url in urls:
            servers.append(Served(folder, url, variables))
            stack.callback(servers[-1].stop)
        yield Agents(servers)


def memories(url: str) -> dict[int, str]:
    with psycopg.connect(url) as connection:
        return dict(connection.execute("select id, content from memory.session_memories").fetchall())


class Failures:
    """What can fail. Each method lets it fail, and sees to it that it works again."""

    def __init__(self, cluster: Cluster, proxy: Proxy, agents: Agents) -> None:
        self._cluster, self._proxy, self._agents = cluster, proxy, agents

    def a_server_is_killed(self) -> None:
        random.choice(self._agents.servers).restart()

    def a_server_stops_for_a_while(self) -> None:
        """If it is storing, the others wait until PostgreSQL ends its transaction."""
        server = random.choice(self._agents.servers)
        server.send_signal(signal.SIGSTOP)
        self._agents.store_more(2)
        server.send_signal(signal.SIGCONT)

    def postgres_is_stopped(self) -> None:
        self._cluster.stop()
        self._cluster.start()

    def postgres_is_killed(self) -> None:
        self._cluster.stop(signal.SIGKILL)
        self._cluster.start()

    def a_process_of_postgres_is_killed(self) -> None:
        """Then PostgreSQL ends all others, and recovers."""
        with psycopg.connect(self._cluster.url()) as connection:
            found = connection.execute("select pid from pg_stat_activity where datname <> 'postgres'").fetchone()
        if found is not None:
            with suppress(ProcessLookupError):
                os.kill(found[0], signal.SIGKILL)

    def connections_are_terminated(self) -> None:
        with psycopg.connect(self._cluster.url()) as connection:
            connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname <> 'postgres'")

    def the_network_cuts_connections(self) -> None:
        self._proxy.cut()

    def the_network_loses_confirmations(self) -> None:
        self._proxy.confirmations_to_lose = 3
        self._agents.store_more(3)

    def the_network_delays(self) -> None:
        self._proxy.delay = 0.05
        self._agents.store_more(2)
        self._proxy.delay = 0.0

    def the_network_swallows(self) -> None:
        self._proxy.silent.set()
        time.sleep(random.uniform(0, effort(quick=0.5, long=4)))
        self._proxy.silent.clear()


ALL = [name for name in vars(Failures) if not name.startswith("_")]


@pytest.mark.timeout(900)
def test_no_acknowledged_memory_is_lost_or_stored_twice_and_no_cursor_has_a_gap_whatever_fails(
    cluster: Cluster, tmp_path: Path
) -> None:
    url = cluster.create_database("failing")
    with proxy_to(cluster.folder) as proxy, serving(tmp_path, [url, *[proxy.url("failing")] * (SERVERS - 1)]) as agents:
        failures = Failures(cluster, proxy, agents)
        with agents.at_work(WRITERS):
            assert agents.store_more(MORE)
            for _ in range(ROUNDS):
                for name in random.sample(ALL, len(ALL)):
                    getattr(failures, name)()
                    assert agents.store_more(MORE), f"nothing is stored after {name}"
        print(f"{len(agents.stored)} stored, {agents.failures} failures, {[each.starts for each in agents.servers]}")
    assert losses(memories(url), agents) == []
    assert sum(server.starts for server in agents.servers) == SERVERS + ROUNDS  # none but those that were killed
    log = b"".join(line for server in agents.servers for line in server.log)
    assert b"UnreachableError" in log
    assert not [word for word in (b"ledger", b"insert into", b"postgresql://") if word in log]


@pytest.mark.parametrize("how", effort(quick=[signal.SIGKILL], long=[signal.SIGKILL, signal.SIGSTOP]))
@pytest.mark.timeout(900)
def test_what_was_acknowledged_is_on_the_standby_that_takes_over_and_servers_go_over_to_it(
    cluster: Cluster, tmp_path: Path, how: signal.Signals
) -> None:
    name = f"replicated_{how}"
    cluster.create_database(name)
    with standby_of(cluster) as standby:
        hosts = f"{cluster.folder},{standby.folder}"
        url = f"postgresql://postgres@/{name}?host={hosts}&target_session_attrs=read-write"
        try:
            with serving(tmp_path, [url] * SERVERS) as agents, agents.at_work(WRITERS):
                assert agents.store_more(MORE)
                with pytest.raises(DatabaseError, match="is a standby"), closing(opened(standby.url(name))) as own:
                    add(own, new_memory("not here"))
                if how is signal.SIGSTOP:
                    cluster.pause()
                else:
                    cluster.stop(how)
                standby.promote()
                assert agents.store_more(MORE)
            assert losses(memories(standby.url(name)), agents) == []
            assert [server.starts for server in agents.servers] == [1] * SERVERS
        finally:
            cluster.stop(signal.SIGKILL)
            cluster.start()


@pytest.mark.timeout(900)
def test_a_full_disk_of_the_database_server_loses_nothing_and_servers_go_on_when_there_is_space(tmp_path: Path) -> None:
    with running_cluster(disk_of_160_mb, min_wal_size="32MB", max_wal_size="48MB", **DURABLE) as cluster:
        url = cluster.create_database("full")
        with serving(tmp_path, [url] * SERVERS) as agents:
            with agents.at_work(WRITERS):
                assert agents.store_more(MORE)
                for _ in range(ROUNDS):
                    failures = agents.failures
                    fill(cluster.data)
                    eventually(lambda failures=failures: agents.failures > failures)
                    (cluster.data / BALLAST).unlink()
                    start_again(cluster)
                    assert agents.store_more(MORE)
            assert [server.starts for server in agents.servers] == [1] * SERVERS
        assert losses(memories(url), agents) == []


def test_what_hooks_report_while_the_database_does_not_answer_is_stored_when_it_does(
    cluster: Cluster, tmp_path: Path
) -> None:
    url = cluster.create_database("hooked")
    with proxy_to(cluster.folder) as proxy:
        with Server(tmp_path, url=proxy.url("hooked"), XDG_STATE_HOME=str(tmp_path)) as server:
            report(server.hello(), REPORTS[0])
            eventually(lambda: memories(url))
            proxy.silent.set()
            for text in REPORTS[1:]:
                report(server, text)
            server.process.kill()
        proxy.cut()
        proxy.silent.clear()
        assert len(memories(url)) == 1
        with Server(tmp_path, url=proxy.url("hooked"), XDG_STATE_HOME=str(tmp_path)) as server:
            server.hello()
            # In any order: after some attempts, texts do not wait for one another.
            eventually(lambda: sorted(memories(url).values()) == sorted(REPORTS))
