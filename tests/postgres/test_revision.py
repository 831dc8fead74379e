"""Whoever changes a memory raises its revision in the same commit, so that whoever waits for changes sees each."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import psycopg
import pytest

from doctor.conftest import store_all
from doctor.test_faults import InSchema
from memory_files import SETTINGS, doctor
from vector_memory.domain import Scope
from vector_memory.extras.postgres.engine import index_vectors, prepare_database
from vector_memory.extras.teams.registry import Registry
from vector_memory.settings import DatabaseUrl
from vector_memory.store import SessionMemoryStore

WATCH = """
create schema watching;
create table watching.commits (transaction bigint, tables text, revision bigint);
create function watching.note() returns trigger language plpgsql as $$
begin
    insert into watching.commits values (txid_current(), tg_table_name, (select revision from memory.namespace));
    return null;
end $$;
do $$ declare named text; begin
    for named in select relname from pg_class where relnamespace = 'memory'::regnamespace and relkind = 'r' loop
        execute format('create constraint trigger noted after insert or update or delete on memory.%I '
            'deferrable initially deferred for each row execute function watching.note()', named);
    end loop;
end $$
"""
"""Notes each changed row with the revision at the end of its transaction."""

SHARED = """
select string_agg(distinct tables, ', ') from watching.commits
where revision in (select revision from watching.commits group by revision having count(distinct transaction) > 1)
"""
"""The tables that a transaction changed without a revision of its own."""


@pytest.fixture
def url(database: Callable[[str], str]) -> str:
    address = database("postgres")
    store_all(address)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(WATCH)
    return address


def revision(url: str) -> int:
    with SessionMemoryStore(url, SETTINGS) as store:
        return store.version()


def ask(url: str, sql: str) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(sql).fetchall()[0][0]


def test_every_call_that_changes_a_row_has_a_revision_of_its_own(url: str) -> None:
    with SessionMemoryStore(url, SETTINGS) as store:
        store.defer_vectors()
        store.store_memory("report", "# Late\n\nIts vectors come later.", session_id="s", agent_id="a")
        store.start_background_work()
        store.search_documents("password", Scope("report"))
        store.get_memory_by_id(1)
        store.pin(2)
        store.amend_memory(2, title="Other")
        store.supersede(5, 2)
        store.delete_memory(3)
        store.erase_expired()
        store.tagged.store("Redis needs no password.", tags=["redis"], category="decision")
        exported = BytesIO()
        store.export_memories(exported)
        store.import_memories(BytesIO(exported.getvalue()), as_session="copied")
        store.backfill_embeddings()
        store.reembed()
    for damage in ("delete from keyword_postings", "delete from memory_passages", "delete from memory_chunks"):
        InSchema(url).change(f"{damage}; update namespace set revision = revision + 1")
        assert doctor(url).repair_all(doctor(url).examine(deep=True))[1]
    assert ask(url, "select count(distinct transaction) from watching.commits") > 20
    assert ask(url, SHARED) is None


def test_what_changes_tables_and_no_rows_raises_the_revision_too(url: str) -> None:
    found = [revision(url)]

    def raised_by(change: Callable[[], object]) -> bool:
        change()
        found.append(revision(url))
        return found[-1] > found[-2]

    address = DatabaseUrl.parse(url)
    InSchema(url).change("drop index idx_tags")
    assert raised_by(lambda: doctor(url).repair_all(doctor(url).examine(deep=True)))
    assert ask(url, "select to_regclass('memory.idx_tags')::text")
    assert raised_by(lambda: index_vectors(address))
    assert raised_by(lambda: index_vectors(address, drop=True))
    prepare_database(address, dimensions=16)
    teams = Registry(address, dimensions=16)
    teams.create("one")
    its_revision = f"select revision from {address.of_namespace('one').schema}.namespace"
    before = ask(url, its_revision)
    with teams.tables.held("one") as held:
        held.give_to("another")
    assert ask(url, its_revision) == before + 1
