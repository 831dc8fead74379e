"""A namespace that moves to another database while servers use it."""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress

import pytest

from clusters import Cluster
from engines import column, execute
from forked import Forked
from postgres.test_generations import add
from vector_memory.domain import Scope
from vector_memory.domain.callers import Permission
from vector_memory.errors import ConfigurationError, DatabaseError, DatabaseLockError, ValidationError
from vector_memory.extras.postgres import database
from vector_memory.extras.postgres.engine import SharedTables, prepare_database
from vector_memory.extras.teams import commands as tenancy
from vector_memory.extras.teams import namespaces
from vector_memory.extras.teams.namespaces import Moved
from vector_memory.extras.teams.registry import Quota, Registry
from vector_memory.settings import DatabaseServer, DatabaseUrl, Settings
from vector_memory.storage.teams import Teams
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.copying import Copying

Registries = tuple[Registry, Registry]

SETTINGS = Settings(embedding_model="toy")
SESSION = Scope("report", session_id="s")
WRITERS = 3

DIES = """
import os, signal
from contextlib import nullcontext
from vector_memory.settings import DatabaseUrl
from vector_memory.extras.teams.namespaces import move
from vector_memory.extras.teams.registry import Registry
from {module} import {part}
{part}.{method} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
source, target = (Registry(DatabaseUrl.parse(url)) for url in {urls})
move(source, target, "web", lambda _: nullcontext(lambda *_: None))
"""
"""A process that moves the namespace, and is killed at the call of a method."""


def made(cluster: Cluster, name: str) -> DatabaseUrl:
    address = DatabaseUrl.parse(cluster.create_database(name))
    prepare_database(address, dimensions=384)
    return address


@pytest.fixture
def registries(cluster: Cluster, new_name: str) -> Iterator[Registries]:
    """Those of two databases: the first has the namespace `web`."""
    addresses = [made(cluster, f"{new_name}_{side}") for side in ("from", "to")]
    with closing(Registry(addresses[0])) as source, closing(Registry(addresses[1])) as target:
        source.create("web")
        yield source, target


def move(source: Registry, target: Registry) -> Moved:
    return namespaces.move(source, target, "web", lambda _: nullcontext(lambda *_: None))


def opened(registry: Registry) -> SessionMemoryStore:
    return SessionMemoryStore(registry.address("web"), SETTINGS)


def ids(registry: Registry) -> list[int]:
    with opened(registry) as store:
        return column(store, "select id from session_memories order by id")


def test_a_namespace_moves_with_its_ids_limits_and_tokens_and_its_old_place_refuses_use(registries: Registries) -> None:
    source, target = registries
    source.set_quota("web", Quota(memories=100))
    secret = source.tokens.create("alice", "web", Permission.WRITE)
    with opened(source) as store:
        kept = [add(store, f"text {number}") for number in range(3)]
        assert move(source, target).memories == 3
        assert (ids(target), target.quota("web"), source.names()) == (kept, Quota(memories=100), [])
        assert (target.tokens.find(secret).namespace, source.tokens.tokens()) == ("web", ())
        for use in (lambda: add(store, "late"), lambda: store.search_documents("text", SESSION), lambda: ids(source)):
            with pytest.raises(DatabaseError, match="was moved to another database"):
                use()
    with opened(target) as store:
        assert add(store, "new") == kept[-1] + 1


def test_of_what_is_stored_while_a_namespace_moves_nothing_acknowledged_is_lost_or_doubled(
    registries: Registries,
) -> None:
    source, target = registries
    acknowledged: list[int] = []
    refusals: list[str] = []

    def store_until_refused(writer: int) -> None:
        with opened(source) as store:
            try:
                while True:
                    acknowledged.append(add(store, f"text {len(acknowledged)} of {writer}"))
                    stored.set()
            except DatabaseError as error:
                refusals.append(f"{error}")

    stored = threading.Event()
    writers = [threading.Thread(target=store_until_refused, args=(number,)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    stored.wait()
    move(source, target)
    for writer in writers:
        writer.join()
    assert ids(target) == sorted(acknowledged)
    assert ["was moved to another database" in refusal for refusal in refusals] == [True] * WRITERS


def test_what_changes_before_writers_wait_arrives_and_who_waits_for_too_long_is_told_of_a_lock(
    registries: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = registries

    def change_and_complete(copying: Copying, *arguments: object) -> None:
        if len(kept) == 1:
            store.delete_memory(kept.pop())
            kept.extend(add(store, f"text {number}") for number in range(2))
        else:
            with pytest.raises(DatabaseLockError, match="Nothing was changed"):
                add(store, "late")
            assert ids(source) == kept
        complete(copying, *arguments)

    complete = Copying.complete
    monkeypatch.setattr(Copying, "complete", change_and_complete)
    monkeypatch.setattr(database, "LOCK_TIMEOUT_SECONDS", 0.2)
    with opened(source) as store:
        kept = [add(store, "first")]
        moved = move(source, target)
    assert moved.seconds > 0.2
    assert ids(target) == kept


def takes_writes(registry: Registry) -> bool:
    if "web" not in registry.names():
        return False
    with suppress(DatabaseError), opened(registry) as store:
        return add(store, "after the kill") > 0
    return False


@pytest.mark.parametrize(
    ("part", "method", "writable"),
    [
        (Copying, "complete", [True, False]),
        (SharedTables, "give_away", [True, False]),
        (Registry, "take_over", [False, False]),
        (Teams, "remove_namespace", [False, True]),
    ],
    ids=["copying", "copied", "given away", "taken over"],
)
def test_a_killed_move_never_leaves_two_places_that_take_writes_and_can_be_repeated(
    registries: Registries, part: type, method: str, writable: list[bool]
) -> None:
    secret = registries[0].tokens.create("alice", "web", Permission.WRITE)
    with opened(registries[0]) as store:
        kept = [add(store, f"text {number}") for number in range(3)]
    urls = [registry.address("web").conninfo() for registry in registries]
    code = DIES.format(module=part.__module__, part=part.__name__, method=method, urls=urls)
    with Forked("-c", code, text=True) as moving_process:
        moving_process.wait()
        assert moving_process.returncode == -signal.SIGKILL, moving_process.stderr.read()
    assert [takes_writes(registry) for registry in registries] == writable
    move(*registries)
    assert [registry.names() for registry in registries] == [[], ["web"]]
    assert registries[1].tokens.find(secret).namespace == "web"
    assert ids(registries[1]) == kept + [kept[-1] + 1] * any(writable)


def test_a_namespace_that_was_given_to_one_database_is_taken_by_no_other(
    registries: Registries, cluster: Cluster, new_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = registries
    with closing(Registry(made(cluster, f"{new_name}_other"))) as other:
        with monkeypatch.context() as patched:
            patched.setattr(Registry, "take_over", interrupt)
            with pytest.raises(KeyboardInterrupt):
                move(source, target)
        with pytest.raises(ValidationError, match="moved this namespace to another database"):
            move(source, other)
        assert (other.names(), source.names()) == ([], ["web"])
    assert move(source, target) == Moved(None, 0)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_namespace_with_the_same_name_and_other_memories_is_left_as_it_is(registries: Registries) -> None:
    source, target = registries
    target.create("web")
    with opened(source) as mine, opened(target) as other:
        add(mine, "mine")
        kept = add(other, "of others")
    with pytest.raises(ValidationError, match="has a namespace with this name"):
        move(source, target)
    assert (ids(target), source.names()) == ([kept], ["web"])


def test_a_copy_that_does_not_return_what_was_written_is_not_used(registries: Registries) -> None:
    source, target = registries
    with opened(source) as store, opened(target) as copy:
        add(store, "mine")
        spoils = (
            "create rule spoils as on insert to session_memories do also update session_memories set title = 'other'"
        )
        execute(copy, spoils)
        with pytest.raises(DatabaseError, match="does not return what was written"):
            move(source, target)
    assert (takes_writes(source), takes_writes(target)) == (True, False)


def test_a_namespace_whose_tokens_have_names_of_others_is_not_moved(registries: Registries) -> None:
    source, target = registries
    target.create("other")
    source.tokens.create("alice", "web", Permission.WRITE)
    target.tokens.create("alice", "other", Permission.WRITE)
    with pytest.raises(ValidationError, match="another token alice"):
        move(source, target)
    assert (source.names(), takes_writes(source)) == (["web"], True)


def test_the_command_moves_to_another_database_only_and_says_for_how_long_writers_waited(
    registries: Registries, cluster: Cluster, new_name: str, capsys: pytest.CaptureFixture
) -> None:
    at, to = (cluster.url(f"{new_name}_{side}") for side in ("from", "to"))
    for wrong in (None, at):
        with pytest.raises(ConfigurationError, match="another one with --to"):
            tenancy.namespace(
                "move", "web", to=wrong, teams=tenancy.TeamFlags(database=DatabaseServer(database_url=at))
            )
    tenancy.namespace("move", "web", to=to, teams=tenancy.TeamFlags(database=DatabaseServer(database_url=at)))
    told = capsys.readouterr().out
    assert "Moved web with 0 memories" in told
    assert re.search(r"Its writers waited for \d+\.\d s\.", " ".join(told.split()))
    assert registries[1].names() == ["web"]
