"""With the real model: a fact is found at every position of a report, by its name and in other words.

benchmarks/retrieval/planted.py asks the same of longer reports.
"""

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from vector_memory.domain import Page, Scope
from vector_memory.store import SessionMemoryStore

DATA = Path(__file__).parents[1] / "data"
FACTS = json.loads((DATA / "planted_facts.json").read_text(encoding="utf-8"))[::2]
PLACES = {"start": 0.0, "middle": 0.5, "end": 1.0}
REPORT_LENGTH = 1_500
"""Characters: a chunk as long as they get. The model reads half of it at once, so the end is the hardest place."""


def reports() -> Iterator[list[str]]:
    """Yield a report, as its paragraphs, for each fact."""
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in sorted((DATA / "markdown").glob("*-*.md")))
    step = (len(text) - REPORT_LENGTH) // len(FACTS)
    for number in range(len(FACTS)):
        yield re.split(r"\n\n+", text[number * step : number * step + REPORT_LENGTH])


def planted(paragraphs: list[str], fact: str, place: float) -> str:
    """Return the report with the fact at this share of its length."""
    lengths = list(accumulate(map(len, paragraphs), initial=0))
    at = min(range(len(lengths)), key=lambda index: abs(lengths[index] - place * lengths[-1]))
    return "\n\n".join([*paragraphs[:at], fact, *paragraphs[at:]])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    """For each position a session with every report that has its fact there."""
    with SessionMemoryStore(tmp_path_factory.mktemp("planted") / "memory.db") as opened:
        for place, share in PLACES.items():
            for paragraphs, planted_fact in zip(reports(), FACTS, strict=True):
                opened.store_memory("report", planted(paragraphs, planted_fact["fact"], share), session_id=place)
        yield opened


def found(store: SessionMemoryStore, place: str, asked_by: str) -> float:
    """Return the share of the facts that are in one of the ten best chunks."""
    scope = Scope("report", session_id=place)
    hits = [
        any(
            fact["fact"] in chunk.chunk_content
            for chunk in store.search_chunks(fact[asked_by], scope, Page(limit=10)).results
        )
        for fact in FACTS
    ]
    return sum(hits) / len(hits)


@pytest.mark.parametrize("place", PLACES)
def test_a_fact_is_found_by_its_name_at_every_position(store: SessionMemoryStore, place: str) -> None:
    assert found(store, place, "name") >= 0.95


def test_a_fact_at_the_end_is_found_in_other_words_as_well_as_one_at_the_start(store: SessionMemoryStore) -> None:
    assert found(store, "end", "paraphrase") >= found(store, "start", "paraphrase") - 0.10
