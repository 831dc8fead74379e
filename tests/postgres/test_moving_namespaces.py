"""A namespace that moves to another database while servers use it."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from clusters import Cluster
from vector_memory.cli.commands import tenancy
from vector_memory.domain import Scope
from vector_memory.errors import ConfigurationError, DatabaseError, DatabaseLockError, ValidationError
from vector_memory.settings import DatabaseServer, DatabaseUrl, Settings
from vector_memory.storage.opening import prepare_database
from vector_memory.store import SessionMemoryStore
from vector_memory.tenancy import moving
from vector_memory.tenancy.moving import move
from vector_memory.tenancy.quotas import Quota
from vector_memory.tenancy.registry import DatabaseRegistry
from vector_memory.tenancy.tokens import Permission

SETTINGS = Settings(embedding_model="toy")
SESSION = Scope("report", session_id="s")


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
        assert move(source, target, "web", nothing).memories == 3
        assert (ids(target), target.quota("web"), source.names()) == (kept, Quota(memories=100), [])
        assert (target.tokens.find(secret).namespace, source.tokens.tokens()) == ("web", ())
        for use in (lambda: add(store, "late"), lambda: store.search_documents("text", SESSION), lambda: ids(source)):
            with pytest.raises(DatabaseError, match="was moved to another database"):
                use()
    with opened(target) as store:
        assert add(store, "new") == kept[-1] + 1


def test_what_is_stored_and_deleted_during_the_first_copy_is_moved_and_a_store_during_the_second_is_refused(
    registries: tuple[DatabaseRegistry, DatabaseRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = registries
    late: list[Exception | int] = []

    def store_late() -> None:
        try:
            late.append(add(store, "late"))
        except DatabaseError as error:
            late.append(error)

    def meanwhile(*_: int) -> None:
        if not changed:
            store.delete_memory(first)
            changed.append(add(store, "meanwhile"))

    def during(*arguments: object) -> None:
        thread.start()
        forget(*arguments)

    changed: list[int] = []
    forget, thread = moving.forget_deleted, threading.Thread(target=store_late)
    monkeypatch.setattr(moving, "forget_deleted", during)
    with opened(source) as store:
        first, second = add(store, "first"), add(store, "second")
        move(source, target, "web", meanwhile)
        thread.join()
    assert ids(target) == [second, *changed]
    assert ["was moved to another database" in f"{each}" for each in late] == [True]


def test_a_move_that_would_hold_writers_for_too_long_changes_nothing_and_can_be_repeated(
    registries: tuple[DatabaseRegistry, DatabaseRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = registries
    with opened(source) as store:
        kept = [add(store, "first")]
        with monkeypatch.context() as patched:
            patched.setattr(moving, "HOLD_SECONDS", -1)
            with pytest.raises(DatabaseLockError, match="was not moved"):
                move(source, target, "web", nothing)
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
