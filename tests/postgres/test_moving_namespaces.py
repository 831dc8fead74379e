"""A namespace that moves to another database while servers use it."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from clusters import Cluster
from engines import execute
from vector_memory.cli.commands import tenancy
from vector_memory.domain import Scope
from vector_memory.errors import ConfigurationError, DatabaseError, DatabaseLockError, ValidationError
from vector_memory.settings import DatabaseServer, DatabaseUrl, Settings
from vector_memory.storage.opening import prepare_database
from vector_memory.storage.postgres.following import KEYS, Follower
from vector_memory.store import SessionMemoryStore
from vector_memory.tenancy import moving
from vector_memory.tenancy.moving import move
from vector_memory.tenancy.quotas import Quota
from vector_memory.tenancy.registry import DatabaseRegistry
from vector_memory.tenancy.tokens import Permission

SETTINGS = Settings(embedding_model="toy")
SESSION = Scope("report", session_id="s")

LAST_ROUND = 2
"""Rounds are counted from 0; writers wait during this one."""

SPOILED = """
create function ns_web.spoil() returns trigger language plpgsql as $$
    begin new.content := upper(new.content); return new; end
$$;
create trigger spoil before insert on ns_web.session_memories for each row execute function ns_web.spoil();
"""
"""Lets a table keep something else than what is written."""


@pytest.fixture
def registries(cluster: Cluster, new_name: str) -> Iterator[tuple[DatabaseRegistry, DatabaseRegistry]]:
    """Those of two databases: the first has the namespace `web`."""
    addresses = [DatabaseUrl.parse(cluster.create_database(f"{new_name}_{side}")) for side in ("from", "to")]
    for address in addresses:
        prepare_database(address, dimensions=384)
    with closing(DatabaseRegistry(addresses[0])) as source, closing(DatabaseRegistry(addresses[1])) as target:
        source.create("web")
        yield source, target


def opened(registry: DatabaseRegistry) -> SessionMemoryStore:
    return SessionMemoryStore(registry.address("web"), SETTINGS)


def add(store: SessionMemoryStore, text: str) -> int:
    stored = store.store_memory("report", text, session_id="s", agent_id="a").memory_id
    assert stored is not None
    return stored


def ids(registry: DatabaseRegistry) -> list[int]:
    with opened(registry) as store:
        return [hit.id for hit in store.search_changes(SESSION).results]


def nothing(*_: int) -> None:
    """Nobody watches the progress."""


def test_a_namespace_moves_with_its_ids_limits_and_tokens_and_its_old_place_refuses_use(
    registries: tuple[DatabaseRegistry, DatabaseRegistry],
) -> None:
    source, target = registries
    source.set_quota("web", Quota(memories=100))
    secret = source.tokens.create("alice", "web", Permission.WRITE)
    with opened(source) as store:
        kept = [add(store, f"text {number}") for number in range(3)]
        assert move(source, target, "web", nothing) == 3
        assert (ids(target), target.quota("web"), source.names()) == (kept, Quota(memories=100), [])
        assert (target.tokens.find(secret).namespace, source.tokens.tokens()) == ("web", ())
        for use in (lambda: add(store, "late"), lambda: store.search_documents("text", SESSION), lambda: ids(source)):
            with pytest.raises(DatabaseError, match="was moved to another database"):
                use()
    with opened(target) as store:
        assert add(store, "new") == kept[-1] + 1


def test_a_store_that_waits_during_the_last_round_is_refused_and_one_before_it_is_moved(
    registries: tuple[DatabaseRegistry, DatabaseRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = registries
    late: list[Exception | int] = []

    def store_late() -> None:
        try:
            late.append(add(store, "late"))
        except DatabaseError as error:
            late.append(error)

    @contextmanager
    def holding(*arguments: Any) -> Iterator[Any]:
        kept.append(add(store, "just before"))
        with hold(source, *arguments) as tokens:
            thread.start()
            yield tokens

    hold, thread = source.__class__.giving_away, threading.Thread(target=store_late)
    monkeypatch.setattr(source, "giving_away", holding)
    with opened(source) as store:
        kept = list[int]()
        move(source, target, "web", nothing)
        thread.join()
    assert ids(target) == kept
    assert ["was moved to another database" in f"{each}" for each in late] == [True]


def test_whatever_changes_between_the_rounds_arrives_as_it_is(
    registries: tuple[DatabaseRegistry, DatabaseRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = registries
    rounds = itertools.count()

    def change_and_catch_up(follower: Follower, *arguments: Any) -> int:
        if (turn := next(rounds)) == LAST_ROUND:
            return catch_up(follower, *arguments)
        mine = known[turn * 12 : turn * 12 + 12]
        store.delete_memory(mine[0])
        store.amend_memory(mine[1], title=f"Renamed {turn}", tags=["new", f"tag{turn}"])
        store.pin(mine[2])
        store.supersede(mine[4], mine[3])
        store.release(known[-1 - turn], known[-21 - turn])
        store.delete_memory(mine[6])  # and what it has superseded is current again
        execute(store, "update memory_lifecycle set pinned = not pinned where memory_id = ?", known[-2])
        execute(store, "delete from later_links where older_id = ?", known[30 + turn])
        store.get_memory_by_id(mine[7])
        store.store_memory("report", f"meanwhile {turn}", session_id="s", agent_id="a", ttl_days=1)
        store.tagged.store(f"Note {turn} on tags.", "log", ["new", f"tag{turn}"])
        return catch_up(follower, *arguments)

    catch_up = Follower.catch_up
    monkeypatch.setattr(Follower, "catch_up", change_and_catch_up)
    monkeypatch.setattr(moving, "SHORT_SECONDS", -1)
    monkeypatch.setattr(moving, "MOST_ROUNDS", LAST_ROUND)
    with opened(source) as store:
        known = [add(store, f"text number{number} of the report {number % 7}") for number in range(80)]
        for turn in range(20):
            store.supersede(known[-1 - turn], known[-21 - turn])
        execute(store, "insert into later_links select id, id + 1, 1 from session_memories where id < 60")
        move(source, target, "web", nothing)
    assert next(rounds) == LAST_ROUND + 1
    for table, key in KEYS.items():
        assert rows_in(target, table, key) == rows_in(source, table, key), table
    with opened(target) as store:
        hits = store.search_documents("meanwhile", SESSION).results
        assert {"meanwhile 0", "meanwhile 1"} <= {hit.content for hit in hits}
        assert add(store, "after it") == max(rows_in(target, "session_memories", "id"))[0]


def rows_in(registry: DatabaseRegistry, table: str, key: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table of the namespace, which may be closed to others."""
    with psycopg.connect(registry.address("web").conninfo()) as connection:
        return connection.execute(f"select {key}, t::text from ns_web.{table} t order by {key}").fetchall()


@pytest.mark.parametrize(
    "change",
    ["update embedding_models set model = 'other'", "create table other (like memory_passages including all)"],
    ids=["other model", "same model"],
)
def test_a_memory_whose_vectors_are_computed_again_meanwhile_is_not_moved(
    registries: tuple[DatabaseRegistry, DatabaseRegistry], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    def change_and_catch_up(follower: Follower, *arguments: Any) -> int:
        execute(store, change)
        if "create" in change:
            execute(store, "alter table memory_passages rename to earlier")
            execute(store, "alter table other rename to memory_passages")
        return catch_up(follower, *arguments)

    source, target = registries
    catch_up = Follower.catch_up
    monkeypatch.setattr(Follower, "catch_up", change_and_catch_up)
    with opened(source) as store:
        add(store, "first")
        with pytest.raises(DatabaseError, match="computed again meanwhile"):
            move(source, target, "web", nothing)
    assert source.names() == ["web"]


def test_a_namespace_with_the_same_name_and_other_memories_is_left_as_it_is(
    registries: tuple[DatabaseRegistry, DatabaseRegistry],
) -> None:
    source, target = registries
    target.create("web")
    with opened(source) as mine, opened(target) as other:
        add(mine, "mine")
        kept = add(other, "of others")
    with pytest.raises(ValidationError, match="other memories"):
        move(source, target, "web", nothing)
    assert (ids(target), source.names()) == ([kept], ["web"])


def fail_to_move(source: DatabaseRegistry, target: DatabaseRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy a namespace, and give up because writers would have to wait."""
    with monkeypatch.context() as patched:
        patched.setattr(moving, "HOLD_SECONDS", 0)
        with pytest.raises(DatabaseLockError, match="was not moved"):
            move(source, target, "web", nothing)


def test_a_memory_that_was_stored_in_the_copy_of_a_move_that_failed_is_not_lost(
    registries: tuple[DatabaseRegistry, DatabaseRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = registries
    with opened(source) as store:
        kept = [add(store, "first")]
    fail_to_move(source, target, monkeypatch)
    with opened(target) as store:
        kept.append(add(store, "in the copy"))
    with pytest.raises(ValidationError, match="other memories"):
        move(source, target, "web", nothing)
    assert (ids(target), source.names()) == (kept, ["web"])


def test_a_copy_that_does_not_return_what_was_written_is_not_used(
    registries: tuple[DatabaseRegistry, DatabaseRegistry],
) -> None:
    source, target = registries
    target.create("web")
    with opened(source) as store:
        add(store, "mine")
    with psycopg.connect(target.address("web").conninfo()) as connection:
        connection.execute(SPOILED)
    with pytest.raises(DatabaseError, match="does not return what was written"):
        move(source, target, "web", nothing)
    assert source.names() == ["web"]


def test_a_move_that_would_hold_writers_for_too_long_changes_nothing_and_can_be_repeated(
    registries: tuple[DatabaseRegistry, DatabaseRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = registries
    with opened(source) as store:
        kept = [add(store, "first")]
        fail_to_move(source, target, monkeypatch)
        kept.append(add(store, "second"))
        move(source, target, "web", nothing)
    assert ids(target) == kept


def test_a_namespace_whose_tokens_have_names_of_others_is_not_moved(
    registries: tuple[DatabaseRegistry, DatabaseRegistry],
) -> None:
    source, target = registries
    target.create("other")
    source.tokens.create("alice", "web", Permission.WRITE)
    target.tokens.create("alice", "other", Permission.WRITE)
    with pytest.raises(ValidationError, match="another token alice"):
        move(source, target, "web", nothing)
    assert source.names() == ["web"]


def test_the_command_moves_to_another_database_only(
    registries: tuple[DatabaseRegistry, DatabaseRegistry],
    cluster: Cluster,
    new_name: str,
    capsys: pytest.CaptureFixture,
) -> None:
    at, to = (cluster.url(f"{new_name}_{side}") for side in ("from", "to"))
    for wrong in (None, at):
        with pytest.raises(ConfigurationError, match="another one with --to"):
            tenancy.namespace("move", "web", to=wrong, database=DatabaseServer(database_url=at))
    tenancy.namespace("move", "web", to=to, database=DatabaseServer(database_url=at))
    assert "Moved web with 0 memories" in capsys.readouterr().out
    assert registries[1].names() == ["web"]
