"""A server, a database or a role may be set up in any way: a memory works as ever, or says what is wrong."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from clusters import Cluster
from engine_memories import add, ids, new_memory, opened
from lattice import LatticeEmbedder
from vector_memory.domain import Scope
from vector_memory.errors import DatabaseError
from vector_memory.extras.postgres.connecting import statements_alone
from vector_memory.extras.postgres.doctor import inspected
from vector_memory.extras.postgres.statement import fetch_value
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

TEXT = "The ledger was locked \\d \\\\ 'twice'. 数据"

UNUSUAL = (
    "standard_conforming_strings=off",
    "array_nulls=off",
    "bytea_output=escape",
    "extra_float_digits=-15",
    "TimeZone=Asia/Kolkata",
    "quote_all_identifiers=on",
    "default_transaction_isolation=serializable",
    "client_min_messages=debug5",
)


@pytest.mark.parametrize("setting", UNUSUAL)
def test_what_a_role_is_set_to_changes_no_answer(
    cluster: Cluster, settings: Settings, tmp_path: Path, setting: str
) -> None:
    url = f"{cluster.url()}&schema={tmp_path.name.lower()[:60]}&options=-c%20{setting}"
    with SessionMemoryStore(url, settings, embedder=LatticeEmbedder()) as store:
        for kind in ("report", "knowledge_base", "input_prompt"):
            place = {"title": "Ledger"} if kind == "knowledge_base" else {"session_id": "s"}
            stored = store.store_memory(kind, TEXT, agent_id="a\\", tags=["t\\"], metadata={"k": "\\\0"}, **place)
            assert stored.memory_id is not None
            found = store.get_memory_by_id(stored.memory_id).memory
            assert (found.content, found.agent_id, found.tags, found.metadata["k"]) == (TEXT, "a\\", ["t\\"], "\\\0")
        assert [hit.memory_id for hit in store.search_chunks("ledger", Scope("report")).results] == [1]
        assert [hit.id for hit in store.search_memories("ledger", Scope("knowledge_base")).results] == [2]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_store_every_text_is_refused(cluster: Cluster, encoding: str, new_name: str) -> None:
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(f"create database {new_name} encoding '{encoding}' locale 'C' template template0")
    with pytest.raises(DatabaseError, match="--encoding=UTF8"):
        opened(cluster.url(new_name))


def test_a_database_without_the_schema_for_the_extension_asks_for_the_extension(database: Callable[[str], str]) -> None:
    with psycopg.connect(database("postgres")) as connection:
        connection.execute("drop extension vector")
        connection.execute("drop schema public")
    with pytest.raises(DatabaseError, match="create extension vector"):
        opened(database("postgres"))


def test_a_server_that_is_set_to_read_only_is_said_to_accept_no_changes(database: Callable[[str], str]) -> None:
    opened(database("postgres")).close()
    with closing(opened(f"{database('postgres')}&options=-c%20default_transaction_read_only%3Don")) as storage:
        with pytest.raises(DatabaseError, match="a standby or read-only"):
            add(storage, new_memory())
        assert ids(storage) == []


def test_maintenance_takes_as_long_as_it_needs_whatever_the_role_is_set_to(database: Callable[[str], str]) -> None:
    opened(database("postgres")).close()
    url = f"{database('postgres')}&options=-c%20statement_timeout%3D5s%20-c%20lock_timeout%3D5s"
    for maintenance in (statements_alone(url), inspected(url, "memory"), inspected(url, "memory", writes=True)):
        with maintenance as connection:
            for name in ("statement_timeout", "lock_timeout"):
                assert fetch_value(connection, "select current_setting(%s)", (name,)) == "0"
