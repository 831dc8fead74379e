"""Databases on the PostgreSQL server that the tests share, and roles."""

import itertools
from collections.abc import Callable

import psycopg
import pytest

from clusters import Cluster, shared_cluster

ROLES = ("owner", "server", "reader", "stranger")
NAMES = (f"d{number}" for number in itertools.count())


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The running server, with the roles."""
    shared = shared_cluster()
    with psycopg.connect(shared.url(), autocommit=True) as connection:
        for role in ROLES:
            connection.execute(f"create role {role} login")
    return shared


@pytest.fixture
def database(cluster: Cluster) -> Callable[[str], str]:
    """A new database that belongs to the role owner: returns its address for a role."""
    name = next(NAMES)
    cluster.create_database(name)
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(f"alter database {name} owner to owner")
    return lambda role: cluster.url(name, role)
