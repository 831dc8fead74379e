"""The doctor on a memory in PostgreSQL: what it finds, and what it repairs."""

import json
import re
from uuid import uuid4

import psycopg
import pytest

from clusters import shared_cluster
from doctor.conftest import store_all
from doctor.test_faults import InSchema
from memory_files import SETTINGS, examine, found, said
from vector_memory.settings import DatabaseUrl
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.report import Level, as_bug_report


@pytest.fixture
def url() -> str:
    address = f"{shared_cluster().url()}&schema=test_{uuid4().hex}"
    store_all(address)
    return address


def test_a_sound_memory_is_healthy_and_examining_it_changes_nothing(url: str) -> None:
    with SessionMemoryStore(url, SETTINGS) as store:
        version = store.version()
        report = examine(url)
        assert found(report) == InSchema.usual
        assert report.healthy
        assert store.version() == version
    assert "Connected to PostgreSQL" in said(report, "connection")
    assert "pgvector 0." in said(report, "extension")
    assert {"privileges", "size", "indexes", "index", "keywords", "counts"} <= {
        finding.name for finding in report.findings
    }


def test_a_report_of_a_bug_names_no_host_role_database_or_schema(url: str) -> None:
    address = DatabaseUrl.parse(url)
    written = json.dumps(as_bug_report(examine(url), address, SETTINGS, {}))
    assert "Connected to PostgreSQL" in written
    hidden = (*address.hosts, address.database, address.schema)
    assert not [name for name in hidden if re.search(rf"\\b{re.escape(name)}\\b", written)]


def test_a_server_that_does_not_answer_is_a_problem() -> None:
    report = examine("postgresql://postgres@/none?host=/nowhere")
    assert found(report)["connection"] == Level.PROBLEM
    assert not report.healthy


def test_a_memory_that_does_not_exist_is_a_warning_and_is_not_created(url: str) -> None:
    for _ in range(2):
        assert found(examine(f"{url}_absent")) == {**InSchema.usual} | {"schema": Level.WARNING}


def test_a_database_without_the_extension_is_a_warning_because_a_server_may_install_it() -> None:
    cluster, name = shared_cluster(), f"bare_{uuid4().hex[:8]}"
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    report = examine(cluster.url(name))
    assert found(report) == {**InSchema.usual} | {"extension": Level.WARNING, "schema": Level.WARNING}
    assert "create extension vector" in said(report, "extension")


def test_a_table_that_is_missing_is_a_problem(url: str) -> None:
    InSchema(url).change("drop table pending_vectors")
    assert found(examine(url))["tables"] == Level.PROBLEM


def test_what_a_role_may_not_do_is_said(url: str) -> None:
    name = f"role_{uuid4().hex[:8]}"
    schema = DatabaseUrl.parse(url).schema
    InSchema(url).change(f'create role {name} login; grant usage on schema "{schema}" to {name}; ')
    limited = url.replace("postgres@", f"{name}@")
    assert found(examine(limited))["privileges"] == Level.PROBLEM
    InSchema(url).change(f'grant select on all tables in schema "{schema}" to {name}')
    report = examine(limited)
    assert found(report) == {"privileges": Level.WARNING}
    assert "insert on" in said(report, "privileges")


def test_functions_that_anybody_may_create_beside_pgvector_are_a_warning(url: str) -> None:
    assert found(examine(url)) == InSchema.usual
    InSchema(url).change("grant create on schema public to public")
    try:
        report = examine(url)
    finally:
        InSchema(url).change("revoke create on schema public from public")
    assert found(report) == {**InSchema.usual} | {"search path": Level.WARNING}
    assert "revoke create on schema public" in said(report, "search path")


def test_postings_that_an_open_snapshot_keeps_are_told_with_who_has_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vector_memory.extras.postgres.doctor.MUCH_SPACE", 1 << 20)
    assert "space" not in found(examine(url))
    with psycopg.connect(DatabaseUrl.parse(url).conninfo()) as other:
        other.execute("set transaction isolation level repeatable read; select 1")
        InSchema(url).change(
            "do $$ begin for n in 1..600 loop update keyword_postings set postings = postings; end loop; end $$"
        )
        report = examine(url)
        assert f"process {other.info.backend_pid} of the role postgres, in a transaction since" in said(report, "space")
        assert said(report, "text"), "what is stored is examined nevertheless"
    InSchema(url).change("vacuum full keyword_postings")
    assert "space" not in found(examine(url))
