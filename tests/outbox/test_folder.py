"""A folder of texts that wait: in order, within limits, private, and nothing in it stops the rest."""

import os
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace

import pytest

from vector_memory.errors import DatabaseError
from vector_memory.writing.outbox import Body, Delivery, DeliveryOutcome, Outbox, Verdict


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(tmp_path / "state" / "outbox", "the moon")


def added(outbox: Outbox, *texts: str) -> list[Path]:
    return [outbox.add({"content": text}) for text in texts]


def texts(outbox: Outbox) -> list[str]:
    return [waiting.body["content"] for waiting in outbox.waiting()]


def test_what_is_added_comes_after_what_waits_even_if_the_clock_was_set_back(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([5_000, 4_000, 5_001, 1])
    monkeypatch.setattr("vector_memory.writing.outbox.time", SimpleNamespace(time_ns=lambda: next(clock)))
    added(outbox, *"abcd")
    assert texts(outbox) == list("abcd")


def test_what_several_add_at_the_same_moment_is_all_kept(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vector_memory.writing.outbox.time", SimpleNamespace(time_ns=repeat(7).__next__))
    names = [str(number) for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: added(Outbox(outbox.folder), name), names))
    assert sorted(texts(outbox)) == sorted(names)


def test_only_the_owner_can_read_what_waits(outbox: Outbox) -> None:
    os.umask(before := os.umask(0))
    try:
        os.umask(0)
        added(outbox, "secret")
    finally:
        os.umask(before)
    found = [outbox.folder, outbox.folder.parent, *outbox.folder.glob("*.json")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in found] == [0o700, 0o700, 0o600]


def test_git_does_not_see_what_waits(tmp_path: Path) -> None:
    added(Outbox(tmp_path / "memory" / "memory.db.outbox"), "secret")
    for command in (["init"], ["add", "--all"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True, capture_output=True)
    staged = subprocess.run(["git", "-C", tmp_path, "status", "--porcelain"], check=True, capture_output=True)
    assert staged.stdout == b""


@pytest.mark.parametrize("damage", ["no JSON", "no object", "nested", "a folder", "a pipe", "a link to nothing"])
def test_what_cannot_be_read_is_set_aside_with_its_reason_and_the_rest_goes_on(outbox: Outbox, damage: str) -> None:
    first, _, third = added(outbox, *"abc")
    for path in (first, third):
        path.unlink()
        match damage:
            case "no JSON":
                path.write_bytes(b"{")
            case "no object":
                path.write_bytes(b"[1]")
            case "nested":
                path.write_bytes(b"[" * 100_000)
            case "a folder":
                path.mkdir()
            case "a pipe":
                os.mkfifo(path)
            case "a link to nothing":
                path.symlink_to(outbox.folder / "nothing")
    assert texts(outbox) == ["b"]
    assert [path.name for path, _ in outbox.refused()] == [first.name, third.name]
    assert all(reason.startswith("It ") for _, reason in outbox.refused())


def test_a_text_that_can_neither_be_read_nor_set_aside_blocks_no_other(outbox: Outbox) -> None:
    first, *_ = added(outbox, *"ab")
    first.write_bytes(b"{")
    (outbox.folder / "refused").write_text("A file, where the folder should be.")
    assert texts(outbox) == ["b"]
    outbox.forget(outbox.paths()[0])
    assert outbox.is_empty()
    assert first.exists()


def test_what_was_set_aside_is_put_back_in_its_place(outbox: Outbox) -> None:
    first, *_ = added(outbox, *"abc")
    outbox.set_aside(first, "No.")
    assert [reason for _, reason in outbox.refused()] == ["No."]
    assert texts(outbox) == ["b", "c"]
    assert outbox.put_back() == 1
    assert texts(outbox) == ["a", "b", "c"]
    assert list((outbox.folder / "refused").iterdir()) == []


def test_what_a_killed_process_has_not_finished_is_ignored_and_removed_a_day_later(outbox: Outbox) -> None:
    added(outbox, "a")
    draft = outbox.folder / ".vector-memory-0123456789abcdef.partial"
    draft.write_bytes(b'{"content": "x')
    added(outbox, "b")
    assert texts(outbox) == ["a", "b"]
    os.utime(draft, (0, 0))
    added(outbox, "c")
    assert not list(outbox.folder.glob("*.partial"))


@pytest.mark.parametrize(("name", "most"), [("MAX_WAITING", 2), ("MAX_BYTES", 50)])
def test_a_full_outbox_says_so_and_keeps_what_it_has(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(f"vector_memory.writing.outbox.{name}", most)
    added(outbox, *"ab")
    with pytest.raises(DatabaseError, match="Too many texts wait"):
        added(outbox, "c" * 50)
    assert texts(outbox) == ["a", "b"]


@pytest.mark.parametrize("spare", [None, 0o755], ids=["no other folder", "one that others can read"])
def test_a_folder_that_cannot_be_written_is_an_error_with_the_reason(tmp_path: Path, spare: int | None) -> None:
    (tmp_path / "spare").mkdir(spare or 0o700)
    (tmp_path / "outbox").write_text("A file, where the folder should be.")
    outbox = Outbox(tmp_path / "outbox", spare_places=[str(tmp_path / "spare")] if spare else [])
    with pytest.raises(DatabaseError, match=r"could not keep the text \((File exists|Not a directory)\)"):
        added(outbox, "a")
    assert not list((tmp_path / "spare").iterdir())


def test_what_the_disk_does_not_take_waits_in_another_folder_and_keeps_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "outbox"
    outbox = Outbox(folder, spare_places=[str(tmp_path / "spare")])
    folder.write_text("A file, where the folder should be.")
    added(outbox, *"ab")
    folder.unlink()
    added(outbox, "c")
    assert (texts(outbox), outbox.contents().waiting) == (["a", "b", "c"], 3)
    assert stat.S_IMODE((tmp_path / "spare").stat().st_mode) == 0o700
    first, second, third = outbox.paths()
    outbox.forget(first)
    outbox.set_aside(second, "Of no use.")
    assert [path.name for path, _ in outbox.refused()] == [second.name]
    assert outbox.paths() == [third]


def test_a_text_in_the_other_folder_is_stored_though_its_own_was_never_made(tmp_path: Path) -> None:
    folder = tmp_path / "outbox"
    outbox = Outbox(folder, spare_places=[str(tmp_path / "spare")])
    folder.write_text("A file, where the folder should be.")
    added(outbox, "a")
    folder.unlink()
    delivered: list[Body] = []
    delivery = Delivery(outbox, lambda body: delivered.append(body) or DeliveryOutcome(Verdict.STORED))
    delivery.deliver_waiting()
    assert [body["content"] for body in delivered] == ["a"]
    assert delivery.is_clear


def test_its_contents_name_where_the_texts_belong_since_when_they_wait_and_why(outbox: Outbox) -> None:
    assert Outbox(outbox.folder).contents() == (0, None, "", None, [])
    first, *_ = added(outbox, *"ab")
    outbox.note_problem("The disk is full.")
    found = Outbox(outbox.folder).contents()
    assert (found.waiting, found.since, found.problem) == (2, first.stat().st_mtime, "The disk is full.")
    assert Outbox(outbox.folder).target == "the moon"
    outbox.note_problem("")
    assert outbox.contents().problem == ""
