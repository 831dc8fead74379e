"""What waits is stored in order, once, by one process at a time; nothing that cannot be stored stops the rest."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from forked import Forked
from vector_memory.errors import DatabaseError
from vector_memory.writing import outbox as delivery_module
from vector_memory.writing.outbox import (
    ATTEMPTS,
    SECONDS_UNTIL_ROOM,
    Body,
    Delivery,
    DeliveryOutcome,
    Outbox,
    Verdict,
    failure,
)
from waiting import eventually

STORED: DeliveryOutcome[Any] = DeliveryOutcome(Verdict.STORED)
Answers = dict[str, DeliveryOutcome[Any] | Exception]


class Memory:
    """What texts are stored in. `answers`: what it answers to some of them."""

    def __init__(self) -> None:
        self.answers: Answers = {}
        self.texts: list[str] = []
        self.tried: list[str] = []

    def store(self, body: Body) -> DeliveryOutcome[Any]:
        text = body["content"]
        self.tried.append(text)
        outcome = self.answers.get(text, STORED)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome.verdict is Verdict.STORED:
            self.texts.append(text)
        return outcome


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path / "outbox")


@pytest.fixture
def deliver(memory: Memory, outbox: Outbox) -> Iterator[Callable[..., Delivery[Any]]]:
    """Return a function that begins to deliver; all of it ends with the test."""
    begun = []

    def begin(place: Outbox = outbox) -> Delivery[Any]:
        begun.append(Delivery(place, memory.store))
        return begun[-1]

    yield begin
    for delivery in begun:
        delivery.stop()


def waiting(outbox: Outbox) -> list[str]:
    return [waiting.body["content"] for waiting in outbox.waiting()]


def added(outbox: Outbox, *texts: str) -> None:
    for text in texts:
        outbox.add({"content": text})


def test_what_others_have_left_is_stored_in_order_and_then_forgotten(
    outbox: Outbox, memory: Memory, deliver: Callable[..., Delivery[Any]]
) -> None:
    added(outbox, *"abc")
    deliver().start()
    eventually(outbox.is_empty)
    assert memory.texts == ["a", "b", "c"]


def test_a_caller_learns_the_outcome_of_its_text(
    outbox: Outbox, memory: Memory, deliver: Callable[..., Delivery[Any]]
) -> None:
    memory.answers = {"a": DeliveryOutcome(Verdict.STORED, answer="Thank you."), "b": failure("ValidationError", "No.")}
    delivery = deliver()
    taken = [delivery.take({"content": text}) for text in "ab"]
    assert [one.result(60) for one in taken] == [memory.answers["a"], memory.answers["b"]]
    assert outbox.is_empty()


@pytest.mark.parametrize("code", ["ValidationError", "AccessDenied", "ChunkingError"])
def test_what_is_refused_for_good_is_set_aside_with_its_reason(
    outbox: Outbox, memory: Memory, deliver: Callable[..., Delivery[Any]], code: str
) -> None:
    added(outbox, *"abc")
    memory.answers = {"b": failure(code, "It is not welcome.")}
    deliver().deliver_waiting()
    assert (memory.texts, waiting(outbox)) == (["a", "c"], [])
    assert [reason for _, reason in outbox.refused()] == ["It is not welcome."]


@pytest.mark.parametrize("code", ["QuotaExceeded", "DatabaseLockError"])
def test_what_all_would_meet_lets_all_wait_in_order_and_says_why(
    outbox: Outbox, memory: Memory, deliver: Callable[..., Delivery[Any]], code: str
) -> None:
    added(outbox, *"abc")
    memory.answers = {"a": failure(code, "Not now.")}
    delivery = deliver()
    pauses = {delivery.deliver_waiting() for _ in range(ATTEMPTS + 2)}
    assert (set(memory.tried), waiting(outbox)) == ({"a"}, ["a", "b", "c"])
    assert (pauses == {SECONDS_UNTIL_ROOM}) == (code == "QuotaExceeded")
    assert outbox.contents().problem == "Not now."
    assert delivery.is_held_up
    memory.answers = {}
    delivery.deliver_waiting()
    assert (memory.texts, outbox.is_empty()) == (["a", "b", "c"], True)
    assert not delivery.is_held_up
    assert outbox.contents().problem == ""


@pytest.mark.parametrize("outcome", [failure("DatabaseError", "It fails."), RuntimeError("a")])
def test_what_always_fails_keeps_others_waiting_for_a_while_only_and_is_tried_again(
    outbox: Outbox, memory: Memory, deliver: Callable[..., Delivery[Any]], outcome: DeliveryOutcome[Any] | Exception
) -> None:
    added(outbox, *"abc")
    memory.answers = {"a": outcome}
    delivery = deliver()
    for _ in range(ATTEMPTS - 1):
        delivery.deliver_waiting()
    assert memory.texts == []
    assert not delivery.is_clear
    delivery.deliver_waiting()
    assert (memory.texts, waiting(outbox)) == (["b", "c"], ["a"])
    assert delivery.is_clear
    assert not delivery.is_held_up
    reason = outbox.contents().problem
    assert "It fails." in reason or "RuntimeError at test_delivery.py" in reason
    memory.answers = {}
    delivery.deliver_waiting()
    assert outbox.is_empty()


def test_two_that_share_an_outbox_store_each_text_once(
    outbox: Outbox, memory: Memory, deliver: Callable[..., Delivery[Any]]
) -> None:
    names = [f"{number:03}" for number in range(60)]
    pair = [deliver(Outbox(outbox.folder)) for _ in range(2)]
    taken = [pair[number % 2].take({"content": name}) for number, name in enumerate(names)]
    assert all(one.result(60).verdict is Verdict.STORED for one in taken)
    assert memory.tried == names


def test_while_another_process_delivers_callers_wait_only_briefly(
    outbox: Outbox, memory: Memory, deliver: Callable[..., Delivery[Any]]
) -> None:
    added(outbox, "a")
    delivery = deliver()
    with Outbox(outbox.folder).claimed() as is_ours:
        assert is_ours
        assert delivery.take({"content": "b"}).result(60).verdict is Verdict.LATER
        assert delivery.is_held_up
    eventually(outbox.is_empty)
    assert memory.texts == ["a", "b"]


DELIVERING = """
import sys, vector_memory.writing.outbox as o
from pathlib import Path
from vector_memory.writing.outbox import Outbox

def store(body):
    print(body["content"], flush=True)
    sys.stdin.readline()
    return o.DeliveryOutcome(o.Verdict.STORED)

o.Delivery(Outbox(Path(sys.argv[1])), store).deliver_waiting()
"""


@pytest.mark.parametrize("goes_on", [True, False])
def test_what_a_suspended_process_stores_waits_until_it_goes_on_or_ends(
    outbox: Outbox, memory: Memory, deliver: Callable[..., Delivery[Any]], *, goes_on: bool
) -> None:
    added(outbox, *"abc")
    with Forked("-c", DELIVERING, outbox.folder, text=True) as other, ExitStack() as stack:
        stack.callback(other.kill)
        assert other.stdout.readline() == "a\n"
        other.send_signal(signal.SIGSTOP)
        delivery = deliver()
        for _ in range(3):
            delivery.deliver_waiting()
        assert outbox.contents().deliverer.pid == str(other.pid)
        assert memory.texts == []
        if goes_on:
            other.send_signal(signal.SIGCONT)
            assert other.communicate("\n\n\n")[0] == "b\nc\n"
        else:
            other.kill()
            other.wait()
    delivery.deliver_waiting()
    assert (outbox.is_empty(), memory.texts) == (True, [] if goes_on else ["a", "b", "c"])


def test_a_text_that_the_disk_does_not_take_is_refused_and_later_ones_are_stored(
    outbox: Outbox, memory: Memory, deliver: Callable[..., Delivery[Any]]
) -> None:
    outbox.folder.write_text("A file, where the folder should be.")
    delivery = deliver()
    with pytest.raises(DatabaseError, match="could not keep the text"):
        delivery.take({"content": "a"})
    assert not delivery.is_busy
    outbox.folder.unlink()
    assert delivery.take({"content": "b"}).result(60) == STORED
    assert memory.texts == ["b"]


def test_what_keeps_texts_waiting_is_logged_once(
    outbox: Outbox, memory: Memory, deliver: Callable[..., Delivery[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    added(outbox, *"ab")
    memory.answers = dict.fromkeys("ab", failure("DatabaseLockError", "Not now."))
    delivery = deliver()
    for _ in range(3):
        delivery.deliver_waiting()
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "Texts wait on this machine until they can be stored: Not now."
    ]


def test_whatever_happens_the_thread_goes_on(
    outbox: Outbox, memory: Memory, deliver: Callable[..., Delivery[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_module, "SECONDS_BETWEEN_ATTEMPTS", 0.01)
    failed = threading.Event()

    def fail(*_: object) -> None:
        failed.set()
        raise RuntimeError

    delivery = deliver()
    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "waiting", fail)
        delivery.take({"content": "a"})
        assert failed.wait(60)
    eventually(outbox.is_empty)
    assert memory.texts == ["a"]
