"""Databases on the PostgreSQL server that the tests share, and roles."""

import itertools
from collections.abc import Callable

import psycopg
import pytest

from clusters import Cluster, shared_cluster

NAMES = (f"d{number}" for number in itertools.count())


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The running server, with the roles."""
    shared = shared_cluster()
    with psycopg.connect(shared.url(), autocommit=True) as connection:
        for role in ("owner", "server", "reader", "stranger"):
            connection.execute(f"create role {role} login")
    return shared


@pytest.fixture
def new_name() -> str:
    """A name that no database of the server has had."""
    return next(NAMES)


@pytest.fixture
def database(cluster: Cluster, new_name: str) -> Callable[[str], str]:
    """A new database that belongs to the role owner: returns its address for a role."""
    cluster.create_database(new_name)
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(f"alter database {new_name} owner to owner")
    return lambda role: cluster.url(new_name, role)
