"""Answers fit, and say what is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.answers.budget import (
    BYTES_PER_TOKEN,
    ResponseBudget,
    cut,
    fair_shares,
    json_size,
    size,
)
from vector_memory.answers.models import CoarseSearchResult, FoundMemory, MemoryEntry, Omitted
from vector_memory.errors import ValidationError

TEXTS = st.text(alphabet=st.sampled_from('ab \n"\x00€漢😀'), max_size=300)


def entry(content: str, number: int = 1) -> MemoryEntry:
    return MemoryEntry(
        id=number, memory_type="report", agent_id="a", session_id="s", session_iter=1, task_code=None, content=content,
        title=None, description=None, tags=[], metadata={}, content_hash="0", created_at="", updated_at="",
        accessed_at="", access_count=0, content_length=len(content),
    )  # fmt: skip


@given(TEXTS, st.integers(1, 200))
def test_reading_on_from_each_end_returns_the_whole_text(text: str, allowance: int) -> None:
    parts, offset = [], 0
    while offset is not None:
        part = cut(text, offset, allowance)
        parts.append(part.text)
        offset = part.end
    assert "".join(parts) == text


@given(TEXTS, st.integers(6, 200))
def test_a_cut_never_takes_more_than_its_allowance(text: str, allowance: int) -> None:
    assert json_size(cut(text, 0, allowance).text) <= allowance


def test_a_cut_is_made_at_a_paragraph_a_line_or_a_word_if_one_is_near() -> None:
    assert cut("a" * 90 + "\n\nbbb bbbb" + "c" * 50, 0, 100).text == "a" * 90 + "\n\n"
    assert cut("a" * 90 + " bbb bbbb" + "c" * 50, 0, 100).text == "a" * 90 + " bbb "
    assert cut("a" * 200, 0, 100).text == "a" * 100


@given(st.lists(st.integers(0, 1000), max_size=20), st.integers(0, 5000))
def test_space_is_shared_fairly_and_fully_used(wanted: list[int], available: int) -> None:
    shares = fair_shares(wanted, available)
    assert all(share <= want for share, want in zip(shares, wanted, strict=True))
    assert sum(shares) <= available
    cut_short = [share for share, want in zip(shares, wanted, strict=True) if share < want]
    if cut_short:
        assert max(shares) - min(cut_short) <= 1
        assert available - sum(shares) < len(wanted)


@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_memories_that_share_an_answer_fit_and_say_where_to_read_on(contents: list[str]) -> None:
    entries = [entry(content, number) for number, content in enumerate(contents)]
    shared = ResponseBudget(max_tokens=800).share(entries)
    assert [memory.id for memory in shared] == [memory.id for memory in entries[: len(shared)]]
    assert sum(map(size, shared)) <= 800 * BYTES_PER_TOKEN + 10 * len(shared)
    for memory, content in zip(shared, contents, strict=False):
        assert content.startswith(memory.content)
        assert memory.content_end == (None if memory.content == content else len(memory.content))


def test_one_memory_that_fits_is_never_cut() -> None:
    whole = entry("x" * 1000)
    assert ResponseBudget(max_tokens=size(whole) // BYTES_PER_TOKEN + 1).share([whole]) == [whole]


def test_results_are_packed_best_first_and_the_rest_is_listed_with_its_size() -> None:
    entries = [entry("x" * 600, number) for number in range(1, 6)]
    kept = ResponseBudget(max_tokens=700).fitting(entries)
    assert [memory.id for memory in kept] == [1, 2]
    omitted = ResponseBudget(max_tokens=700).omissions(entries, kept)
    assert omitted == [Omitted(id=number, characters=600) for number in (3, 4, 5)]


def test_the_best_result_is_shortened_rather_than_omitted_and_the_answer_says_so() -> None:
    long = entry("x" * 600).model_copy(update={"metadata": {"a": 1, "b": "y" * 5_000}, "title": "t" * 5_000})

    def build(budget: ResponseBudget) -> CoarseSearchResult:
        results = [FoundMemory(**one.model_dump()) for one in budget.fitting([long])]
        return CoarseSearchResult(results=results, limit=1, latest_first=True)

    answer = ResponseBudget(max_tokens=500).fit(build)
    assert size(answer) <= 500 * BYTES_PER_TOKEN
    assert answer.results[0].metadata == {"a": 1, "…": "1 more"}
    assert (answer.results[0].title or "").endswith("…")
    assert "metadata, title" in (answer.message or "")


@pytest.mark.parametrize("offset", [-1, 6])
def test_an_offset_outside_the_text_is_refused_with_the_length(offset: int) -> None:
    with pytest.raises(ValidationError, match="from 0 to 5"):
        ResponseBudget(1000).cut("12345", offset)


def test_memories_whose_metadata_alone_do_not_fit_are_left_out_and_the_first_stays() -> None:
    entries = [entry("text", number).model_copy(update={"description": "d" * 900}) for number in range(1, 8)]
    assert [memory.id for memory in ResponseBudget(max_tokens=1000).share(entries)] == [1, 2]
    assert ResponseBudget(max_tokens=10).share(entries) == []
