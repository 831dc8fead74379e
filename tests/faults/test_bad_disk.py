"""The disk is full, or reports errors."""

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from faults.bad_disk import BROKEN, FULL, BadDisk, Codes, bad_disk
from faults.effort import effort
from faults.ledger import texts
from faults.originals import copied_original, original_texts, whole_copies
from faults.soundness import connected, faults_of
from faults.workload import content, memory, open_store, search
from inside import database_of
from vector_memory.errors import DatabaseError
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.timeout(900)

UNREADABLE = {"read": BROKEN["read"]}
UNWRITABLE = {operation: code for operation, code in BROKEN.items() if operation != "read"}
WAYS = {
    "full once": (FULL, False),
    "full from then on": (FULL, True),
    "unwritable once": (UNWRITABLE, False),
    "unwritable from then on": (UNWRITABLE, True),
    "unreadable once": (UNREADABLE, False),
    "unreadable from then on": (UNREADABLE, True),
}
every_way = pytest.mark.parametrize(("codes", "lasting"), WAYS.values(), ids=WAYS)

STEP = effort(quick=11, long=1)
"""From one operation that fails to the next."""

ADVICE = re.compile(r"free some space|check the disk|check that its (folder|disk)")


def says_what_to_do(error: DatabaseError | None, codes: Codes) -> bool:
    """Return whether an error, if there is one, says what to do about a disk that cannot be written to."""
    return error is None or codes is UNREADABLE or bool(ADVICE.search(str(error)))


@pytest.fixture
def disk() -> Iterator[BadDisk]:
    with bad_disk() as opened:
        yield opened


@pytest.fixture
def store(disk: BadDisk, path: Path) -> Iterator[SessionMemoryStore]:  # noqa: ARG001 - has to be there first
    """A store with a few memories that checkpoints after each commit, so that faults meet checkpoints as well."""
    with open_store(path) as opened:
        with database_of(opened).write() as connection:
            connection.wal_autocheckpoint(1)
        for number in range(4):
            opened.store_memory(**memory(number))
        yield opened


class Attempt(NamedTuple):
    """Calls something while the operation number `at` fails."""

    disk: BadDisk
    codes: Codes
    lasting: bool
    at: int

    def __call__(self, action: Callable[..., object], *arguments: Any, **named: Any) -> DatabaseError | None:
        """Return the DatabaseError of the call, or None if it succeeds. No other error is expected."""
        self.disk.fail(self.codes, self.at, lasting=self.lasting)
        try:
            action(*arguments, **named)
        except DatabaseError as error:
            return error
        finally:
            self.disk.heal()
        return None


def sweep(disk: BadDisk, codes: Codes, *, lasting: bool, step: int = 1) -> Iterator[Attempt]:
    """Let the first operation fail, then the second and so on, until one is meant that the call does not reach."""
    for at in itertools.count(1, step):
        yield Attempt(disk, codes, lasting, at)
        if not disk.failed:
            return


def ids(path: Path) -> dict[str, int]:
    """Return the ids of all memories by their text."""
    with connected(path) as connection:
        return dict(connection.execute("select content, id from session_memories").fetchall())


@every_way
def test_a_store_that_meets_a_fault_fails_and_changes_nothing_or_succeeds_and_so_does_the_next(
    store: SessionMemoryStore, disk: BadDisk, path: Path, codes: Codes, lasting: bool
) -> None:
    for attempt in sweep(disk, codes, lasting=lasting, step=STEP):
        number = 4 + 2 * attempt.at
        error = attempt(store.store_memory, **memory(number))
        assert says_what_to_do(error, codes), attempt
        assert faults_of(path) == [], attempt
        assert (error is None) == (content(number) in ids(path)), attempt
        assert search(store, 0), attempt
        store.store_memory(**memory(number + 1))
        # So that the file stays small.
        for text in ids(path).keys() & {content(number), content(number + 1)}:
            store.delete_memory(ids(path)[text])


@every_way
def test_a_delete_that_meets_a_fault_fails_and_changes_nothing_or_succeeds(
    store: SessionMemoryStore, disk: BadDisk, path: Path, codes: Codes, lasting: bool
) -> None:
    memory_id = store.store_memory(**memory(7)).memory_id
    for attempt in sweep(disk, codes, lasting=lasting, step=STEP):
        error = attempt(store.delete_memory, memory_id)
        assert says_what_to_do(error, codes), attempt
        assert faults_of(path) == [], attempt
        assert (error is None) == (content(7) not in ids(path)), attempt
        if error is None:
            memory_id = store.store_memory(**memory(7)).memory_id


def create(path: Path) -> None:
    """Open a store and create its file."""
    with open_store(path) as store:
        database_of(store).create()


@every_way
def test_a_creation_that_meets_a_fault_fails_or_succeeds_and_the_next_one_succeeds(
    disk: BadDisk, tmp_path: Path, codes: Codes, lasting: bool
) -> None:
    for attempt in sweep(disk, codes, lasting=lasting, step=effort(quick=15, long=1)):
        path = tmp_path / str(attempt.at) / "memory.db"
        error = attempt(create, path)
        assert error is None or ADVICE.search(str(error)), attempt
        with open_store(path) as store:
            store.store_memory(**memory(0))
        assert faults_of(path) == [], attempt


def upgrade(path: Path) -> None:
    """Take over a file of the original server and index it."""
    with open_store(path) as store:
        store.backfill_embeddings()


@every_way
def test_an_upgrade_or_a_backfill_that_meets_a_fault_loses_no_memory_and_the_next_one_finishes(
    disk: BadDisk, tmp_path: Path, codes: Codes, lasting: bool
) -> None:
    for attempt in sweep(disk, codes, lasting=lasting, step=effort(quick=1_201, long=7)):
        path = copied_original(tmp_path / str(attempt.at))
        attempt(upgrade, path)
        assert texts(path) == original_texts(), attempt
        assert faults_of(path, indexed=False) == [], attempt
        upgrade(path)
        assert faults_of(path) == [], attempt
        assert whole_copies(path), attempt


def test_reads_continue_while_the_disk_is_full(store: SessionMemoryStore, disk: BadDisk) -> None:
    search(store, 0)
    disk.fail(FULL, 1, lasting=True)
    with pytest.raises(DatabaseError, match="free some space"):
        store.store_memory(**memory(9))
    assert search(store, 0)
    assert store.get_session_stats("s1").total_memories == 1


def test_a_failed_upgrade_leaves_no_partial_copy(disk: BadDisk, tmp_path: Path) -> None:
    path = copied_original(tmp_path)
    disk.fail(FULL, 20, lasting=True)
    with pytest.raises(DatabaseError, match="free some space"):
        open_store(path)
    disk.heal()
    assert len(list(tmp_path.glob("*.before-upgrade*"))) == len(whole_copies(path))


@every_way
def test_a_search_that_meets_a_fault_fails_or_succeeds_and_the_next_one_succeeds(
    disk: BadDisk, path: Path, codes: Codes, lasting: bool
) -> None:
    with open_store(path) as store:
        store.store_memory(**memory(0))
    for attempt in sweep(disk, codes, lasting=lasting, step=1 if codes is UNREADABLE else STEP):
        with open_store(path) as store:
            error = attempt(search, store, 0)
            assert error is None or codes is not UNREADABLE or ADVICE.search(str(error)), attempt
            assert search(store, 0), attempt


def stored_until_full(store: SessionMemoryStore) -> list[str]:
    """Store until it fails, and return the stored memories."""
    stored: list[str] = []
    with contextlib.suppress(DatabaseError):
        for number in itertools.count():
            store.store_memory(**memory(number))
            stored.append(content(number))
    return stored


def test_a_really_full_disk_is_reported_and_everything_works_again_when_there_is_space(small_disk: Path) -> None:
    path, ballast = small_disk / "memory.db", small_disk / "ballast"
    ballast.write_bytes(bytes(300_000))
    with open_store(path) as store:
        stored = stored_until_full(store)
        with pytest.raises(DatabaseError, match="free some space"):
            store.store_memory(**memory(len(stored)))
        assert search(store, 0)
        ballast.unlink()
        store.store_memory(**memory(len(stored)))
        assert search(store, 0)
        assert list(ids(path)) == [*stored, content(len(stored))]
        assert faults_of(path) == []
