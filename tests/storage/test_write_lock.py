"""A wait for the write lock ends, however rarely a writer looks whether it is free."""

import pytest

from vector_memory.errors import DatabaseLockError
from vector_memory.storage import write_lock
from vector_memory.storage.cancellation import give_way
from vector_memory.storage.write_lock import WriteLock


class StillLockedError(Exception):
    """What an engine says."""


def test_a_writer_gives_up_on_a_stuck_lock_though_its_attempts_are_further_apart_than_the_time_of_a_stall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So it is in a process that gets no processor time."""
    monkeypatch.setattr(write_lock, "STALLED_SECONDS", write_lock.SHORTEST_PAUSE / 4)
    attempts = 0

    def begin() -> None:
        nonlocal attempts
        attempts += 1
        assert attempts < 20, "it does not give up"
        raise StillLockedError

    with pytest.raises(DatabaseLockError), WriteLock((StillLockedError,)).turn(write_lock.SHORTEST_PAUSE) as turn:
        turn.take(begin)


def test_a_writer_that_waits_for_another_process_lets_other_calls_work() -> None:
    ways: list[bool] = []
    before = give_way.set(lambda: ways.append(True))

    def begin() -> None:
        if not ways:
            raise StillLockedError

    try:
        with WriteLock((StillLockedError,)).turn(60) as turn:
            turn.take(begin)
    finally:
        give_way.reset(before)
    assert ways == [True]
