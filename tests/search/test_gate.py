"""A memory is silent where it knows nothing: another number stands there, or only the topic of the question."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from vector_memory.domain import Page, Scope
from vector_memory.search.gate import Fit, fit_of
from vector_memory.store import SessionMemoryStore

MEMORIES = (
    "Error 4012 means that the voucher of the customer has expired.",
    "The mail relay listens on port 2525 and accepts 1,000 mails an hour.",
    "Incident 2026-03-14: the queue's disk was full, and mails were late.",
    "Release 4.2 of the learning platform brought peer reviews.",
    "Lecture videos are kept for two semesters.",
)
SCOPE = Scope("working_memory")


@pytest.fixture(scope="module", params=[0, 60], ids=["five", "many"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(tmp_path_factory.mktemp("gate") / "memory.db") as opened:
        for text in MEMORIES:
            opened.store_memory("working_memory", text, session_id="s")
        for number in range(request.param):
            opened.store_memory("working_memory", f"Tree {number} of the orchard bears red apples.", session_id="s")
        yield opened


@pytest.mark.parametrize(
    ("question", "memory"),
    [
        ("What does error 4012 mean?", 1),
        ("On which port does the mail relay listen?", 2),
        ("How many mails an hour does the relay accept?", 2),
        ("Which relay accepts 1000 mails an hour?", 2),
        ("What happened to the mails on March 14, 2026?", 3),
        ("What came with release 4.2 of the learning platform?", 4),
        ("For how long are lecture videos kept?", 5),
    ],
)
def test_what_is_known_is_claimed(store: SessionMemoryStore, question: str, memory: int) -> None:
    answer = store.search_chunks(question, SCOPE)
    assert (answer.results[0].memory_id, answer.results[0].match, answer.confidence) == (memory, "strong", "strong")


@pytest.mark.parametrize(
    "question",
    [
        "What does error 4021 mean?",
        "Which service listens on port 5252?",
        "What happened to the mails on 14 May 2026?",
        "What came with release 4.3 of the learning platform?",
        "Which teacher recorded the lecture videos about volcanoes?",
        "How do volcanoes erupt?",
    ],
)
def test_what_is_not_known_is_left_out_and_can_be_reached(store: SessionMemoryStore, question: str) -> None:
    answer = store.search_chunks(question, SCOPE, Page(limit=5))
    assert (answer.results, answer.confidence, answer.weak, answer.next_offset) == ([], "weak", 5, 1)
    assert "No match" in (answer.message or "")
    assert ("Nothing found here has '4021'." in (answer.message or "")) is ("4021" in question)
    rest = store.search_chunks(question, SCOPE, Page(limit=5, offset=1))
    assert {result.match for result in rest.results} == {"weak"}
    assert len(rest.results) == 5


@pytest.mark.parametrize(
    ("question", "text", "fit"),
    [
        ("Who mended #42?", "Issue #42 was mended.", Fit.WHOLE),
        ("Who mended #42?", "Issue #24 was mended.", Fit.OTHER),
        ("Who mended #42?", "The issue was mended.", Fit.LACKING),
        ("What does error \uff14\uff10\uff12\uff11 mean?", "Error 4021: the disk is full.", Fit.WHOLE),
        ("how long do we keep deleted accounts", "Deleted accounts are kept for thirty days.", Fit.WHOLE),
        ("How many messages a minute are accepted?", "More than fifty messages a minute are refused.", Fit.WHOLE),
        ("How many messages a minute are accepted?", "Messages are accepted.", Fit.LACKING),
        ("What is LB-260741?", "Sample LB-260417 passed.", Fit.OTHER),
        ("Is v1.2 out?", "1.2 is out since May.", Fit.WHOLE),
        ("Is 1.2 out?", "1.2.3 is out.", Fit.LACKING),
        ("Is 4.1 out?", "2.4.1 is out.", Fit.LACKING),
        ("Is 2.4.1 out?", "The release v2.4.1 is out.", Fit.WHOLE),
        ("Is v2.4.1 out?", "2.4.1, the last, is out.", Fit.WHOLE),
        ("What is retry_count?", "settings.retry_count is high.", Fit.WHOLE),
        ("Who mended #1187?", "PR 1187: mended by Ann.", Fit.WHOLE),
        ("What does error 4021 mean?", "It came with v4021.", Fit.LACKING),
        ("Who owns ann@example.org?", "bob@example.org is Bob's.", Fit.OTHER),
        ("What happened on May 3?", "On 3 May 2026 it rained.", Fit.WHOLE),
        ("What happened on May 3, 2025?", "On 3 May 2026 it rained.", Fit.OTHER),
        ("What happened on May 3?", "It rained.", Fit.UNDATED),
        ("What did error 4021 mean on May 3?", "Its meaning is unknown.", Fit.LACKING),
        ("How many disks has it?", "It has six disks.", Fit.WHOLE),
        (
            "How many disks has it?",
            "It has disks, and the server is from the year before: all in all 12 boxes.",
            Fit.LACKING,
        ),
        ("How long does it take?", "It takes a while.", Fit.LACKING),
        ("What was planned in 2026?", "A new roof was planned.", Fit.WHOLE),
        ("What does error 4 021 mean?", "Error 4021: the disk is full.", Fit.WHOLE),
        ("What does error 4021 mean?", "Error 4 021: the disk is full.", Fit.WHOLE),
        ("What does error 4021 mean?", "Error 14 021: the disk is full.", Fit.OTHER),
        ("What runs at 2:30?", "Backups run at 02:30.", Fit.WHOLE),
        ("What runs at 02:30?", "Backups run at 2:30.", Fit.WHOLE),
        ("What runs at 02:30?", "Backups run at 12:30.", Fit.OTHER),
        ("Which box has 16GB?", "The box has 16 GB.", Fit.WHOLE),
        ("Which box has 16 GB?", "The box has 16GB.", Fit.WHOLE),
        ("Which box has 16 GB?", "The box has 32GB.", Fit.LACKING),
        ("What happened on 20260314?", "On March 14, 2026 it rained.", Fit.WHOLE),
        ("What is the 2nd step?", "The second step is to sign.", Fit.WHOLE),
        ("What happened on 14/03/2026?", "On March 14, 2026 it rained.", Fit.WHOLE),
        ("What happened on 3/14/2026?", "2026-03-14: rain.", Fit.WHOLE),
        ("What happened on 2026-03-14?", "On 14/03/2026 it rained.", Fit.WHOLE),
        ("What happened on 15/03/2026?", "2026-03-14: rain.", Fit.OTHER),
        ("what happened on march 14?", "2026-05-14: rain.", Fit.OTHER),
        ("what happened on the 14th of march", "2026-03-14: rain.", Fit.WHOLE),
        ("what happened on may 14", "2026-03-14: rain.", Fit.OTHER),
        ("may 14 users log in?", "At most 14 users may log in, says the note of 2026-03-14.", Fit.WHOLE),
        ("What happened on 2026\u201103\u201114?", "2026\u201103\u201114: rain.", Fit.WHOLE),
        ("What happened in 2026-03?", "2026-03-14: rain.", Fit.WHOLE),
        ("What happened in 2026-03?", "On April 14, 2026 it rained.", Fit.LACKING),
        ("What happened on March 14 and on May 14?", "2026-05-14: rain.", Fit.WHOLE),
        ("What happened on March 14 and on May 14?", "2026-04-14: rain.", Fit.OTHER),
        ("What happened between March 10 and March 20?", "2026-03-14: rain.", Fit.WHOLE),
        ("What happened between March 10 and March 20?", "2026-03-24: rain.", Fit.OTHER),
        ("What happened from 2026-03-01 to 2026-03-31?", "On March 14 it rained.", Fit.WHOLE),
        ("What happened from 2026-03-01 to 2026-03-31?", "2025-03-14: rain.", Fit.OTHER),
        ("What happened since March 1, 2026?", "2027-01-14: rain.", Fit.WHOLE),
        ("What happened after March 20, 2026?", "2026-03-14: rain.", Fit.OTHER),
        ("What happened before May 1?", "2026-03-14: rain.", Fit.WHOLE),
        ("What happened by March 1, 2026?", "2026-03-14: rain.", Fit.OTHER),
        ("What happened after March 20 and before June 1?", "2026-03-14: rain.", Fit.OTHER),
        ("What happened after March 20 and before June 1?", "2026-05-14: rain.", Fit.WHOLE),
        ("What happened since March 1?", "It rained.", Fit.UNDATED),
        ("What do errors 4012 and 4021 mean?", "Error 4012: the disk is full.", Fit.WHOLE),
        ("What do errors 4012 and 4021 mean?", "Error 4014: the disk is full.", Fit.OTHER),
        ("What came with release 4.2 and release 4.3?", "Release 4.3 brought quizzes.", Fit.WHOLE),
        ("What came with releases 4.2, 4.3 and 4.4?", "Release 4.3 brought quizzes.", Fit.WHOLE),
        ("What changed from release 4.2 to 4.3?", "Release 4.3 brought quizzes.", Fit.WHOLE),
        ("Is error 4012 about port 8081?", "Port 8081 is the cart's.", Fit.OTHER),
        ("Are error 4012 and port 8081 related?", "Port 8081 is the cart's.", Fit.OTHER),
    ],
)
def test_a_word_that_decides_is_there_or_missing_or_another_one_is_in_its_place(
    question: str, text: str, fit: Fit
) -> None:
    assert fit_of(question, text) is fit


def test_of_several_codes_each_is_answered_and_one_that_is_nowhere_is_named(store: SessionMemoryStore) -> None:
    answer = store.search_chunks("What do errors 4012 and 4021 mean?", SCOPE)
    assert [(result.memory_id, result.match) for result in answer.results] == [(1, "strong")]
    assert "Nothing found here has '4021'." in (answer.message or "")


def test_a_day_counts_within_a_time_and_in_small_letters_and_no_other_day_is_claimed(store: SessionMemoryStore) -> None:
    for asked in ("between March 10 and March 20", "since March 1, 2026", "on march 14", "on 14/03/2026"):
        answer = store.search_chunks(f"What happened to the mails {asked}?", SCOPE)
        assert (answer.results[0].memory_id, answer.results[0].match != "weak") == (3, True), asked
    for asked in ("between March 15 and March 20", "since April 1, 2026", "on may 14", "on 15/03/2026"):
        answer = store.search_chunks(f"What happened to the mails {asked}?", SCOPE)
        assert (answer.results, answer.confidence) == ([], "weak"), asked


@pytest.mark.parametrize("asked", ["on March 14", "on May 14", "on June 1", "before April 1", "after April 1"])
def test_a_hidden_text_of_another_day_changes_no_answer_and_all_pages_hold_the_same(tmp_path: Path, asked: str) -> None:
    query, texts = f"What happened to the mails {asked}?", ("The mails were late: the disk was full.", *MEMORIES)
    answers = []
    for hidden in (("Incident 2026-05-14: mails were lost.", "The mails were lost on June 1."), ()):
        with SessionMemoryStore(tmp_path / f"{len(hidden)}.db") as opened:
            for text in texts:
                opened.store_memory("working_memory", text, session_id="s")
            for text in hidden:
                opened.store_memory("working_memory", text, session_id="hidden")
            view, found = opened.limited_to(["s"]), []
            for limit in (2, 10):
                offset: int | None = 0
                pages = []
                while offset is not None:
                    page = view.search_chunks(query, SCOPE, Page(limit=limit, offset=offset))
                    pages += [(result.memory_id, result.match) for result in page.results]
                    offset = page.next_offset
                found.append(pages)
            answers.append((found[0], view.search_chunks(query, SCOPE).message))
            assert found[0] == found[1]
            assert sorted(number for number, _ in found[0]) == list(range(1, len(texts) + 1))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("sign", ["a", "\u8a2d", "#", "-", "a-", "1-"])
def test_a_long_text_without_spaces_is_read_once(sign: str) -> None:
    """Looking ahead from each sign of such a text would take longer than a test may."""
    assert fit_of("What is error 4021 on 3 May 2026?", sign * 200_000) is not Fit.WHOLE
