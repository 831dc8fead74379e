"""A working day over standard input and output: 50 real notes are stored, searched, counted and cleared."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import Server
from vector_memory.settings import DEFAULT_MODEL

NOTES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "notes.json").read_text(encoding="utf-8"))

QUESTIONS = [
    ("why is the list of users slow", {}, "UserController@store"),
    ("jobs still run the code from before the release", {}, "Laravel queue workers keep"),
    ("the same payment event arrives twice", {}, "Stripe sends the same webhook"),
    ("requests fail while pods are being replaced", {}, "Kubernetes sent traffic"),
    ("login lost when two tabs are open", {"tags": ["Authentication"]}, "Refresh tokens rotate"),
    ("rows are locked in the wrong order", {"category": "bug"}, "Deadlocks between the invoice job"),
    ("images take too long to build", {"category": "performance", "tags": ["docker"]}, "Docker layer cache"),
    ("messages piling up in one place", {"tags": ["Kafka"]}, "Kafka consumer lag"),
    ("how to find the commit that broke it", {"category": "tool-usage"}, "git bisect run"),
    ("memory used beyond the heap", {"tags": ["Java 17"]}, "The container was killed"),
]
"""A question, the filters, and how the note begins that answers it."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("day")
    with Server(folder, VECTOR_MEMORY_TOOLSETS="tagged", VECTOR_MEMORY_EMBEDDING_MODEL=DEFAULT_MODEL) as server:
        yield server.hello()


@pytest.fixture(scope="module")
def receipts(server: Server) -> list[dict[str, Any]]:
    return [server.call("store_memory", **note) for note in NOTES]


def test_every_note_is_stored_under_its_category_with_all_its_tags(receipts: list[dict[str, Any]]) -> None:
    for note, receipt in zip(NOTES, receipts, strict=True):
        assert receipt["success"], receipt
        assert receipt["category"] == note["category"]
        assert len(receipt["tags"]) == len(note["tags"])
        assert receipt["rejected_tags"] == []


@pytest.mark.usefixtures("receipts")
def test_forms_of_a_tag_became_one(server: Server) -> None:
    frequencies = server.call("get_tag_frequencies")["frequencies"]
    assert sum(frequencies.values()) == sum(len(note["tags"]) for note in NOTES)
    sent = {tag.lower() for note in NOTES for tag in note["tags"]}
    assert len(frequencies) < len(sent)
    assert frequencies["laravel"] == 3
    assert frequencies["api v2"] == 2
    assert frequencies["react 18"] == 2
    assert "api 2.0" not in frequencies
    weights = server.call("get_tag_weights")["weights"]
    assert weights["postgresql"] < weights["java 17"] == 1.4427
    assert set(server.call("get_unique_tags")["tags"]) == set(frequencies)


@pytest.mark.usefixtures("receipts")
@pytest.mark.parametrize(("question", "filters", "beginning"), QUESTIONS, ids=[entry[0] for entry in QUESTIONS])
def test_a_question_in_plain_words_finds_the_note(
    server: Server, question: str, filters: dict[str, Any], beginning: str
) -> None:
    found = server.call("search_memories", query=question, limit=3, **filters)
    assert found["results"][0]["content"].startswith(beginning)
    if "category" in filters:
        assert len({memory["category"] for memory in found["results"]}) == 1


@pytest.mark.usefixtures("receipts")
def test_references_to_tasks_and_memories_are_found(server: Server) -> None:
    found = server.call("search_memories", query="task #42", limit=2)
    assert all("task #42" in memory["content"] for memory in found["results"])
    assert "memory #12" in server.call("search_memories", query="memory #12", limit=1)["results"][0]["content"]


@pytest.mark.usefixtures("receipts")
def test_the_statistics_count_them_all(server: Server) -> None:
    stats = server.call("get_memory_stats")
    assert (stats["total_memories"], stats["usage_percentage"], stats["recent_week_count"]) == (50, 0.5, 50)
    assert sum(stats["categories"].values()) == 50
    assert stats["categories"]["bug-fix"] == sum(note["category"] == "bug-fix" for note in NOTES)
    assert stats["health_status"] == "healthy"
