"""Least rights: one role owns the tables, one serves, one reads, and none of them may do more."""

from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest

import vector_memory.extras.teams.commands as command
from clusters import Cluster
from vector_memory import MemoryKind, Scope, SessionMemoryStore, Settings
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DatabaseError, NotFoundError
from vector_memory.extras.postgres import engine, migrations
from vector_memory.extras.postgres.connection import Connection
from vector_memory.extras.postgres.database import PostgresDatabase
from vector_memory.extras.postgres.engine import prepare_database
from vector_memory.extras.teams.registry import Registry
from vector_memory.settings import DatabaseServer, DatabaseUrl

Database = Callable[[str], str]

STORED = "insert into embedding_models values (1, 'toy', 384, 'f32', 'toy', true)"


def prepare(database: Database, schema: str = "memory", *, only: bool = False, **roles: list[str]) -> list[str]:
    address = DatabaseUrl.parse(f"{database('owner')}&schema={schema}")
    return prepare_database(address, dimensions=384, only=only, **roles)


def opened(url: str, schema: str = "memory", *, read_only: bool = False) -> PostgresDatabase:
    return PostgresDatabase(url, schema=schema, dimensions=384, read_only=read_only)


def create_namespace(url: str, name: str) -> None:
    with closing(Registry(DatabaseUrl.parse(url))) as registry:
        registry.create(name)


def refused(url: str, *statements: str) -> None:
    """Require that each statement fails for want of a right."""
    for statement in statements:
        with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)


def test_the_serving_role_reads_and_writes_and_creates_nothing(database: Database) -> None:
    assert prepare(database, serving=["server"]) == ["memory"]
    ours = opened(database("server"))
    with ours.write() as connection:
        connection.execute(STORED)
    with ours.read() as connection:
        assert connection.execute("select model from embedding_models").fetchall() == [("toy",)]
    ours.close()
    refused(
        database("server"),
        "create table memory.mine (id int)",
        "create schema mine",
        "truncate memory.namespace",
        "insert into vector_memory.tokens values ('x', 'x', 'admin', 'x', 0)",
        "delete from vector_memory.tokens",
    )


def test_the_reading_role_reads_a_read_only_memory_and_changes_nothing(database: Database) -> None:
    prepare(database, reading=["reader"])
    ours = opened(database("reader"), read_only=True)
    with ours.read() as connection:
        assert connection.execute("select count(*) from session_memories").fetchall() == [(0,)]
    ours.close()
    refused(
        database("reader"),
        f"set search_path = memory; {STORED}",
        "update memory.namespace set revision = 9",
        *(f"select from vector_memory.{table}" for table in ("server_key", "tokens", "roles", "namespaces")),
    )


def test_a_role_that_was_not_named_sees_nothing(database: Database) -> None:
    prepare(database, serving=["server"])
    refused(database("stranger"), "select * from memory.namespace", "select * from vector_memory.tokens")
    with pytest.raises(DatabaseError, match="lacks a privilege"):
        opened(database("stranger"))


def test_a_role_without_ddl_is_told_which_command_to_run_for_a_missing_schema(database: Database) -> None:
    with pytest.raises(DatabaseError, match="vector-memory database prepare"):
        opened(database("server"))


def test_a_role_that_no_longer_serves_but_reads_can_only_read(database: Database) -> None:
    prepare(database, serving=["server"])
    prepare(database, reading=["server"])
    refused(database("server"), "update memory.namespace set revision = 9")
    with psycopg.connect(database("server")) as connection:
        connection.execute("select * from memory.namespace")


def test_only_rights_that_are_missing_or_too_many_are_granted_again(database: Database) -> None:
    def versions() -> list[tuple[str, ...]]:
        with psycopg.connect(database("owner")) as connection:
            return connection.execute(
                "select relname, xmin::text, relacl::text from pg_class where relnamespace = 'memory'::regnamespace"
            ).fetchall()

    prepare(database, serving=["server"], reading=["reader"])
    before = versions()
    prepare(database, serving=["server"], reading=["reader"])
    assert versions() == before
    for change in (
        "revoke select on memory.memory_chunks from reader",
        "grant update on memory.memory_chunks to reader",
        "revoke usage on schema memory from reader",
    ):
        with psycopg.connect(database("owner")) as connection:
            connection.execute(change)
        prepare(database)
        opened(database("reader"), read_only=True).close()
        refused(database("reader"), "update memory.memory_chunks set content = ''")
        with psycopg.connect(database("reader")) as connection:
            connection.execute("select from memory.memory_chunks")


def test_a_role_that_does_not_exist_is_refused_and_nothing_is_changed(database: Database) -> None:
    with pytest.raises(NotFoundError, match="nobody_here"):
        prepare(database, serving=["nobody_here"])
    with psycopg.connect(database("owner")) as connection:
        assert connection.execute("select to_regnamespace('memory')").fetchall() == [(None,)]


def test_only_a_role_that_may_create_tables_can_prepare(database: Database) -> None:
    with pytest.raises(DatabaseError, match="may not create tables"):
        prepare_database(DatabaseUrl.parse(database("stranger")), dimensions=384)


def test_a_role_that_may_not_add_pgvector_is_told_who_must(cluster: Cluster, new_name: str) -> None:
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        connection.execute(f"create database {new_name}")
        connection.execute(f"grant create on database {new_name} to owner")
    with pytest.raises(DatabaseError, match="`create extension vector` in the database, as its administrator"):
        prepare_database(DatabaseUrl.parse(cluster.url(new_name, "owner")), dimensions=384)


def test_roles_may_use_namespaces_that_are_created_later(database: Database) -> None:
    prepare(database, serving=["server"], reading=["reader"])
    create_namespace(database("owner"), "red-team")
    for role, read_only in (("server", False), ("reader", True)):
        opened(database(role), "ns_red-team", read_only=read_only).close()
    refused(database("reader"), 'update "ns_red-team".namespace set revision = 9')
    assert prepare(database) == ["memory", "ns_red-team"]


def test_memories_are_prepared_in_portions_and_a_repetition_prepares_the_rest(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate = migrations.migrate

    def fail_once(connection: Connection, schema: str, dimensions: int) -> None:
        migrate(connection, schema, dimensions)
        connection.execute("create table if not exists added (id int)")
        if failures and schema == "ns_4":
            raise failures.pop()

    def added() -> int:
        with psycopg.connect(database("owner")) as connection:
            return len(connection.execute("select from pg_tables where tablename = 'added'").fetchall())

    failures = [DatabaseError("away")]
    prepare(database)
    for number in range(1, 5):
        create_namespace(database("owner"), f"{number}")
    monkeypatch.setattr(engine, "PORTION", 2)
    monkeypatch.setattr(migrations, "migrate", fail_once)
    with pytest.raises(DatabaseError, match="away"):
        prepare(database)
    assert added() == 4
    prepare(database, reading=["reader"])
    assert added() == 5
    opened(database("reader"), "ns_4", read_only=True).close()


def test_who_prepares_many_namespaces_is_advised_to_use_another_database_for_more(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said() -> str:
        command.database("prepare", server=DatabaseServer(database_url=database("owner")))
        return capsys.readouterr().out

    assert "further namespaces" not in said()
    monkeypatch.setattr(command, "MANY_NAMESPACES", 1)
    assert "has 1 memories: create further namespaces in another database" in said()


def test_a_role_of_one_namespace_uses_no_other_and_nothing_that_servers_share(database: Database) -> None:
    prepare(database, serving=["server"])
    create_namespace(database("owner"), "red")
    prepare(database, "ns_red", only=True, serving=["server"], reading=["reader"])
    create_namespace(database("owner"), "blue")
    prepare(database)
    for role, read_only in (("server", False), ("reader", True)):
        opened(database(role), "ns_red", read_only=read_only).close()
        others = ("memory.namespace", "ns_blue.namespace", "vector_memory.server_key", "vector_memory.tokens")
        refused(database(role), *(f"select from {table}" for table in others))


def test_a_namespace_cannot_be_created_by_a_role_that_serves(database: Database) -> None:
    prepare(database, serving=["server"])
    with pytest.raises(DatabaseError, match="lacks a privilege"):
        create_namespace(database("server"), "red")


def test_a_role_that_serves_changes_the_model_too(database: Database) -> None:
    old, new = ToyEngine(8), ToyEngine(2)
    prepare_database(DatabaseUrl.parse(database("owner")), dimensions=8, serving=["server"])

    def store(role: str, engine: ToyEngine) -> SessionMemoryStore:
        settings = Settings(embedding_model="toy", embedding_dim=engine.fingerprint.dimensions)
        return SessionMemoryStore(database(role), settings, embedder=engine)

    with store("server", old) as serving:
        serving.store_memory("report", "# Outage\n\nThe ledger was locked.", agent_id="a", session_id="s")
    with store("server", new) as serving:
        assert serving.reembed().memories == 1
        serving.store_memory("report", "# Again\n\nThe ledger was locked.", agent_id="a", session_id="s")
        assert len(serving.search_chunks("ledger", Scope(kind=MemoryKind.REPORT), mode="vector").results) == 2


CONCATENATE = """
create function public.concat_ws(text, text, name, text) returns text language sql as $$ select 'public' $$
"""


def test_a_function_that_a_stranger_has_planted_does_not_set_the_search_path(database: Database) -> None:
    with psycopg.connect(database("owner")) as connection:
        connection.execute("grant create on schema public to stranger")
    with psycopg.connect(database("stranger")) as connection:
        connection.execute(CONCATENATE)
    prepare(database, serving=["server"])
    with psycopg.connect(database("owner")) as connection:
        found = connection.execute("select distinct schemaname from pg_tables where tablename ~ 'memor'").fetchall()
        assert found == [("memory",)]
