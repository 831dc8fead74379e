"""The doctor on a memory in PostgreSQL: what it finds, and what it repairs."""

import io
import json
from uuid import uuid4

import psycopg
import pytest

from clusters import shared_cluster
from memory_files import SETTINGS, found, said
from vector_memory.domain import MemoryKind, Scope
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.maintenance.doctor.examination import Doctor
from vector_memory.maintenance.doctor.report import State
from vector_memory.settings import DatabaseUrl
from vector_memory.storage.postgres import inspection
from vector_memory.store import SessionMemoryStore

DOCUMENT = "# Title\n\n" + "\n\n".join(f"## Part {number}\n\n" + f"naïve{number} 数据 " * 15 for number in range(3))
USUAL = {"role": State.WARNING}
"""The tests connect as a superuser."""


@pytest.fixture
def url() -> str:
    address = f"{shared_cluster().url()}&schema=test_{uuid4().hex}"
    with SessionMemoryStore(address, SETTINGS) as store:
        for number in range(6):
            store.store_memory(
                ("report", "input_prompt")[number % 2], f"{DOCUMENT} {number}", session_id=f"s{number % 3}"
            )
        store.tagged.store("Redis needs a password.", tags=["redis", "ops"], category="decision")
        store.delete_memory(1)
    return address


def doctor(url: str) -> Doctor:
    return Doctor(DatabaseUrl.parse(url), SETTINGS, EmbeddingModel(lambda: load_embedder(SETTINGS)))


def change(url: str, sql: str) -> None:
    """Change a memory behind the store's back."""
    address = DatabaseUrl.parse(url)
    with psycopg.connect(address.conninfo(), autocommit=True) as connection:
        connection.execute(
            psycopg.sql.SQL("set search_path to {}, public").format(psycopg.sql.Identifier(address.schema))
        )
        connection.execute("set session_replication_role = replica")  # no foreign keys
        connection.execute(sql)


def test_a_sound_memory_is_healthy_and_examining_it_changes_nothing(url: str) -> None:
    with SessionMemoryStore(url, SETTINGS) as store:
        version = store.version()
        report = doctor(url).examine()
        assert found(report) == USUAL
        assert report.healthy
        assert store.version() == version
    assert "Connected to PostgreSQL" in said(report, "connection")
    assert "pgvector 0." in said(report, "extension")
    assert {"privileges", "size", "indexes", "vacuum", "orphans", "keywords", "tags"} <= {
        finding.name for finding in report.findings
    }


def test_a_server_that_does_not_answer_is_a_problem() -> None:
    report = doctor("postgresql://postgres@/none?host=/nowhere").examine()
    assert found(report)["connection"] == State.PROBLEM
    assert not report.healthy


def test_a_memory_that_does_not_exist_is_a_warning_and_is_not_created() -> None:
    url = f"{shared_cluster().url()}&schema=nobody_{uuid4().hex[:8]}"
    for _ in range(2):
        assert found(doctor(url).examine()) == USUAL | {"schema": State.WARNING}


def texts_in(store: SessionMemoryStore) -> list[str]:
    store.export_memories(target := io.BytesIO())
    return [json.loads(line)["content"] for line in target.getvalue().splitlines()[1:]]


def test_a_database_without_the_extension_is_a_warning_because_a_server_may_install_it() -> None:
    cluster, name = shared_cluster(), f"bare_{uuid4().hex[:8]}"
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    report = doctor(cluster.url(name)).examine()
    assert found(report) == USUAL | {"extension": State.WARNING, "schema": State.WARNING}
    assert "create extension vector" in said(report, "extension")


DAMAGES = {
    "keywords": "update keyword_postings set postings = substr(postings, 9) where id % 7 = 1",
    "chunks": "update memory_chunks set content = 'x' where id = (select max(id) from memory_chunks)",
    "passages": "delete from memory_passages where chunk_id = (select max(id) from memory_chunks)",
    "vectors": "update memory_passages set embedding = array_fill(1, array[16])::vector",
    "index": "update memory_passages set session_id = 'other' where id = (select min(id) from memory_passages)",
    "orphans": "insert into pending_vectors values (99999, 'x', 0, 0, 0)",
    "indexes": "drop index idx_kind",
    "tags": "delete from canonical_tags where tag = 'ops'",
    "unindexed": "update session_memories set embedding_model_id = null where id = 3",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_found_and_repaired(url: str, name: str) -> None:
    with SessionMemoryStore(url, SETTINGS) as store:
        before = store.search_documents("naïve1", Scope(kind=MemoryKind.REPORT))
        texts = texts_in(store)
    change(url, DAMAGES[name])
    examined = doctor(url)
    report = examined.examine()
    assert name in found(report)
    assert said(report, "text"), "what is stored is examined nevertheless"
    report, repairs = examined.repair_all(report)
    assert (found(report), bool(repairs)) == (USUAL, True)
    with SessionMemoryStore(url, SETTINGS) as store:
        after = store.search_documents("naïve1", Scope(kind=MemoryKind.REPORT))
        assert texts_in(store) == texts
    assert {result.id for result in after.results} == {result.id for result in before.results}


def test_a_changed_text_is_not_repaired(url: str) -> None:
    change(url, "update session_memories set content = 'changed' where id = 2")
    examined = doctor(url)
    report, _ = examined.repair_all(examined.examine())
    assert found(report)["text"] == State.PROBLEM
    assert "memory 2" in said(report, "text")


def test_a_table_that_is_missing_is_a_problem(url: str) -> None:
    change(url, "drop table pending_vectors")
    assert found(doctor(url).examine())["tables"] == State.PROBLEM


def test_what_a_role_may_not_do_is_said(url: str) -> None:
    name = f"role_{uuid4().hex[:8]}"
    schema = DatabaseUrl.parse(url).schema
    change(url, f'create role {name} login; grant usage on schema "{schema}" to {name}; ')
    limited = url.replace("postgres@", f"{name}@")
    assert found(doctor(limited).examine())["privileges"] == State.PROBLEM
    change(url, f'grant select on all tables in schema "{schema}" to {name}')
    report = doctor(limited).examine()
    assert found(report) == {"privileges": State.WARNING}
    assert "insert on" in said(report, "privileges")


def test_functions_that_anybody_may_create_beside_pgvector_are_a_warning(url: str) -> None:
    assert found(doctor(url).examine()) == USUAL
    change(url, "grant create on schema public to public")
    try:
        report = doctor(url).examine()
    finally:
        change(url, "revoke create on schema public from public")
    assert found(report) == USUAL | {"search path": State.WARNING}
    assert "revoke create on schema public" in said(report, "search path")


def test_postings_that_an_open_snapshot_keeps_are_told_with_who_has_it(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "MUCH_SPACE", 1 << 20)
    assert "space" not in found(doctor(url).examine())
    with psycopg.connect(DatabaseUrl.parse(url).conninfo()) as other:
        other.execute("set transaction isolation level repeatable read; select 1")
        change(
            url, "do $$ begin for n in 1..600 loop update keyword_postings set postings = postings; end loop; end $$"
        )
        report = doctor(url).examine()
        assert f"process {other.info.backend_pid} of the role postgres, in a transaction since" in said(report, "space")
        assert said(report, "text"), "what is stored is examined nevertheless"
    change(url, "vacuum full keyword_postings")
    assert "space" not in found(doctor(url).examine())


def test_dead_rows_are_cleaned(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "LARGE", 3)
    change(
        url, "analyze; update session_memories set access_count = access_count + 1; select pg_stat_force_next_flush()"
    )
    examined = doctor(url)
    report, repairs = examined.repair_all(examined.examine())
    assert any("Cleaned" in repair for repair in repairs)
    assert found(report) == USUAL
