"""Storing past sessions: once each, with their own times, and without secrets."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines import execute
from transcripts.conftest import LONG, SHOP, Write, agent, user
from vector_memory.clients import claude
from vector_memory.clients.reading.importing import BATCH, ImportedSessions, Importer
from vector_memory.domain import MemoryKind, Scope
from vector_memory.domain.validation import MAX_CONTENT
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

TOKEN = "gh" + "p_" + "A1b2C3d4E5f6" * 3
WITHOUT = {"is_dry": False, "redacts": False}


def imported(store: SessionMemoryStore, project: str | None = SHOP, **switches: bool) -> ImportedSessions:
    """Import the sessions of both clients."""
    where = None if project is None else Path(project)
    return Importer(store, **switches).run(["claude", "codex"], where, lambda _done, _total: None)


def stored(store: SessionMemoryStore, kind: MemoryKind = MemoryKind.INPUT_PROMPT) -> list[Any]:
    """Return the memories of a kind, the oldest first."""
    return list(reversed(store.search_scoped(Scope(kind)).results))


@pytest.mark.usefixtures("homes")
def test_real_sessions_are_stored_with_their_times_sessions_and_project(store: SessionMemoryStore) -> None:
    """Of both clients, and once only."""
    first = imported(store)
    assert first.stored == {"input_prompt": 8, "working_memory": 2, "report": 1, "session_context": 2}
    assert (len(first.sessions), first.transcripts, first.unread) == (3, 4, [])
    (report,) = stored(store, MemoryKind.REPORT)
    assert report.created_at == "2026-11-22T15:44:47Z"
    assert report.session_id == "5b1c2d3e-0000-4000-8000-000000000001"
    assert report.metadata == {"project": SHOP}
    again = imported(store)
    assert (again.stored.total(), again.skipped) == (0, first.stored.total() + first.skipped)


@pytest.mark.usefixtures("homes")
def test_a_dry_run_counts_what_an_import_stores_and_stores_nothing(store: SessionMemoryStore, tmp_path: Path) -> None:
    """Not even an empty file."""
    planned = imported(store, is_dry=True)
    assert not (tmp_path / "memory.db").exists()
    assert planned == imported(store)


@pytest.mark.usefixtures("homes")
def test_only_sessions_of_the_project_and_folders_in_it_are_stored(store: SessionMemoryStore, write: Write) -> None:
    """The names of clients' folders alone do not tell: a-b and a/b have the same."""
    write(user("Here."), name="s1.jsonl")
    write(user("Below.", cwd=f"{SHOP}/web", sessionId="s2"), name="../-home-ann-shop-web/s2.jsonl")
    write(user("Elsewhere.", cwd="/home/ann/shop-web", sessionId="s3"), name="../-home-ann-shop-web/s3.jsonl")
    assert imported(store).sessions == {"s1", "s2"}
    assert imported(store, "/home/ann/shop-web").sessions == {"s3"}
    assert imported(store, None).skipped == 3


def test_sessions_under_a_link_to_a_project_are_sessions_of_the_project(
    store: SessionMemoryStore, write: Write, tmp_path: Path
) -> None:
    """Its real path names it."""
    folder, link = tmp_path / "shop", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    write(user("Why?", cwd=str(link)), name=f"../{claude.name_of(link)}/s1.jsonl")
    write(user("So?", cwd=str(folder)), name=f"../{claude.name_of(folder)}/s1.jsonl")
    assert imported(store, str(link)).stored.total() == 2
    assert [prompt.metadata for prompt in stored(store)] == [{"project": str(folder)}] * 2


def test_a_grown_transcript_adds_only_what_is_new(store: SessionMemoryStore, write: Write) -> None:
    """Also when the last line was cut off before."""
    lines = [user("Why?"), agent(LONG), user("And then?", 2)]
    write(*lines[:1], json.dumps(lines[1])[:50], ending="")
    assert imported(store).stored.total() == 1
    write(*lines)
    grown = imported(store)
    assert (grown.stored.total(), grown.skipped) == (2, 1)


def test_lines_that_cannot_be_read_are_named_and_all_others_stored(store: SessionMemoryStore, write: Write) -> None:
    """A crash can tear a line, and the client leaves such lines out, too."""
    bad = write(user("Why?"), '{"type": "user", "mess', "\0" * 40, user("So?", 1))
    result = imported(store)
    reason = "Line 2: expected JSON. 1 more line could not be read."
    assert [(one.path, one.reason) for one in result.unread] == [(bad, reason)]
    assert sorted(prompt.content for prompt in stored(store)) == ["So?", "Why?"]


def test_a_session_that_goes_on_in_another_transcript_is_stored_once(store: SessionMemoryStore, write: Write) -> None:
    """Some releases copy all lines into it, with the new session's id."""
    lines = [user("Why?", uuid="u0"), agent(LONG, uuid="u1")]
    os.utime(write(*lines, name="s9.jsonl"), (1, 1))
    copies = [{**one, "sessionId": "s2"} for one in lines]
    write(*copies, user("So?", 2, uuid="u2", sessionId="s2"), name="s2.jsonl")
    result = imported(store)
    assert (result.stored.total(), result.skipped) == (3, 2)
    assert {one.content: one.session_id for one in stored(store)} == {"Why?": "s1", "So?": "s2"}


@pytest.mark.parametrize("name", ["a folder.jsonl", "unreadable.jsonl"])
def test_what_cannot_be_read_is_named(name: str, store: SessionMemoryStore, write: Write) -> None:
    """A folder is no transcript; a file that is gone or forbidden is reported."""
    path = write(user("Why?"), name=name)
    path.unlink()
    if name.startswith("a folder"):
        path.mkdir()
        assert imported(store).unread == []
    else:
        path.symlink_to("/proc/self/mem")
        assert [one.path for one in imported(store).unread] == [path]


def test_the_character_nul_is_replaced_and_counted(store: SessionMemoryStore, write: Write) -> None:
    write(user("Is \0 a character?"), agent(LONG))
    assert imported(store, is_dry=True).nul_characters == 1
    assert imported(store).nul_characters == 1
    assert stored(store)[-1].content == "Is \ufffd a character?"
    again = imported(store)
    assert (again.skipped, again.nul_characters) == (2, 0)


def test_secrets_are_replaced_unless_they_are_wanted(store: SessionMemoryStore, write: Write) -> None:
    """The result says how many, and the memory has none of them."""
    write(user(f"Use {TOKEN}. <private>My birthday is in May.</private>"))
    assert imported(store).redacted == 2
    assert [prompt.content for prompt in stored(store)] == ["Use [redacted: GitHub token]. [redacted: private]"]
    assert imported(store).redacted == 0
    assert imported(store, **WITHOUT).stored.total() == 1
    assert TOKEN in stored(store)[-1].content + stored(store)[0].content


def test_words_that_were_said_twice_are_stored_twice(store: SessionMemoryStore, write: Write) -> None:
    """Those that a hook has stored, at a time of its own, are there already."""
    lines = [user("continue"), user("continue", 1), user("continue", 50)]
    hooked = {"session_id": "s1", "metadata": {"project": SHOP}, "created_at": "2026-03-04T05:06:01.300000+00:00"}
    store.store_memory("input_prompt", "continue", agent_id="main-orchestrator", **hooked)
    write(*lines)
    result = imported(store)
    assert (result.stored.total(), result.skipped) == (2, 1)
    assert [one.created_at[17:19] for one in stored(store)] == ["00", "01", "50"]
    assert (imported(store).stored.total(), imported(store).skipped) == (0, 3)


def deleted(store: SessionMemoryStore, how: str) -> None:
    """Let all prompts and answers be gone, in one of the ways."""
    numbers = [one.id for kind in ("input_prompt", "working_memory") for one in stored(store, MemoryKind(kind))]
    for number in numbers:
        match how:
            case "deleted":
                store.delete_memory(number)
            case "superseded":
                newer = store.store_memory("report", f"Instead of {number}.", session_id="s2", agent_id="a")
                store.supersede(newer.memory_id or 0, number)
            case "expired" | "erased":
                at = "2026-03-05T00:00:00.000000+00:00"
                execute(store, "insert into memory_lifecycle (memory_id, expires_at) values (?, ?)", number, at)
    if how == "cleaned up":
        store.cleanup_old_memories(1, dry_run=False)
    if how == "erased":
        store.erase_expired()


@pytest.mark.parametrize("how", ["deleted", "cleaned up", "expired", "erased", "superseded"])
@pytest.mark.parametrize("at", [1, 300])
def test_what_is_gone_stays_gone(how: str, at: int, store: SessionMemoryStore, write: Write) -> None:
    """Whether an import stored it, or a hook at a time of its own; an answer stands for its repetitions."""
    write(user("Why?"), agent(LONG), user("So?", 2), agent(LONG, 3))
    hooked = {"session_id": "s1", "agent_id": "claude-code", "metadata": {"project": SHOP}}
    time = f"2026-03-04T05:06:01.{at:03}000+00:00"
    store.store_memory("working_memory", LONG.strip(), created_at=time, **hooked)
    imported(store)
    deleted(store, how)
    again = imported(store)
    assert again.stored.total() == 0
    assert again.skipped + again.deleted_earlier == 4
    assert bool(again.deleted_earlier) == (how not in ("expired", "superseded"))
    assert imported(store, is_dry=True) == again


def test_what_was_deleted_comes_back_if_a_person_wants_it(store: SessionMemoryStore, write: Write) -> None:
    """A dry run says so, and what comes back can be deleted again."""
    write(user("Why?"), agent(LONG))
    for _ in range(2):
        imported(store, again=True)
        assert imported(store).skipped == 2
        deleted(store, "deleted")
        assert imported(store).deleted_earlier == 2
    assert imported(store, again=True, is_dry=True).stored.total() == 2


@pytest.mark.parametrize("way", [(True, False), (False, True)])
def test_what_was_deleted_stays_gone_with_and_without_its_secrets(
    way: tuple[bool, bool], store: SessionMemoryStore, write: Write
) -> None:
    write(user(f"Use {TOKEN}."), agent(f"{LONG} {TOKEN}"))
    assert imported(store, redacts=way[0]).stored.total() == 2
    deleted(store, "deleted")
    assert imported(store, redacts=way[1]).deleted_earlier == 2
    assert imported(store, redacts=way[1], again=True).stored.total() == 2
    deleted(store, "deleted")
    assert imported(store, redacts=way[0]).deleted_earlier == 2


def test_the_same_words_said_anew_are_not_those_that_were_deleted(store: SessionMemoryStore, write: Write) -> None:
    """Of a prompt each counts, whatever the clock says; another session is another place."""
    lines = [user("continue"), user("continue", 1)]
    write(*lines)
    imported(store)
    store.delete_memory(stored(store)[0].id)
    write(*lines, user("continue", 2), agent(LONG, 3))
    write(user("continue", sessionId="s2"), name="s2.jsonl")
    grown = imported(store)
    assert (grown.stored.total(), grown.skipped, grown.deleted_earlier) == (3, 1, 1)
    assert [one.created_at[17:19] for one in stored(store) if one.session_id == "s1"] == ["01", "02"]


def stored_late(store: SessionMemoryStore, meanwhile: Callable[[], object] = lambda: None) -> int:
    """Import while another import stores the same first; return how much this one stores."""
    store_batch = store.batches.store

    def store_twice(batch: Any) -> Any:
        store_batch(batch)
        meanwhile()
        return store_batch(batch)

    store.batches.store = store_twice  # type: ignore[method-assign]
    return Importer(store).run(["claude"], Path(SHOP), lambda *_: None).stored.total()


def test_two_imports_at_once_do_not_store_what_was_deleted_in_between(store: SessionMemoryStore, write: Write) -> None:
    """One has read the transcript before the other has stored it."""
    write(user("Why?"), agent(LONG))
    assert stored_late(store, lambda: deleted(store, "deleted")) == 0


def test_two_imports_at_once_store_once(store: SessionMemoryStore, write: Write) -> None:
    """Each has read the transcript before the other has stored it."""
    write(user("Why?"), agent(LONG))
    assert stored_late(store) == 0
    assert len(stored(store)) + len(stored(store, MemoryKind.WORKING_MEMORY)) == 2


def test_a_time_in_the_future_becomes_the_present(store: SessionMemoryStore, write: Write) -> None:
    """Clocks differ."""
    write(user("Why?", timestamp="2999-01-01T00:00:00Z"))
    imported(store)
    assert stored(store)[0].created_at < "2999"


def test_half_a_character_does_not_stop_an_import(store: SessionMemoryStore, write: Write) -> None:
    """JSON can hold one."""
    write(
        '{"type": "user", "sessionId": "s1", "cwd": "/home/ann/shop", "timestamp": "2026-01-01T00:00:00Z", '
        '"message": {"content": "Why \\ud83d?"}}'
    )
    assert imported(store).stored.total() == 1


def test_many_memories_are_stored_in_several_transactions(
    store: SessionMemoryStore, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that others can write in between."""
    write(*(user(f"Prompt {number}", number % 60) for number in range(2 * BATCH + 1)))
    sizes: list[int] = []
    whole = store.batches.store
    monkeypatch.setattr(store.batches, "store", lambda batch: sizes.append(len(batch)) or whole(batch))
    assert imported(store).stored.total() == 2 * BATCH + 1
    assert sizes == [BATCH, BATCH, 1]


def test_what_is_imported_is_found_by_its_words_at_once_and_by_meaning_after_the_backfill(
    store: SessionMemoryStore, write: Write
) -> None:
    """An import computes no vectors."""
    write(user("Why?"), agent(LONG))
    imported(store)
    found = store.search_chunks("temporary files", Scope(MemoryKind.WORKING_MEMORY), mode="keyword")
    assert found.total_results > 0
    assert store.get_memory_stats().without_vectors == 2
    assert store.backfill_embeddings().memories_remaining == 0


def test_the_setting_for_redaction_counts_for_an_import_too(tmp_path: Path, write: Write) -> None:
    """Whoever switched it off has their texts unchanged."""
    write(user(f"Use {TOKEN}."))
    with SessionMemoryStore(tmp_path / "memory.db", Settings(redact="off"), embedder=ToyEngine()) as store:
        assert imported(store).redacted == 0
        assert [prompt.content for prompt in stored(store)] == [f"Use {TOKEN}."]


def test_a_secret_at_the_cut_of_a_long_text_is_not_split_beyond_recognition(
    store: SessionMemoryStore, write: Write
) -> None:
    """Nor is one in the title of a report."""
    beginning = "word " * (MAX_CONTENT // 5 - 2)
    write(user(f"{beginning}{TOKEN} and more"))
    report = write(agent(LONG), name="s1/subagents/agent-1.jsonl")
    meta = {"agentType": "explorer", "description": f"Try {TOKEN}"}
    report.with_suffix(".meta.json").write_text(json.dumps(meta))
    assert imported(store).unread == []
    (prompt,) = store.search_scoped(Scope(MemoryKind.INPUT_PROMPT)).results
    assert TOKEN[:8] not in store.get_memory_by_id(prompt.id, MAX_CONTENT - 100).memory.content
    (found,) = stored(store, MemoryKind.REPORT)
    assert found.title == "Try [redacted: GitHub token]"
