"""show, sessions, timeline, stats: they print what is stored, change nothing, and create no memory."""

import json
from pathlib import Path

import pytest

from commands.conftest import REPORT, TOY, Run
from memory_files import bytes_of
from vector_memory.store import SessionMemoryStore

LOOKING = [
    ["show", "2"],
    ["show", "2", "--json"],
    ["show", "2", "--raw"],
    ["list"],
    ["sessions"],
    ["timeline", "outage"],
    ["stats"],
    ["stats", "outage"],
    ["search", "lock"],
    ["export"],
]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_showing_changes_nothing(words: list[str], memory: Path, run: Run) -> None:
    """The file is the same to the byte, and that it was read is not counted."""
    before = bytes_of(memory.parent)
    assert run(*words).code == 0
    assert {name: data for name, data in bytes_of(memory.parent).items() if data} == before


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_showing_creates_no_memory(words: list[str], tmp_path: Path, run: Run) -> None:
    """A mistyped path is said and not turned into an empty memory."""
    ended = run(*words, "--database-path", tmp_path / "typo.db")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"vector-memory: There is no memory at {tmp_path / 'typo.db'}: set its path with --database-path.\n"
        if "--json" not in words
        else ended.err
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("memory")
def test_show_says_where_a_memory_comes_from(run: Run) -> None:
    """The facts stand above the text."""
    said = run("show", 2).out
    for fact in ("report", "explorer", "outage, iteration 2", "find", "db", "Outage", "waited for a lock"):
        assert fact in said


@pytest.mark.parametrize(
    "text", ["\ufeffA\r\n\x1b[31mred\x01\u2028 \n\n  ", "many words " * 30_000], ids=["odd", "long"]
)
def test_raw_prints_only_the_text_and_all_of_it(text: str, memory: Path, run: Run) -> None:
    """To the byte, control characters and the missing line end included. A terminal is no agent's context."""
    with SessionMemoryStore(memory, TOY) as store:
        number = store.store_memory("system_memory", text, session_id="s").memory_id
    assert run("show", number, "--raw").out == text
    shown = run("show", number, "--json").json
    assert (shown["id"], shown["content"]) == (number, text)
    assert "\x1b" not in run("show", number).out
    assert ("\\x1b[31mred" in run("show", number).out) == ("\x1b[31mred" in text)


@pytest.mark.usefixtures("memory")
def test_an_unknown_id_is_one_sentence_and_ends_with_1(run: Run) -> None:
    """With --json the error is an object, on standard error as well."""
    sentence = "There is no memory 99: it was deleted or never stored in this database."
    assert run("show", 99) == (1, "", f"vector-memory: {sentence}\n")
    said = run("show", 99, "--json")
    assert (said.code, said.out) == (1, "")
    assert said._replace(out=said.err).json == {"success": False, "error": "ValidationError", "message": sentence}


@pytest.mark.usefixtures("memory")
def test_sessions_are_listed_with_their_agents(run: Run) -> None:
    """The latest is the first, one line each."""
    heading, other, outage = run("sessions").out.splitlines()
    assert heading.split() == ["session", "memories", "latest", "(UTC)", "agents"]
    assert other.startswith("other ")
    assert outage.split()[:2] == ["outage", "3"]
    assert outage.endswith("explorer, main-orchestrator, reviewer")
    assert [one["session_id"] for one in run("sessions", "--json", "--agent", "reviewer").json["sessions"]] == [
        "outage"
    ]
    assert "1 of 2 sessions; use --limit for more" in run("sessions", "--limit", 1).out


@pytest.mark.usefixtures("memory")
def test_a_timeline_says_who_stored_what(run: Run) -> None:
    """In the order of storing, filtered as requested; the newest up to the limit, with a note on the others."""
    lines = run("timeline", "outage").out.splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["1", "2", "3"]
    assert "report v2 explorer find  Outage" in lines[1]
    entries = run("timeline", "outage", "--kind", "report_observation", "--json").json["entries"]
    assert [entry["beginning"] for entry in entries] == ["The job also runs at noon."]
    assert run("timeline", "outage", "--limit", 1).out.startswith("2 earlier memories; use --limit for more\n")
    assert "No memories match" in run("timeline", "outage", "--agent", "nobody").out


@pytest.mark.parametrize(
    "words",
    [
        ["search", "lock", "--session"],
        ["timeline"],
        ["stats"],
        ["list", "--session"],
        ["report"],
        ["delete", "--session"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.usefixtures("memory")
def test_a_mistyped_session_is_said_with_the_one_that_is_meant(words: list[str], run: Run) -> None:
    """An empty answer would look as if nothing were stored."""
    assert run(*words, "outgae") == (1, "", 'vector-memory: There is no session "outgae": did you mean "outage"?\n')
    assert run(*words, "Outage").err.endswith('did you mean "outage"?\n')
    assert run(*words, "xyz").err.endswith("run `vector-memory sessions` to list them.\n")


@pytest.mark.usefixtures("memory")
def test_memories_of_any_kind_are_listed(memory: Path, run: Run) -> None:
    """The latest first, also those of no session, and tagged notes."""
    with SessionMemoryStore(memory, TOY) as store:
        store.tagged.store("Use a lease, never a flag.", tags=["locking"], category="decision")
    listed = run("list").out.splitlines()
    assert [line.split()[0] for line in listed] == ["id", "6", "5", "4", "3", "2", "1"]
    assert listed[1].split()[3:5] == ["tagged_memory", "-"]
    assert "knowledge_base" in listed[2]
    assert listed[2].endswith("Leases")
    assert [one["memory_id"] for one in run("list", "--kind", "report", "--json").json["entries"]] == [4, 2]
    assert [one["memory_id"] for one in run("list", "--tags", "locking", "--json").json["entries"]] == [6]
    assert run("list", "--limit", 2).out.endswith("2 of 6 memories; use --limit for more\n")
    assert max(map(len, listed)) <= 80


@pytest.mark.usefixtures("memory")
def test_pinned_and_superseded_memories_and_words_are_filtered(run: Run) -> None:
    def listed(*words: str) -> list[int]:
        return [one["memory_id"] for one in run("list", *words, "--json").json["entries"]]

    run("pin", 3)
    run("supersede", 4, 2)
    assert listed("--state", "pinned") == [3]
    assert listed("--state", "superseded") == [2]
    assert listed("--state", "superseded", "--agent", "nobody") == []
    assert listed("--containing", "A MIGRATION", "--as-of", "any") == [2]
    assert run("list", "--state", "new").code == 2
    found = run("search", "lock", "--kind", "report", "--state", "superseded", "--json").json["results"]
    assert {one["memory_id"] for one in found} == {2}


@pytest.mark.usefixtures("memory")
def test_stats_count_the_memory_and_a_session(run: Run) -> None:
    """Both as text and as JSON."""
    whole = run("stats", "--json").json
    assert (whole["total_memories"], whole["total_sessions"], whole["total_agents"]) == (5, 2, 3)
    assert whole["memory_counts"]["report"] == 2
    assert whole["without_vectors"] == 0
    assert whole["embedding_model"] == "toy"
    assert "vectors   toy" in run("stats").out
    assert run("stats", "outage", "--json").json["agent_counts"] == {
        "explorer": 1,
        "main-orchestrator": 1,
        "reviewer": 1,
    }
    assert "3 in 1 chunk" in run("stats", "outage").out


def test_a_stored_text_cannot_steer_the_terminal(memory: Path, run: Run) -> None:
    """Names, titles and texts that hold control characters are shown with those in words."""
    nasty = "\x1b]0;title\x07\x9b31m\x7f\u202e\u2067\u200f"
    with SessionMemoryStore(memory, TOY) as store:
        store.store_memory(
            "report", f"{nasty} lock", session_id=nasty, agent_id=nasty, task_code=nasty, title=nasty, tags=[nasty]
        )
    for words in (["show", 6], ["sessions"], ["timeline", nasty], ["stats", nasty], ["search", "lock"]):
        assert not set(run(*words).out) & set(nasty) - set("]0;title31m")
        assert run(*words, "--json").out.replace("\n", "").isprintable()
    assert run("show", 6, "--json").json["title"] == nasty
    refused = run("export", "-o", f"none/{nasty}", "--json")
    assert refused.err.removesuffix("\n").isprintable()
    assert json.loads(refused.err)["message"].count(nasty) == 1


@pytest.mark.usefixtures("memory")
def test_the_text_of_a_report_is_printed_unchanged(run: Run) -> None:
    """Lines are not wrapped when the output is not a terminal."""
    assert run("show", 2).out.endswith(f"\n\n{REPORT}\n".replace(" \n", "\n"))
