"""What the doctor says of the servers of a memory."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from clusters import Cluster, running_cluster, running_standby
from engine_memories import DIMENSIONS
from memory_files import doctor
from vector_memory.extras.postgres import doctor as postgres_memory
from vector_memory.extras.postgres.database import PostgresDatabase
from vector_memory.extras.postgres.doctor import Surveyed, confirmation, server, servers, survey
from vector_memory.upkeep.doctor.report import Finding, Level
from waiting import eventually


@pytest.fixture
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    with running_cluster() as primary:
        PostgresDatabase(primary.create_database("team"), dimensions=DIMENSIONS).close()
        with running_standby(primary) as standby:
            eventually(lambda: "0.0 MB behind the primary." in texts(servers(url_of(primary, standby))))
            yield primary, standby


def url_of(*clusters: Cluster) -> str:
    folders = ",".join(f"{cluster.folder}" for cluster in clusters)
    return f"postgresql://postgres@/team?host={folders}&target_session_attrs=read-write"


def texts(findings: Iterator[Finding]) -> str:
    return "\n".join(f"{one.state} {one.name}: {one.message}" for one in findings)


@pytest.fixture
def primary(database: Callable[[str], str]) -> Surveyed:
    """What a server says to a role without special rights."""
    PostgresDatabase(database("owner"), dimensions=DIMENSIONS).close()
    ((_, found),) = survey(database("owner"))
    assert isinstance(found, Surveyed)
    return found


def test_each_server_is_listed_with_its_role_timeline_lag_and_connections(pair: tuple[Cluster, Cluster]) -> None:
    primary, standby = pair
    lines = texts(servers(url_of(primary, standby))).splitlines()
    assert [line[: line.index(", with")] for line in lines[:2]] == [
        f"ok host: {primary.folder} is the primary on timeline 1",
        f"ok host: {standby.folder} is a standby on timeline 1",
    ]
    assert lines[0].endswith(" of 100 connections in use.")
    assert lines[1].endswith(" of 100 connections in use, 0.0 MB behind the primary.")
    assert lines[2:] == ["ok confirmation: No standby has to confirm stores, so a failover can lose the latest."]


def test_a_standby_that_is_away_or_receives_nothing_or_has_to_confirm_is_reported(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, standby = pair
    primary.set("synchronous_standby_names", "*")
    eventually(lambda: "ok confirmation: 1 standby connected" in texts(servers(url_of(primary, standby))))
    standby.set("primary_conninfo", "")
    eventually(lambda: "behind the primary, and receives nothing" in texts(servers(url_of(primary, standby))))
    standby.stop()
    said = texts(servers(url_of(primary, standby)))
    assert f"warning host: {standby.folder}: The database server cannot be reached" in said
    assert "problem confirmation: No standby confirms stores" in said


def test_an_earlier_primary_is_a_problem_beside_the_later_one_that_is_used(pair: tuple[Cluster, Cluster]) -> None:
    earlier, later = pair
    later.promote()
    eventually(lambda: f"{later.folder} is the primary on timeline 2" in texts(servers(url_of(earlier, later))))
    report = doctor(url_of(earlier, later)).examine()
    said = texts(iter(report.findings))
    assert f"problem host: {earlier.folder} is an earlier primary on timeline 1" in said
    assert "ok connection" in said
    assert not report.healthy


def test_two_primaries_on_one_timeline_are_a_problem(primary: Surveyed, monkeypatch: pytest.MonkeyPatch) -> None:
    other = primary._replace(started_at=primary.started_at + timedelta(seconds=1))
    monkeypatch.setattr(postgres_memory, "survey", lambda _: [("one", primary), ("other", other)])
    assert "problem primary: Two servers of the database URL accept changes" in texts(servers(""))


def test_limits_that_are_nearly_reached_are_reported(primary: Surveyed) -> None:
    assert server("db", primary, primary.timeline, [primary]).state == Level.OK
    assert server("db", primary._replace(connections=81), primary.timeline, [primary]).state == Level.WARNING
    assert "pg_read_all_stats" in (confirmation(primary._replace(has_to_confirm="*")).advice or "")
