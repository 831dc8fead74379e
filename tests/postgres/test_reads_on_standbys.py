"""`?reads=standbys`: a standby is read where it has every change, and nobody notices otherwise."""

from collections.abc import Iterator
from contextlib import closing, suppress

import psycopg
import pytest

from clusters import Cluster, running_cluster, running_standby
from engine_memories import DIMENSIONS, add, ids, new_memory
from vector_memory.extras.postgres import database
from vector_memory.extras.postgres.errors import UnreachableError
from vector_memory.settings import DatabaseUrl
from vector_memory.storage.base import Storage
from vector_memory.storage.opening import open_storage
from waiting import eventually

STORES = 20


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    with running_cluster() as primary:
        primary.create_database("team")
        with running_standby(primary) as standby:
            yield primary, standby


@pytest.fixture
def url(pair: tuple[Cluster, Cluster], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a memory, which a standby has."""
    monkeypatch.setattr(database, "WITHOUT_STANDBYS_SECONDS", 0.0)
    hosts = ",".join(f"{server.folder}" for server in pair)
    url = f"postgresql://postgres@/team?host={hosts}&reads=standbys&schema={request.node.name[:40]}"
    with closing(opened(url)) as storage:
        add(storage, new_memory("first"))
        eventually(lambda: place(storage) == f"{pair[1].folder}")
    return url


def opened(url: str) -> Storage:
    return open_storage(DatabaseUrl.parse(url), dimensions=DIMENSIONS)


def place(storage: Storage) -> str:
    """Return the server that is read."""
    with storage.read() as reader:
        return str(reader.connection.raw.info.host)  # type: ignore[attr-defined]


def is_read(storage: Storage) -> bool:
    with suppress(UnreachableError):
        return bool(ids(storage))
    return False


def test_what_any_process_has_stored_is_found_by_all_at_once_however_far_a_standby_is_behind(
    pair: tuple[Cluster, Cluster], url: str
) -> None:
    primary, standby = pair
    with closing(opened(url)) as one, closing(opened(url)) as other:
        for delay in ("0", "10s"):
            standby.set("recovery_min_apply_delay", delay)
            for _ in range(STORES):
                stored = add(one, new_memory(f"after {delay}"))
                assert stored in ids(other)
                assert stored in ids(one)
        assert place(one) == f"{primary.folder}"
        standby.set("recovery_min_apply_delay", "0")
        eventually(lambda: place(one) == f"{standby.folder}")
        assert len(ids(one)) == 2 * STORES + 1


def test_without_a_standby_the_primary_is_read_and_the_standby_again_when_it_is_back(
    pair: tuple[Cluster, Cluster], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, standby = pair
    monkeypatch.setattr(database, "WITHOUT_STANDBYS_SECONDS", 60.0)
    with closing(opened(url)) as storage:
        assert place(storage) == f"{standby.folder}"
        standby.stop()
        try:
            for _ in range(2):
                assert (ids(storage), place(storage)) == ([1], f"{primary.folder}")
        finally:
            standby.start()
        assert place(storage) == f"{primary.folder}"
    monkeypatch.setattr(database, "WITHOUT_STANDBYS_SECONDS", 0.0)
    with closing(opened(url)) as storage:
        eventually(lambda: place(storage) == f"{standby.folder}")


def test_no_standby_stands_in_for_a_primary_that_is_away(pair: tuple[Cluster, Cluster], url: str) -> None:
    primary, _ = pair
    with closing(opened(url)) as storage:
        primary.stop()
        try:
            with pytest.raises(UnreachableError):
                ids(storage)
        finally:
            primary.start()
        eventually(lambda: is_read(storage))


def test_a_cursor_from_a_standby_says_what_may_be_lost_as_one_from_the_primary_does(
    pair: tuple[Cluster, Cluster], url: str
) -> None:
    primary, standby = pair
    schema = DatabaseUrl.parse(url).schema
    with psycopg.connect(primary.url("team"), autocommit=True) as connection:
        connection.execute(f"update {schema}.generations set table_id = table_id + 1")  # as after a restore
        connection.execute(f"update {schema}.namespace set revision = revision + 1")
    with closing(opened(url)) as storage, closing(opened(url.replace("reads=standbys", "reads=primary"))) as plain:
        eventually(lambda: place(storage) == f"{standby.folder}")
        with storage.read() as reader, plain.read() as expected:
            assert reader.cursor() == expected.cursor()
            assert reader.cursor().gaps
