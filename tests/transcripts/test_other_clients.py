"""What is taken from sessions that the other clients have kept; the real ones wrote tests/data/transcripts."""

import json
from pathlib import Path

import apsw
import pytest

from transcripts.conftest import SHOP
from vector_memory.clients.reading.conversation import Transcript, TranscriptConversation
from vector_memory.clients.reading.importing import Importer
from vector_memory.clients.reading.lines import FormatError
from vector_memory.clients.registry import WITH_SESSIONS
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.store import SessionMemoryStore

PROMPT, DELEGATING = "Find out why the nightly import fails.", "Have somebody look at the racks."
ANSWER, REPORT = "The nightly import fails because the disk", "The cooling fan of rack 7 is broken."

EXPECTED = {
    "gemini": ("gemini-cli-mcp-client", "generalist", None, "18:01"),
    "qwen": ("qwen-cli-mcp-client-vector-memory", "general-purpose", "Inspect racks", "17:4"),
    "copilot": ("copilot-cli", "general-purpose", "Inspect racks", "17:4"),
    "opencode": ("opencode", "general", "Inspect racks", "17:4"),
    "kilo": ("kilo", "general", "Inspect racks", "17:4"),
    "cline": ("@cline/core", "subagent", None, "1"),
    "continue": ("continue-cli-client", None, None, "17:4"),
    "grok": ("grok-shell-vector-memory", "general-purpose", "Inspect racks", "17:4"),
}
"""For each client the agents of its answers and reports, the title of the report, and how the times begin."""


def read_all(name: str) -> list[Transcript]:
    found = [WITH_SESSIONS[name].read(path) for path in WITH_SESSIONS[name].transcripts(None)]
    return [one for one in found if one is not None]


def said(name: str) -> list[tuple[str, str]]:
    return [(str(one.kind), one.content) for transcript in read_all(name) for one in transcript.said]


@pytest.mark.usefixtures("homes")
@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_session_gives_its_prompts_its_final_answers_and_the_reports_of_its_sub_agents(name: str) -> None:
    agent, subagent, title, begins = EXPECTED[name]
    transcripts = read_all(name)
    assert {(one.project, one.unread, one.unknown) for one in transcripts} == {(SHOP, (), ())}
    found = {(str(one.kind), one.agent_id, one.title, one.content[:36]) for each in transcripts for one in each.said}
    expected = {
        ("input_prompt", "main-orchestrator", None, PROMPT[:36]),
        ("working_memory", agent, None, ANSWER[:36]),
        ("input_prompt", "main-orchestrator", None, DELEGATING[:36]),
        ("report", subagent, title, REPORT[:36]),
    }
    assert found == {one for one in expected if subagent or (one[3] != DELEGATING[:36] and one[0] != "report")}
    assert all(one.time.startswith(f"2026-11-30T{begins}") for each in transcripts for one in each.said)
    delegating = {each.session_id for each in transcripts for one in each.said if one.content == DELEGATING}
    assert {each.session_id for each in transcripts for one in each.said if one.kind == "report"} == delegating


@pytest.mark.usefixtures("homes")
@pytest.mark.parametrize("name", EXPECTED)
def test_repeating_an_import_adds_nothing(name: str, tmp_path: Path) -> None:
    with SessionMemoryStore(tmp_path / "memory.db", embedder=ToyEngine()) as store:
        totals = [Importer(store).run([name], Path(SHOP), lambda *_: None).stored.total() for _ in range(2)]
    assert totals == [4 if EXPECTED[name][1] else 2, 0]


def insert(path: Path, before: str, **line: object) -> None:
    """Write a line before the one that holds a text."""
    lines = path.read_text(encoding="utf-8").splitlines()
    place = next(number for number, one in enumerate(lines) if before in one)
    path.write_text("\n".join([*lines[:place], json.dumps(line), *lines[place:], ""]), encoding="utf-8")


FILES = {
    "gemini": ("session-*-cf78fc3d.jsonl", {"id": "x", "type": "novelty", "content": "A new thing."}),
    "qwen": ("155eab56-*.jsonl", {"type": "novelty", "sessionId": "s", "cwd": SHOP}),
    "copilot": ("e235f9e2-*/events.jsonl", {"type": "novelty.told", "data": {"content": "A new thing."}}),
    "grok": ("01a22d8e-*/updates.jsonl", {"params": {"update": {"sessionUpdate": "novelty"}}}),
}


@pytest.mark.parametrize("name", FILES)
def test_lines_of_unknown_types_are_counted_and_named_and_torn_ones_are_reported(
    name: str, homes: Path, tmp_path: Path
) -> None:
    pattern, line = FILES[name]
    (path,) = (homes / name).rglob(pattern)
    insert(path, ANSWER, **line)
    path.write_text("{torn\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    with SessionMemoryStore(tmp_path / "memory.db", embedder=ToyEngine()) as store:
        result = Importer(store).run([name], Path(SHOP), lambda *_: None)
    assert [kind.partition(".")[0] for kind in result.unknown] == ["novelty"]
    assert [(one.path, one.reason) for one in result.unread] == [(path, "Line 1: expected JSON.")]
    assert result.stored.total() == 4


NOT_TYPED = {
    "gemini": {"id": "y", "type": "user", "content": [{"functionResponse": {"output": "x"}}]},
    "qwen": {"uuid": "y", "type": "user", "provenance": "system", "message": {"parts": [{"text": "Go on."}]}},
    "copilot": {"type": "user.message", "data": {"content": "Go on.", "source": "skill-pdf"}},
}


@pytest.mark.parametrize("name", NOT_TYPED)
def test_what_the_user_did_not_write_is_no_prompt(name: str, homes: Path) -> None:
    before = said(name)
    (path,) = (homes / name).rglob(FILES[name][0])
    time = {"timestamp": "2026-11-30T17:41:30Z", "sessionId": "s", "cwd": SHOP}
    with path.open("a", encoding="utf-8") as file:  # the last line is on no branch that was left
        file.write(json.dumps(time | NOT_TYPED[name]) + "\n")
    assert said(name) == before


def test_what_clients_add_to_a_prompt_is_cut(homes: Path) -> None:
    for name, file, added in (
        ("gemini", FILES["gemini"][0], "<hook_context>Last time: fans.</hook_context>"),
        ("qwen", FILES["qwen"][0], "<qwen:user-prompt-submit-context>x</qwen:user-prompt-submit-context>"),
    ):
        (path,) = (homes / name).rglob(file)
        path.write_text(path.read_text(encoding="utf-8").replace(PROMPT, added + PROMPT), encoding="utf-8")
        assert ("input_prompt", PROMPT) in said(name)


def test_what_the_user_went_back_from_is_left_out(homes: Path) -> None:
    (chat,) = (homes / "gemini").rglob(FILES["gemini"][0])
    lines = chat.read_text(encoding="utf-8").splitlines()
    (first,) = [json.loads(line)["id"] for line in lines if '"type":"user","content":[{"text":"Find' in line]
    chat.write_text("\n".join([*lines, json.dumps({"$rewindTo": first}), ""]), encoding="utf-8")
    assert ("input_prompt", PROMPT) not in said("gemini")
    (events,) = (homes / "copilot").rglob(FILES["copilot"][0])
    (event,) = [one["id"] for one in map(json.loads, events.read_text().splitlines()) if one["type"] == "user.message"]
    rewind = {"type": "session.snapshot_rewind", "data": {"upToEventId": event}}
    events.write_text(events.read_text() + json.dumps(rewind) + "\n")
    assert (len(said("copilot")), ("input_prompt", PROMPT) in said("copilot")) == (2, False)
    database = apsw.Connection(str(homes / "data/opencode/opencode.db"))
    undone = {"messageID": "msg_22d8d06800017kicYQXmFBV66J"}
    database.execute("update session set revert = ? where directory = ?", (json.dumps(undone), SHOP))
    database.close()
    assert ("input_prompt", PROMPT) not in said("opencode")


def test_a_session_is_read_while_the_client_writes_it(homes: Path) -> None:
    """Only what is committed, and nothing is changed."""
    database = apsw.Connection(str(homes / "data/kilo/kilo.db"))
    database.execute("pragma journal_mode = wal")
    database.execute(
        "update part set data = json_object('type', 'text', 'text', 'New words.') where data like '%Find%'"
    )
    database.execute("begin immediate; delete from part")
    assert ("input_prompt", "New words.") in said("kilo")
    database.execute("rollback; update part set data = '{\"type\": \"novelty\"}' where data like '%step-start%'")
    assert {kind for one in read_all("kilo") for kind in one.unknown} == {"novelty"}
    database.close()


def test_a_database_that_cannot_be_read_is_named_and_the_others_are_imported(homes: Path, tmp_path: Path) -> None:
    (homes / "data/kilo/kilo.db").write_bytes(b"no database" * 100)
    with SessionMemoryStore(tmp_path / "memory.db", embedder=ToyEngine()) as store:
        result = Importer(store).run(["kilo", "opencode"], Path(SHOP), lambda *_: None)
    assert [one.path.name for one in result.unread] == ["kilo"]
    assert result.stored.total() == 4


def test_a_file_is_not_read_whole_before_its_size_is_known(homes: Path, tmp_path: Path) -> None:
    (path,) = (homes / "continue").rglob("97ec5bda*.json")
    with path.open("ab") as file:
        file.truncate(100_000_001)
    with SessionMemoryStore(tmp_path / "memory.db", embedder=ToyEngine()) as store:
        (unread,) = Importer(store).run(["continue"], Path(SHOP), lambda *_: None).unread
    assert "longer than 100,000,000 bytes" in unread.reason


HOSTILE: dict[str, tuple[str, list[object]]] = {
    "gemini": (
        FILES["gemini"][0],
        [
            {"id": "x", "type": "gemini", "content": "", "timestamp": "2026-11-30T18:01:59Z", "toolCalls": calls}
            for calls in (5, ["x"], {})
        ],
    ),
    "copilot": (
        FILES["copilot"][0],
        [
            {"type": "session.resume", "data": {"sessionId": "s", "context": 5}},
            {"type": "session.info", "id": [1]},
            {"type": "session.info", "agentId": [1]},
            {"type": "session.snapshot_rewind", "data": {"upToEventId": [], "eventIds": 5}},
            {"type": "session.snapshot_rewind", "data": {"eventIds": [[1]]}},
        ],
    ),
    "qwen": (FILES["qwen"][0], [{"type": "user", "message": {"parts": [{"text": None}]}}]),
}
"""Lines whose fields have other types than clients write."""


@pytest.mark.parametrize("name", HOSTILE)
def test_fields_of_other_types_end_no_import(name: str, homes: Path, tmp_path: Path) -> None:
    pattern, lines = HOSTILE[name]
    (path,) = (homes / name).rglob(pattern)
    path.write_text("\n".join([path.read_text(encoding="utf-8").rstrip("\n"), *map(json.dumps, lines), ""]))
    with SessionMemoryStore(tmp_path / "memory.db", embedder=ToyEngine()) as store:
        assert Importer(store).run([name], Path(SHOP), lambda *_: None).stored.total() == 4


def test_a_rewind_to_nothing_loses_no_prompt(homes: Path) -> None:
    (path,) = (homes / "gemini").rglob(FILES["gemini"][0])
    path.write_text(path.read_text(encoding="utf-8") + '{"$rewindTo": ["x"]}\n', encoding="utf-8")
    assert ("input_prompt", PROMPT) in said("gemini")
    assert [error.expected for one in read_all("gemini") for error in one.unread] == ["a string as `$rewindTo`"]


@pytest.mark.parametrize(
    ("name", "pattern", "field"),
    [("cline", "*gjy0q.messages.json", "messages"), ("continue", "97ec5bda*.json", "history")],
)
def test_messages_that_are_no_objects_are_named(name: str, pattern: str, field: str, homes: Path) -> None:
    (path,) = (homes / name).rglob(pattern)
    content = json.loads(path.read_text(encoding="utf-8"))
    content[field].insert(0, "x")
    path.write_text(json.dumps(content), encoding="utf-8")
    assert [str(error) for one in read_all(name) for error in one.unread] == ["Line 1: expected an object."]
    assert ("input_prompt", PROMPT) in said(name)


def test_files_beside_transcripts_that_are_nested_too_deeply_are_named(homes: Path) -> None:
    deep = '{"x": ' + "[" * 90_000
    for name, file in (("qwen", "agent-*.meta.json"), ("continue", "sessions.json")):
        (path,) = (homes / name).rglob(file)
        path.write_text(deep, encoding="utf-8")
    assert any(one.unread for one in read_all("qwen"))
    with pytest.raises(FormatError, match=r"sessions\.json"):
        read_all("continue")


def test_a_text_of_opencode_that_is_none_is_named(homes: Path) -> None:
    database = apsw.Connection(str(homes / "data/opencode/opencode.db"))
    database.execute("""update part set data = '{"type": "text", "text": null}' where data like '%Find out why%'""")
    database.close()
    assert {("input_prompt", "None"), ("input_prompt", PROMPT)}.isdisjoint(said("opencode"))
    assert ["a string as `text`" in str(error) for one in read_all("opencode") for error in one.unread] == [True]


def test_a_message_of_opencode_that_is_nested_too_deeply_is_named(homes: Path) -> None:
    database = apsw.Connection(str(homes / "data/opencode/opencode.db"))
    database.execute("update message set data = ? where rowid = 1", ('{"time": ' + "[" * 90_000,))
    database.close()
    assert ["JSON in `message.data`" in str(error) for one in read_all("opencode") for error in one.unread] == [True]


def test_of_a_session_that_is_not_to_be_remembered_only_what_was_said_before_is_read() -> None:
    reading = TranscriptConversation("agent")
    for number, prompt in enumerate((PROMPT, "Do not remember this session.", "And now?", "remember: The fan.")):
        reading.prompt(prompt, f"2026-11-2{number}T10:00:00Z")
        reading.answer(f"{number}. {ANSWER * 6}", f"2026-11-2{number}T10:00:01Z", is_final=True)
    assert [one.content for one in reading.result()] == [PROMPT, f"0. {ANSWER * 6}", "The fan."]
