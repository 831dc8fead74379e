"""What waits on this machine, and what was set aside."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory_files import contents, doctor, examine, found, said
from servers import Server
from vector_memory.upkeep.doctor.report import Level
from vector_memory.writing.outbox import DELIVERING, Outbox, outbox_for, outbox_of_memory, user_folder
from waiting import eventually

WAITS = {"memory_type": "input_prompt", "content": "Why?", "session_id": "s"}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the user of each test a folder of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def relayed(url: str) -> Outbox:
    """Return what waits for a shared memory."""
    folder = user_folder()
    assert folder is not None
    return outbox_for(url, url, folder)


def test_nothing_waits_and_nothing_is_created(path: Path) -> None:
    assert said(examine(path), "outbox").startswith("No text from hooks")
    assert not outbox_of_memory(path).folder.exists()


def test_what_waits_is_counted_with_the_time_and_the_reason(path: Path) -> None:
    outbox = outbox_of_memory(path)
    first = outbox.add(WAITS)
    outbox.add(WAITS)
    os.utime(first, (1_767_225_600, 1_767_225_600))
    outbox.note_problem("The disk is full.")
    report = examine(path)
    assert found(report) == {"outbox": Level.WARNING}
    message = f"For {path}, in {outbox.folder}: 2 texts wait since 2026-01-01 00:00:00+00:00. The disk is full."
    assert said(report, "outbox").startswith(message)


@pytest.mark.parametrize("seconds", [0, 3600])
def test_the_process_that_stores_what_waits_is_named_with_the_time_if_that_takes_long(path: Path, seconds: int) -> None:
    outbox = outbox_of_memory(path)
    outbox.add(WAITS)
    with outbox.claimed() as is_ours:
        assert is_ours
        began = time.time() - seconds
        os.utime(outbox.folder / DELIVERING, (began, began))
        told = said(examine(path), "outbox")
    since = datetime.fromtimestamp(int(began), UTC).isoformat(" ")
    assert (f"Process {os.getpid()} has been storing them since {since}" in told) == bool(seconds)
    assert (f"kill -CONT {os.getpid()}" in told) == bool(seconds)
    assert "Process" not in said(examine(path), "outbox")


def test_what_was_set_aside_is_named_with_its_reason_and_tried_again(path: Path) -> None:
    outbox, before = outbox_of_memory(path), contents(path)
    outbox.set_aside(outbox.add(WAITS), "There is no room.")
    report = examine(path)
    assert found(report) == {"outbox": Level.WARNING}
    assert "1 text was set aside" in said(report, "outbox")
    assert ".json: There is no room." in said(report, "outbox")
    after, done = doctor(path).repair_all(report)
    assert done == ["1 text will be retried."]
    assert "1 text waits since" in said(after, "outbox")
    assert contents(path) == before
    with Server(path.parent) as server:
        server.hello()
        eventually(lambda: contents(path) == [*before, "Why?"])


def test_what_waits_for_a_shared_memory_is_told_with_its_address(path: Path) -> None:
    outbox = relayed("https://memory.example.com/mcp")
    outbox.add({"tool": "store_report"})
    outbox.set_aside(outbox.add({"tool": "store_report"}), "There is no room.")
    told = said(examine(path), "outbox")
    assert "For https://memory.example.com/mcp, in " in told
    assert "1 text waits" in told
    assert "There is no room." in told
