"""What the page shows: the memory as it is, searches as agents make them, and deletions that can be taken back."""

import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import anyio
import pytest
from fastmcp import Client

from engines import execute
from inside import storage_of
from leaving import asked
from other_process import OtherProcess
from search.test_later import NEW, fill, opened
from ui.conftest import Ui, serving
from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import CancelledCallError, NotFoundError
from vector_memory.extras.window.page_state import Deletions
from vector_memory.files import FileMemory
from vector_memory.search.across import Across
from vector_memory.server.app import create_server
from vector_memory.settings import Answers, ServerOptions, Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.holding import Holding
from waiting import PATIENCE, eventually


class Disk(NamedTuple):
    """What is asked of a disk."""

    free: int


@pytest.fixture
def memories(store: SessionMemoryStore) -> SessionMemoryStore:
    """A report in chunks with an observation on it, notes of two sessions, and knowledge."""
    waits, logs = "The writer waits for readers. " * 8, "The log is emptied by the last reader. " * 8
    text = f"# Locks\n\n{waits}\n\n# Logs\n\n{logs}"
    report = store.store_memory("report", text, agent_id="alice", session_id="one", task_code="T", title="Waiting")
    store.store_memory(
        "report_observation", "It waits a second.", agent_id="bob", session_id="one", parent_report_id=report.memory_id
    )
    store.store_memory("working_memory", "The writer is slow.", agent_id="bob", session_id="one", session_iter=2)
    store.store_memory("working_memory", "Ready to go.", agent_id="bob", session_id="two", tags=["done"])
    rule = {"title": "Rule", "category": "rules", "metadata": {"project": "/work/ledger"}}
    store.store_memory("knowledge_base", "The writer never sleeps.", agent_id="bob", **rule)
    return store


@pytest.fixture
def page(memories: SessionMemoryStore, ui: Ui) -> Ui:
    """The page of these memories, opened."""
    del memories
    return ui.enter()


def ids(found: dict[str, list[dict[str, int]]]) -> list[int]:
    return [memory["memory_id"] for memory in found["memories"]]


def test_home_says_what_was_stored_lately_by_whom_and_where(page: Ui) -> None:
    home = page.get("home")
    assert home["stats"]["total_memories"] == 5
    assert [(session["session_id"], session["memory_count"]) for session in home["sessions"]] == [
        ("two", 1),
        ("one", 3),
    ]
    stored: dict[str, int] = {}
    for each in home["hours"]:
        stored[each["agent_id"]] = stored.get(each["agent_id"], 0) + each["memories"]
    assert stored == {"alice": 1, "bob": 4}
    assert home["since"] < home["hours"][0]["hour"] <= home["until"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ("", [5, 4, 3, 2, 1]),
        ("kind=working_memory", [4, 3]),
        ("agent=alice", [1]),
        ("session=one&iteration=v2", [3]),
        ("task=T", [1]),
        ("category=rules", [5]),
        ("project=/work/ledger", [5]),
        ("project=/work", []),
        ("tag=done", [4]),
        ("text=THE WRITER", [5, 3, 1]),
        ("text=rule", [5]),
        ("text=100%25", []),
        ("since=2999", []),
        ("state=pinned", [4]),
        ("state=superseded", [6]),
        ("state=superseded&agent=alice", []),
        ("state=any&kind=working_memory", [7, 6, 4, 3]),
        ("limit=2&offset=1", [4, 3]),
    ],
)
def test_a_list_has_all_kinds_latest_first_and_what_its_filters_name(
    page: Ui, memories: SessionMemoryStore, filters: str, found: list[int]
) -> None:
    if "state" in filters:
        memories.pin(4)
        for text in ("Go.", "Wait."):
            memories.store_memory("working_memory", text, session_id="one", agent_id="bob")
        memories.supersede(7, 6)
    answer = page.get(f"memories?{filters}")
    assert ids(answer) == found
    assert answer["total"] == (5 if "limit" in filters else len(found))


def test_a_memory_comes_with_everything_around_it(page: Ui) -> None:
    shown = page.get("memories/1")
    assert shown["memory"]["title"] == "Waiting"
    assert shown["html"].count("<h2") == 2
    assert [chunk["chunk_index"] for chunk in shown["chunks"]] == [*range(len(shown["chunks"]))]
    assert len(shown["chunks"]) > 1
    assert [note["id"] for note in shown["observations"]] == [2]
    near = [other["memory_id"] for other in shown["nearest"]]
    assert set(near) <= {2, 3, 4, 5}
    assert near[0] in {3, 5}  # it has the most of the same words


def test_a_memory_names_the_newer_ones_on_its_subject(tmp_path: Path) -> None:
    with opened(tmp_path / "later.db") as store:
        older, newer = fill(store)
        eventually(lambda: [one.id for one in store.get_memory_page(older).later] == [newer])
        with serving(store) as ui:
            [later] = ui.enter().get(f"memories/{older}")["later"]
    assert (later["id"], later["beginning"]) == (newer, NEW)


def test_looking_does_not_count_as_reading(page: Ui, memories: SessionMemoryStore) -> None:
    for path in ("home", "memories", "memories/1", "search?q=writer&grain=document", "answer?q=writer&grain=document"):
        page.get(path)
    memories.get_memory_by_id(4)
    eventually(lambda: memories.get_memory_page(4).memory.access_count == 1)
    assert memories.get_memory_page(1).memory.access_count == 0


@pytest.mark.parametrize("grain", ["chunk", "section", "document"])
def test_a_search_finds_what_agents_find_in_their_order(page: Ui, memories: SessionMemoryStore, grain: str) -> None:
    scope, asked = Scope(MemoryKind.REPORT), Page(limit=20)
    search = {
        "chunk": lambda: memories.search_chunks("the last reader", scope, asked),
        "section": lambda: memories.search_sections("the last reader", scope, asked),
        "document": lambda: memories.search_documents("the last reader", scope, asked),
    }[grain]
    wanted = [(result.memory_id, result.score, result.similarity, result.match) for result in search().results]
    found = page.get(f"search?q=the last reader&kind=report&grain={grain}")["results"]
    assert [(one["memory_id"], one["score"], one["similarity"], one["match"]) for one in found] == wanted
    assert wanted


def test_without_a_kind_all_kinds_are_searched_and_merged(page: Ui) -> None:
    found = page.get("search?q=writer")["results"]
    assert {one["memory_type"] for one in found} >= {"report", "working_memory", "knowledge_base"}
    assert [one["score"] for one in found] == sorted((one["score"] for one in found), reverse=True)


def test_kinds_without_memories_are_not_searched(memories: SessionMemoryStore) -> None:
    scopes = [Scope(kind, session_id="one") for kind in MemoryKind]
    merged = memories.across.several("writer", scopes, Page(), "chunk")
    assert len(merged.answers) == 3
    assert {found.memory_type for found in merged.results} <= {"report", "report_observation", "working_memory"}


@pytest.fixture
def files(tmp_path: Path) -> Iterator[FileMemory]:
    """A folder with a file that is about writers, and one that is hostile; beside it a file that is no memory."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "locks.md").write_text("# Locks\n\nThe writer waits in a queue.\n")
    (folder / "evil.md").write_text("<script>window.ran = 1</script> [x](javascript:window.ran=2)")
    (tmp_path / "secret.md").write_text("The writer's password.")
    settings, model = Settings(embedding_model="toy"), EmbeddingModel(ToyEngine)
    with FileMemory(folder, settings, index_file=tmp_path / "index.sqlite", model=model) as opened:
        yield opened


def test_memory_files_are_found_among_all_kinds_and_alone(memories: SessionMemoryStore, files: FileMemory) -> None:
    with serving(memories, files) as ui:
        eventually(lambda: ui.enter().get("search?q=writer queue&kind=memory_file")["results"] != [])
        [alone, *_] = ui.get("search?q=writer queue&kind=memory_file")["results"]
        assert (alone["path"], alone["start_line"], "queue" in alone["text"]) == ("notes/locks.md", 1, True)
        found = ui.get("search?q=writer")["results"]
        assert {"memory_file", "working_memory"} <= {one["memory_type"] for one in found}
        assert [one["score"] for one in found] == sorted((one["score"] for one in found), reverse=True)
        assert "memory_file" not in {one["memory_type"] for one in ui.get("search?q=writer&session=one")["results"]}
        assert ui.get("state")["files"]


def listed(found: dict[str, Any]) -> list[object]:
    return [memory.get("path") or memory["memory_id"] for memory in found["memories"]]


def test_memory_files_are_in_the_list_by_the_time_of_their_change(
    memories: SessionMemoryStore, files: FileMemory, tmp_path: Path
) -> None:
    for number in range(1, 6):
        created_at = f"2026-01-0{number}T00:00:00.000000+00:00"
        execute(memories, "update session_memories set created_at = ? where id = ?", created_at, number)
    for name, time in (("locks.md", "2026-01-03T12:00+00:00"), ("evil.md", "1970-01-01T00:00+00:00")):
        os.utime(tmp_path / "notes" / name, (datetime.fromisoformat(time).timestamp(),) * 2)
    with serving(memories, files) as ui:
        whole = ui.enter().get("memories")
        assert listed(whole) == [5, 4, "notes/locks.md", 3, 2, 1, "notes/evil.md"]
        assert (whole["total"], whole["files"]) == (7, 2)
        assert whole["memories"][2]["beginning"].startswith("# Locks")
        for offset in range(8):
            assert listed(ui.get(f"memories?limit=2&offset={offset}")) == listed(whole)[offset : offset + 2]
        assert listed(ui.get("memories?kind=memory_file&limit=1&offset=1")) == ["notes/evil.md"]
        assert listed(ui.get("memories?kind=memory_file&text=LOCK")) == ["notes/locks.md"]
        assert listed(ui.get("memories?kind=memory_file&agent=bob")) == []
        assert listed(ui.get("memories?agent=alice")) == [1]
        assert listed(ui.get("memories?until=1999")) == ["notes/evil.md"]
        version = ui.get("state")["version"]
        (tmp_path / "notes" / "new.md").write_text("Written by hand.")
        eventually(lambda: ui.get("state")["version"] != version)
        assert listed(ui.get("memories?limit=1")) == ["notes/new.md"]
        assert ui.change("deletion?kind=memory_file&until=2999").status_code == 400


def test_a_memory_file_is_shown_and_nothing_outside_its_folder(memories: SessionMemoryStore, files: FileMemory) -> None:
    with serving(memories, files) as ui:
        assert "<h2" in ui.enter().get("file?path=notes/locks.md")["html"]
        evil = ui.get("file?path=evil.md")["html"]
        assert "<script" not in evil
        assert "href" not in evil
        for path in ("../secret.md", "/etc/passwd", "none.md", "", "locks.md/../../secret.md"):
            answer = ui.ask("api/file?" + urlencode({"path": path}))
            assert (answer.status_code in (400, 404), "password" in answer.text) == (True, False), path
    with serving(memories) as ui:
        assert ui.enter().ask("api/file?path=locks.md").status_code == 404
        assert not ui.get("state")["files"]


def test_a_trace_says_how_each_was_measured_and_why_one_is_missing(page: Ui) -> None:
    [trace] = page.get("explain?q=last reader&kind=report&missed=4")["traces"]
    best = trace["candidates"][0]
    assert (best["memory_id"], best["rank"]) == (1, 1)
    assert {"cosine", "words", "score"} <= best.keys()
    assert "outside the filters" in trace["memory"]["why"]


@pytest.mark.anyio
@pytest.mark.parametrize("form", ["", "lean"])
async def test_an_answer_is_the_one_that_an_agent_gets(page: Ui, memories: SessionMemoryStore, form: str) -> None:
    shown = page.get(f"answer?q=the last reader&kind=report&agent=alice&form={form}")
    options = ServerOptions(answers=Answers.LEAN if form else Answers.FULL)
    async with Client(create_server(lambda: nullcontext(memories), options)) as client:
        answer = await client.call_tool(shown["tool"], {"query": "the last reader", "agent_id": "alice"})
    assert shown["tool"] == "search_reports_specific_chunks"
    assert shown["text"] == answer.content[0].text
    assert shown["tokens"] > 10
    assert page.get("answer?q=x&kind=report_observation") is None


def test_a_session_is_exported_as_lines(page: Ui) -> None:
    lines = page.ask("api/export?session=one").text.splitlines()
    assert sum("content" in json.loads(line) for line in lines) == 3


def test_timeline_and_map_are_of_what_filters_name(page: Ui) -> None:
    def shown(filters: str) -> tuple[list[int], int]:
        data = page.get(f"chart?{filters}")
        assert all(memory["point"] is not None for memory in data["memories"])
        return ids(data), data["total"]

    assert shown("") == ([1, 2, 3, 4, 5], 5)
    assert shown("agent=bob&session=one") == ([2, 3], 2)
    assert shown("tag=done") == ([4], 1)
    assert shown("agent=nobody") == ([], 0)


def test_timeline_and_map_are_bounded_and_say_so(page: Ui, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vector_memory.extras.window.session_report.MAX_SELECTED", 2)
    data = page.get("chart")
    assert (ids(data), data["total"]) == ([4, 5], 5)


def test_what_is_wrong_is_said(page: Ui) -> None:
    for path, status, words in (
        ("memories/99", 404, "99"),
        ("memories?kind=nothing", 400, "memory_type"),
        ("memories?limit=none", 400, "limit"),
        ("search?q=", 400, "query"),
        ("search?q=x&grain=word", 400, "grain"),
        ("export?session=none", 404, "session"),
    ):
        answer = page.ask(f"api/{path}")
        assert (answer.status_code, words in answer.json()["message"]) == (status, True), path


class TestDeleting:
    """A deletion waits, and can be taken back."""

    @pytest.fixture
    def undo_seconds(self) -> float:
        return 0.3

    def test_a_memory_is_deleted_on_time_though_nobody_looks(self, page: Ui, memories: SessionMemoryStore) -> None:
        page.change("memories/4/deletion")
        assert page.get("memories/4")["memory"]["id"] == 4
        eventually(lambda: memories.count_memories() == 4)
        with pytest.raises(NotFoundError):
            memories.get_memory_page(4)
        assert page.change("memories/4/deletion", "DELETE").status_code == 404


def test_a_deletion_is_taken_back(page: Ui, memories: SessionMemoryStore) -> None:
    assert list(page.change("memories/4/deletion").json()["deleting"]) == ["4"]
    assert page.get("state")["deleting"].keys() == {"4"}
    assert page.change("memories/4/deletion", "DELETE").json()["deleting"] == {}
    page.end()
    assert memories.count_memories() == 5


def test_what_filters_name_is_deleted_together_and_taken_back_together(page: Ui) -> None:
    assert page.change("deletion?kind=working_memory").json()["deleting"].keys() == {"3", "4"}
    assert page.change("deletion", "DELETE").json() == {"deleting": {}}
    assert page.get("state")["deleting"] == {}
    for everything in ("", "?state=any", "?kind="):
        assert page.change(f"deletion{everything}").json()["message"] == "Choose what to delete with a filter."


@pytest.mark.anyio
async def test_a_memory_that_was_kept_and_deleted_again_has_its_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sleeping, deleted = list[anyio.Event](), list[int]()

    async def sleep(_seconds: float) -> None:
        sleeping.append(anyio.Event())
        await sleeping[-1].wait()

    async def are(number: int, found: list[Any]) -> None:
        with anyio.fail_after(PATIENCE):
            while len(found) < number:
                await anyio.sleep(0.01)

    monkeypatch.setattr("vector_memory.extras.window.page_state.sleep", sleep)
    deletions = Deletions(deleted.append)
    deletions.schedule(4, 5)
    assert deletions.undo(4)
    deletions.schedule(4)
    await are(2, sleeping)
    sleeping[0].set()
    await are(1, deleted)
    assert (deleted, list(deletions.waiting())) == ([5], [4])
    sleeping[1].set()
    await are(2, deleted)


def test_what_waits_is_deleted_when_the_server_ends(page: Ui, memories: SessionMemoryStore) -> None:
    page.change("memories/4/deletion")
    page.end()
    assert memories.count_memories() == 4


def test_a_memory_is_pinned_and_unpinned(page: Ui, memories: SessionMemoryStore) -> None:
    before = page.get("state")["version"]
    assert page.change("memories/4/pin").status_code == 200
    assert page.get("memories/4")["memory"]["pinned"]
    assert page.get("state")["version"] != before
    page.change("memories/4/pin", "DELETE")
    assert not memories.get_memory_page(4).memory.pinned
    assert page.change("memories/99/pin").status_code == 404


def test_title_description_and_tags_are_amended_and_the_rest_stays(page: Ui) -> None:
    amended = {"title": "Waiting readers", "description": "What blocks.", "tags": ["sqlite", "locks"]}
    assert page.change("memories/1", body=amended).status_code == 200
    memory = page.get("memories/1")["memory"]
    assert {name: memory[name] for name in amended} == amended
    page.change("memories/1", body={"tags": []})
    memory = page.get("memories/1")["memory"]
    assert (memory["title"], memory["tags"]) == ("Waiting readers", [])
    for body, words in (({"title": "x" * 10_000}, "title"), ({}, "nothing to change"), (["x"], "object")):
        answer = page.change("memories/1", body=body)
        assert (answer.status_code, words in answer.json()["message"]) == (400, True), body
    assert page.change("memories/99", body=amended).status_code == 404


def test_a_memory_supersedes_another_and_releases_it(page: Ui) -> None:
    assert page.change("memories/4/older/3").json()["supersedes"] == [3]
    assert page.get("memories/4")["memory"]["supersedes"] == [3]
    assert page.get("memories/3")["memory"]["superseded_by"] == [4]
    assert page.change("memories/4/older/3", "DELETE").json()["supersedes"] == []
    assert "superseded_by" not in page.get("memories/3")["memory"]
    for path, status in (("memories/3/older/4", 400), ("memories/99/older/3", 404), ("memories/4/older/x", 400)):
        assert page.change(path).status_code == status, path


def test_near_copies_are_named_and_merged_and_nothing_else_is(page: Ui, memories: SessionMemoryStore) -> None:
    text = "The writer never sleeps, and the reader never waits."
    old, new = (
        memories.store_memory("working_memory", one, session_id="two", tags=[tag]).memory_id
        for one, tag in ((text, "a"), (f"{text} It has no locks.", "b"))
    )
    near = {one["memory_id"]: one["is_copy"] for one in page.get(f"memories/{old}")["nearest"]}
    assert [number for number, is_copy in near.items() if is_copy] == [new]
    assert len(near) > 1
    assert page.change(f"memories/{new}/copies/3").status_code == 400
    assert page.change(f"memories/{new}/copies/{old}").json()["supersedes"] == [old]
    assert page.get(f"memories/{new}")["memory"]["tags"] == ["b", "a"]


def test_a_review_is_worked_through_line_by_line(tmp_path: Path) -> None:
    with opened(tmp_path / "later.db") as store:
        older, newer = fill(store)
        eventually(lambda: [line.id for line in store.review().lines] == [older])
        with serving(store) as ui:
            [line] = ui.enter().get("review?session=s")["lines"]
            assert (line["id"], line["later"]["id"]) == (older, newer)
            assert ui.change(f"memories/{older}/later", "DELETE").status_code == 200
            assert ui.get("review")["lines"] == []
            assert ui.get(f"memories/{older}")["later"] == []


def test_what_is_held_back_is_listed_for_people_and_accepted_or_deleted(page: Ui, memories: SessionMemoryStore) -> None:
    first, second = (one.memory_id for one in memories.get_timeline(Scope()).entries[:2])
    Holding(storage_of(memories)).quarantine([first, second], "why")
    held = page.get("review")["held"]
    assert [(one["id"], one["held"], one["held_for"]) for one in held] == [
        (number, "quarantined", "why") for number in (first, second)
    ]
    assert (
        page.change(f"memories/{first}/hold", "DELETE").json()["message"] == f"Memory {first} can be found from now on."
    )
    assert page.change(f"memories/{first}/hold", "DELETE").status_code == 404
    assert page.change(f"memories/{second}/hold", "PUT").json()["message"] == f"Deleted memory {second}."
    assert "held" not in page.get("review")
    assert memories.get_memory_by_id(first).memory is not None


def test_what_an_agent_deleted_is_listed_for_people_and_brought_back(page: Ui, memories: SessionMemoryStore) -> None:
    number = memories.get_timeline(Scope()).entries[0].memory_id
    memories.delete_memory(number, by="claude-code")
    (held,) = page.get("review")["held"]
    assert (held["id"], held["held"], held["held_for"]) == (number, "deleted", "claude-code")
    assert held["held_until"] > held["held_at"]
    page.change(f"memories/{number}/hold", "DELETE")
    assert memories.get_memory_by_id(number).memory is not None


def test_a_memory_that_is_wrong_is_taken_out_of_use(page: Ui, memories: SessionMemoryStore) -> None:
    assert page.change("memories/3/hold", "POST").status_code == 200
    assert [one["id"] for one in page.get("review")["held"]] == [3]
    assert 3 not in ids(page.get("memories"))
    with pytest.raises(NotFoundError):
        memories.get_memory_by_id(3)
    assert page.change("memories/999/hold", "POST").status_code == 404


def test_a_trace_names_memories_and_whole_words(page: Ui) -> None:
    answer = page.get("explain?q=Who is sleeping, writers?")
    assert (answer["memories"]["1"]["title"], answer["memories"]["3"]["beginning"]) == (
        "Waiting",
        "The writer is slow.",
    )
    assert sorted(answer["words"].values()) == ["sleeping", "writers"]
    assert set(answer["words"]) >= {term for one in answer["traces"] for term in one["query_words"]}


def test_space_has_sizes_by_session_and_kind_and_what_is_superseded(page: Ui, memories: SessionMemoryStore) -> None:
    memories.supersede(4, 3)
    space = page.get("space")
    assert [one[:2] for one in space["sessions"]] == [["one", 3], [None, 1], ["two", 1]]
    assert space["kinds"][0][0] == "report"
    assert sum(size for _, _, size in space["kinds"]) == sum(size for _, _, size in space["sessions"])
    assert space["superseded"] == [["working_memory", 1, len("The writer is slow.")]]


@pytest.mark.sqlite("a file")
def test_a_file_is_not_shrunk_without_the_room_that_it_needs(page: Ui, monkeypatch: pytest.MonkeyPatch) -> None:
    room = page.get("space")["room"]
    assert room["needed"] == 2 * (room["size"] - room["unused"])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(free=room["needed"] - 1))
    refused = page.change("space")
    assert (refused.status_code, "free some space" in refused.json()["message"]) == (400, True)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(free=room["needed"]))
    assert page.change("space").json()["message"].endswith("MB smaller.")


def test_an_exported_session_is_imported_and_gets_its_vectors(page: Ui, memories: SessionMemoryStore) -> None:
    lines = page.ask("api/export?session=two").text
    added = page.change("import", "POST", {"lines": lines, "session": "three"}).json()
    assert (added["added"], added["skipped"]) == (1, 0)
    assert page.change("import", "POST", {"lines": lines}).json()["skipped"] == 1
    eventually(lambda: memories.get_memory_stats().without_vectors == 0)
    assert memories.get_session_stats("three").total_memories == 1
    for body in ({"lines": "{"}, {"lines": 7}, {}):
        assert page.change("import", "POST", body).status_code == 400, body


def test_a_large_export_is_imported_whole(page: Ui, memories: SessionMemoryStore) -> None:
    """The body of a request may have few values, but texts of any kind."""
    for number in range(300):
        memories.store_memory("input_prompt", f'Question "{number}"?', session_id="many")
    lines = page.ask("api/export?session=many").text
    assert len(lines) > 100_000
    assert page.change("import", "POST", {"lines": lines, "session": "again"}).json()["added"] == 300


def test_a_backup_is_the_whole_memory(page: Ui, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    if pytestconfig.option.engine != "sqlite":
        pytest.skip("pg_dump backs up a memory in PostgreSQL")
    assert page.get("home")["is_file"]
    copy = tmp_path / "copy.db"
    copy.write_bytes(page.ask("api/backup").content)
    with SessionMemoryStore(copy) as restored:
        assert restored.count_memories() == 5


CHANGES = (
    *(("PUT", f"memories/4{rest}") for rest in ("", "/pin", "/deletion", "/older/3", "/copies/3")),
    *(("DELETE", f"memories/4{rest}") for rest in ("/pin", "/deletion", "/older/3", "/later")),
    *((method, "deletion?session=one") for method in ("PUT", "DELETE")),
    ("POST", "import"),
)


def test_a_page_that_only_reads_changes_nothing(memories: SessionMemoryStore) -> None:
    with serving(memories, read_only=True) as ui:
        ui.enter()
        assert ui.get("home")["read_only"]
        before = ui.ask("api/export").text
        for method, path in CHANGES:
            answer = ui.change(path, method, {"title": "x", "lines": ""})
            assert (answer.status_code, answer.json()["error"]) == (400, "AccessDenied"), path
        assert ui.get("state")["deleting"] == {}
        assert ui.ask("api/export").text == before


def test_every_request_that_changes_something_needs_the_header_of_the_page(page: Ui) -> None:
    before = page.ask("api/export").text
    for method, path in CHANGES:
        for sent in (method, "OPTIONS"):
            assert page.ask(f"api/{path}", sent, {"title": "x"}).status_code == 403, path
        assert page.change(path, "GET").status_code in (200, 404, 405)
    assert page.get("state")["deleting"] == {}
    assert page.ask("api/export").text == before


def test_a_search_stops_when_the_browser_no_longer_waits(
    page: Ui, memories: SessionMemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def searched(*_arguments: object) -> None:
        begun.set()
        try:
            for _ in range(1_000_000):
                memories.count_memories()
        except CancelledCallError:
            stopped.set()
            raise

    monkeypatch.setattr(Across, "several", searched)
    with asked(page.client.build_request("GET", f"{page.base}api/search?q=writer")):
        eventually(begun.is_set)
    eventually(stopped.is_set)


def test_the_version_changes_when_another_process_stores(page: Ui, tmp_path: Path) -> None:
    before = page.get("state")["version"]
    other = OtherProcess(tmp_path / "memory.db")
    other.call("store_memory", "input_prompt", "Hello.", session_id="three")
    other.close()
    eventually(lambda: page.get("state")["version"] != before)
    assert page.get("home")["sessions"][0]["session_id"] == "three"
