"""A value that exists is valid."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.domain import NewMemory, Scope
from vector_memory.domain.validation import parse_id, parse_iteration
from vector_memory.errors import ValidationError


def new(**changes: Any) -> NewMemory:
    fields: dict[str, Any] = {
        "agent_id": "a", "content": "text", "session_id": "s", "session_iter": None, "task_code": None, "title": None,
        "description": None, "tags": None, "metadata": None, "category": None, "parent_report_id": None,
    }  # fmt: skip
    kind = changes.pop("kind", "report")
    return NewMemory.of(kind, **fields | changes)


@given(st.integers(0, 999_999_999))
def test_an_iteration_is_the_same_as_number_as_text_and_with_a_v(number: int) -> None:
    for value in (number, str(number), f"v{number}", float(number), f"{number}.0"):
        assert parse_iteration(value) == number


@pytest.mark.parametrize("value", [42, "42", 42.0, "42.0", " 42 "])
def test_an_id_is_the_same_however_a_client_writes_the_number(value: Any) -> None:
    assert parse_id("memory_id", value) == 42


@pytest.mark.parametrize("value", ["", "v", "v1.5", 1.5, math.nan, "one", "-1", -1, True, 10**10, "v 2", "٣", "1\n"])
def test_anything_else_is_not_an_iteration(value: Any) -> None:
    with pytest.raises(ValidationError, match="session_iter must be a number"):
        parse_iteration(value)


def test_an_iteration_that_is_missing_on_a_store_is_the_first() -> None:
    assert new().session_iter == 1


@pytest.mark.parametrize("value", ["", "abc", "-3", 1.5, "1.5", -0.5, math.inf, True, "1" * 30, None])
def test_a_value_that_is_not_an_integer_is_not_an_id(value: Any) -> None:
    with pytest.raises(ValidationError, match="memory_id must be an integer"):
        parse_id("memory_id", value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"content": ""}, "content must not be empty"),
        ({"content": " \n"}, "content must not be empty"),
        ({"content": "x" * 500_001}, "content is 500,001 characters long: send at most 500,000"),
        ({"content": "a\ud800b"}, "lone surrogate at character 1"),
        ({"session_id": ""}, "session_id must not be empty"),
        ({"session_id": None}, "session_id must be a string"),
        ({"session_id": "s" * 201}, "at most 200"),
        ({"agent_id": "a" * 201}, "at most 200"),
        ({"task_code": "t" * 201}, "at most 200"),
        ({"title": "t" * 501}, "at most 500"),
        ({"description": "d" * 5001}, "at most 5,000"),
        ({"tags": [str(number) for number in range(21)]}, "send at most 20"),
        ({"tags": ["t" * 101]}, "at most 100"),
        ({"content": "a\0b"}, "content contains the character NUL: remove it, or send U.FFFD"),
        ({"session_id": "s\0"}, "session_id contains the character NUL: remove it"),
        ({"title": "\0t"}, "title contains the character NUL"),
        ({"tags": ["a\0b"]}, "each tag contains the character NUL"),
        ({"tags": "one"}, "tags must be a list"),
        ({"tags": [1]}, "each tag must be a string"),
        ({"metadata": {"a": math.nan}}, "metadata must contain only JSON values"),
        ({"metadata": {"a": (1, 2)}}, "metadata must contain only JSON values"),
        ({"metadata": {"a": {1: "b"}}}, "metadata must contain only JSON values"),
        ({"metadata": {"a": "\ud800"}}, "metadata must contain only JSON values"),
        ({"metadata": {"a": "x" * 20_001}}, "send at most 20,000"),
        ({"metadata": ["a"]}, "metadata must be an object"),
        ({"metadata": {"a": json.loads("[" * 32 + "]" * 32)}}, "send at most 32 levels"),
        ({"parent_report_id": 3, "metadata": {"parent_report_id": 4}}, "contradicts the parameter parent_report_id"),
        ({"task_code": ""}, "omit it"),
        ({"ttl_days": True}, "ttl_days must be a number"),
        ({"ttl_days": math.nan}, "ttl_days must be a number"),
        ({"supersedes": [True]}, "supersedes must be an integer"),
        ({"kind": "report_observation", "parent_report_id": 3, "corrects": "no"}, "corrects must be true or false"),
        ({"kind": "diary"}, "memory_type must be one of session_context, "),
        ({"parent_report_id": "x"}, "parent_report_id must be an integer"),
        ({"kind": "knowledge_base", "session_id": "s", "title": "t"}, "belongs to no session"),
        ({"kind": "knowledge_base", "session_id": None}, "title must be a string"),
    ],
)
def test_invalid_values_are_refused_with_what_to_send_instead(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        new(**changes)


def test_the_largest_content_and_the_longest_names_are_accepted() -> None:
    assert len(new(content="x" * 500_000, agent_id="a" * 200, tags=["t" * 100] * 20).content) == 500_000


def test_repeated_tags_are_kept_once_in_order() -> None:
    assert new(tags=["b", "a", "b"]).tags == ("b", "a")


def test_knowledge_notes_its_title_and_category_in_its_metadata() -> None:
    memory = new(kind="knowledge_base", session_id=None, title="Go", metadata={"x": 1})
    assert memory.metadata == {"x": 1, "title": "Go", "category": "general"}


def test_a_scope_names_only_the_filters_it_has() -> None:
    scope = Scope("report", session_id="s", session_iter="v0", tags=["a"])
    assert scope.as_filters() == {"memory_type": "report", "session_id": "s", "session_iter": 0, "tags": ["a"]}


def test_a_filter_may_not_be_empty() -> None:
    with pytest.raises(ValidationError, match="agent_id must not be empty: omit it"):
        Scope("report", agent_id="")


def test_a_number_too_long_to_be_written_is_refused_like_any_other() -> None:
    with pytest.raises(ValidationError, match="memory_id must be"):
        parse_id("memory_id", 10**5000)
    with pytest.raises(ValidationError, match="session_iter must be"):
        parse_iteration(10**5000)
