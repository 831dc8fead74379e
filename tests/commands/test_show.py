"""show, list, sessions, timeline, stats, search: readable, honest without a model, and they change nothing."""

import json
import re
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from commands.conftest import REPORT, TOY, Run
from memory_files import bytes_of
from search.test_corrections import CORRECTION, FACT, OTHERS, QUESTION
from vector_memory.answers.models import FoundMemory
from vector_memory.cli.commands.search import marked
from vector_memory.cli.flags import TO_BEGIN
from vector_memory.domain import MemoryKind
from vector_memory.search.across import merged_by_score
from vector_memory.settings import DEFAULT_MODEL
from vector_memory.store import SessionMemoryStore
from vector_memory.texts.terms import query_terms

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
        f"vector-memory: There is no memory at {tmp_path / 'typo.db'}. {TO_BEGIN} "
        "Is it elsewhere? Name its file with --database-path.\n"
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


@pytest.mark.sqlite("names a file")
def test_an_empty_memory_says_how_to_begin(tmp_path: Path, run: Run) -> None:
    SessionMemoryStore(tmp_path / "empty.db", TOY).store_memory("report", "Gone.", session_id="s", agent_id="a")
    assert run("delete", "1", "--yes", "--database-path", tmp_path / "empty.db").code == 0
    for words in (["list"], ["search", "lock"]):
        assert TO_BEGIN in " ".join(run(*words, "--database-path", tmp_path / "empty.db").out.split())


def test_stats_show_what_hooks_have_added_to_the_sessions_of_each_client(memory: Path, run: Run) -> None:
    with SessionMemoryStore(memory, TOY) as store:
        store.count_told("monday", "claude-code", "x" * 600, [1, 2], is_recap=True)
        store.count_told("outage", "claude-code", "x" * 3, [2], is_recap=False)
    counted = {"client": "claude-code", "sessions": 2, "tokens_per_session": 100, "recaps": 1, "recalls": 1, "used": 0}
    assert run("stats", "--json").json["recalls"] == [counted]
    told = "100 tokens a session on average in 2 sessions; 1 recap, 1 recall, 0 used"
    assert " ".join(run("stats").out.split("recall, claude-code")[1].split()) == told


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


def found(run: Run, *words: object) -> list[Any]:
    """Return the ids of the memories that are found."""
    results = run("search", *words, "--json").json["results"]
    return [result.get("memory_id") or result["id"] for result in results]


@pytest.mark.usefixtures("memory")
def test_all_kinds_are_searched_and_merged_by_similarity(run: Run) -> None:
    """What has the words comes first, of whatever kind it is."""
    results = run("search", "a lease that ends by itself", "--json").json["results"]
    assert results[0]["memory_type"] == "knowledge_base"
    assert {result["memory_type"] for result in results} > {"report", "knowledge_base"}
    assert found(run, "why was the checkout down")[0] == 1
    assert found(run, "why", "was", "the", "checkout", "down")[0] == 1


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--kind", "report"], [2, 4]),
        (["--session", "outage"], [1, 2, 3]),
        (["--agent", "explorer"], [2, 4]),
        (["--iter", "v2"], [2]),
        (["--task", "find"], [2]),
        (["--tags", "db"], [2]),
        (["--category", "db"], [5]),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
@pytest.mark.usefixtures("memory")
def test_filters_narrow_the_search(flags: list[str], expected: list[int], run: Run) -> None:
    """Each of them as in the tools, with and without a kind."""
    assert sorted(found(run, "lock", *flags)) == expected


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("kind", MemoryKind)
def test_every_kind_can_be_searched(kind: MemoryKind, run: Run) -> None:
    """By its name on the wire."""
    results = run("search", "lock", "--kind", kind, "--json").json["results"]
    assert {result["memory_type"] for result in results} <= {kind}


@pytest.mark.usefixtures("memory")
def test_grains_return_chunks_sections_and_documents(run: Run) -> None:
    """The same question, answered at each size."""
    given = {
        grain: run("search", "which job waited", "--kind", "report", "--grain", grain, "--limit", 1, "--json").json
        for grain in ("chunk", "section", "document")
    }
    assert "chunk_content" in given["chunk"]["results"][0]
    assert "section_content" in given["section"]["results"][0]
    assert given["document"]["results"][0]["content"].startswith("# Outage")


@pytest.mark.usefixtures("memory")
def test_pages_have_no_gaps(run: Run) -> None:
    """Page by page the results are those of one long page."""
    pages = [found(run, "lock", "--limit", 2, "--offset", offset) for offset in (0, 2, 4)]
    assert list(chain(*pages)) == found(run, "lock", "--limit", 6)
    assert [len(page) for page in pages] == [2, 2, 1]


@pytest.mark.parametrize("flags", [["--limit", "101"], ["--limit", "0"], ["--offset", "-1"], ["--offset", "99"]])
@pytest.mark.usefixtures("memory")
def test_an_invalid_page_is_refused(flags: list[str], run: Run) -> None:
    """In a sentence, and with the exit code of a failure."""
    ended = run("search", "lock", *flags)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("\n") == 1


@pytest.mark.usefixtures("memory")
def test_each_mode_compares_what_its_name_says(run: Run) -> None:
    """A search by words has no similarities and finds only what has the words."""
    results = run("search", "lease", "--mode", "keyword", "--json").json["results"]
    assert [result["similarity"] for result in results] == [None]
    assert all(result["similarity"] is not None for result in run("search", "lease", "--json").json["results"])
    assert run("search", "lease", "--mode", "guess").code == 2


@pytest.mark.usefixtures("memory")
def test_without_a_model_words_are_compared_and_a_message_says_so(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer says why nothing was compared by meaning, for all kinds and for one."""
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL", "all-MiniLM-L6-v2")
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL_PATH", str(tmp_path))
    for flags in ([], ["--kind", "report"]):
        ended = run("search", "nightly job", *flags, "--json")
        assert ended.code == 0
        assert [result["memory_id"] for result in ended.json["results"] if "chunk_id" in result] == [2]
        assert "Found by words only." in ended.json["message"]
        assert "does not contain model.onnx" in ended.json["message"]


def test_memories_without_vectors_are_counted(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory that was stored without a model is found by its words, and the message says how to change that."""
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL_PATH", str(tmp_path))
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL", "all-MiniLM-L6-v2")
    run("ingest", "-", "--session", "s", "--kind", "system_memory", stdin=b"make deploy")
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL", "toy")
    monkeypatch.delenv("VECTOR_MEMORY_EMBEDDING_MODEL_PATH")
    ended = run("search", "deploy")
    assert "make deploy" in ended.out
    assert "1 memory lacks vectors" in " ".join(ended.out.split())


@pytest.mark.usefixtures("memory")
def test_an_answer_without_a_close_match_says_so(run: Run) -> None:
    """Where nothing is on the topic, a warning comes before the results."""
    assert run("search", "zebra crossing").out.startswith("No close match: these results may be unrelated.")


@pytest.mark.usefixtures("memory")
def test_results_are_read_at_80_columns(run: Run) -> None:
    """Each says how similar it is, where it is from, and its text from the sentence that has the words on."""
    said = run("search", "nightly job", "--kind", "report", "--limit", 1).out
    first, origin, text, *_ = said.splitlines()
    assert re.fullmatch(r"0\.\d\d  Outage", first)
    assert origin.strip().startswith("report 2 · explorer · session outage v2 · task find · ")
    assert text.strip() == "… The nightly job waited for a lock that a migration held."
    assert max(map(len, said.splitlines())) <= 80
    assert "\x1b" not in said


def test_whole_texts_are_printed_on_request(memory: Path, run: Run) -> None:
    """--full prints every line of each result."""
    with SessionMemoryStore(memory, TOY) as store:
        store.store_memory("system_memory", "zebra\n" * 200, session_id="s")
    assert run("search", "zebra").out.count("zebra") < 200
    assert run("search", "zebra", "--full").out.count("zebra\n") == 200


def test_merged_rankings_keep_their_own_order() -> None:
    """Of several rankings the next one with the highest score is always the next."""

    def ranking(*scores: float) -> list[FoundMemory]:
        return [FoundMemory.model_construct(id=0, score=score) for score in scores]

    order = [one.score for one in merged_by_score([ranking(0.5, 0.9), ranking(0.6, 0.1), []])]
    assert order == [0.6, 0.5, 0.9, 0.1]


def test_what_may_correct_a_result_is_printed_with_it(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL", DEFAULT_MODEL)
    with SessionMemoryStore(tmp_path / "memory.db") as store:
        for minute, text in enumerate((FACT, *OTHERS)):
            store.store_memory("report", text, session_id="s", created_at=f"2026-05-01T10:{minute:02}:00Z")
        store.store_memory("report", CORRECTION, session_id="s", created_at="2026-07-01T10:00:00Z")
    for flags in ([], ["--kind", "report"]):
        printed = " ".join(run("search", *flags, "--limit", "1", QUESTION).out.split())
        assert FACT in printed
        assert "later on this subject: 16 of 2026-07-01" in printed
        assert CORRECTION[:40] in printed


@pytest.mark.usefixtures("memory")
def test_since_and_until_limit_a_search_and_every_listing_to_a_time(run: Run) -> None:
    """Both are part of the time: of today everything was stored today, and nothing before 2020."""
    today = run("timeline", "outage", "--json").json["entries"][0]["created_at"][:10]
    for command in (["search", "lock"], ["list"], ["timeline", "outage"], ["sessions"]):
        inside, outside = (
            run(*command, *time, "--json").json for time in (["--since", today, "--until", today], ["--until", "2020"])
        )
        name = next(name for name in ("results", "entries", "sessions") if name in inside)
        assert inside[name]
        assert not outside[name]
    assert "No memories match: leave out a filter" in run("search", "lock", "--until", "2020").out


@pytest.mark.usefixtures("memory")
def test_explain_shows_the_measures_and_why_not_the_reason(run: Run) -> None:
    """As a table for people, and as JSON."""
    said = run("search", "lock", "--kind", "report", "--limit", "1", "--explain", "--why-not", "5").out
    assert "cosine" in said
    assert "on this page" in said
    assert "Memory 5: It is outside the filters: memory_type." in " ".join(said.split())
    [trace] = run("search", "lock", "--kind", "report", "--explain", "--json").json["trace"]
    assert trace["candidates"][0]["has"] == ["lock"]
    assert "trace" not in run("search", "lock", "--json").json


@pytest.mark.usefixtures("memory")
def test_without_a_kind_it_says_why_not_for_the_kind_of_the_memory(run: Run) -> None:
    """The other kinds say nothing about it."""
    traces = run("search", "lock", "--limit", "1", "--why-not", "4", "--json").json["trace"]
    told = [trace for trace in traces if "memory" in trace]
    assert [trace["filters"]["memory_type"] for trace in told] == ["report"]


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("grain", ["chunk", "section", "document"])
def test_merged_results_and_what_is_said_of_each_memory_agree(run: Run, grain: str) -> None:
    """A memory may be the best of its kind, and still come after the page."""
    asked = ("search", "lock", "--grain", grain, "--limit", "2", "--offset", "1", "--json")
    shown = {one.get("memory_id", one.get("id")) for one in run(*asked).json["results"]}
    found = set()
    for number in range(1, 7):
        traces = run(*asked, "--why-not", str(number)).json["trace"]
        found |= {trace["memory"]["id"] for trace in traces if trace.get("memory", {}).get("found")}
    assert found == shown


@pytest.mark.usefixtures("memory")
def test_a_wrong_id_or_time_is_refused_by_the_name_of_its_flag(run: Run) -> None:
    assert "--why-not must be an integer" in run("search", "lock", "--why-not", "abc").err
    for command in (["search", "lock"], ["list"], ["timeline", "outage"], ["sessions"]):
        assert "--since must be a date or time" in run(*command, "--since", "soon").err
        assert "--until must be a date or time" in run(*command, "--until", "soon").err
        assert "--since is later than --until" in run(*command, "--since", "2027", "--until", "2026").err
    assert run("sessions", "--until", "2020").out.strip() == "No sessions match: leave out a filter."


@pytest.mark.parametrize(
    ("text", "query", "words"),
    [
        (
            "It waits; waiting for locks, not clocks. getUserById",
            "wait lock user",
            ["waits", "waiting", "locks", "getUserById"],
        ),
        ("कौम का काम है", "काम", ["काम"]),
        ("Our cafe\u0301 is open", "café", ["cafe\u0301"]),
        ("written in C and C++.", "C++", ["C++"]),
        ("ofﬁce hours", "office", ["ofﬁce"]),
    ],
)
def test_words_that_a_search_finds_are_marked_whole_as_they_were_stored_and_no_others(
    text: str, query: str, words: list[str]
) -> None:
    shown = marked(text, set(query_terms(query)))
    assert shown.plain == text
    assert [text[span.start : span.end] for span in shown.spans] == words
