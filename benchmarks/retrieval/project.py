"""The memory of a project: facts and their corrections, findings and pages of documentation; it can be made larger.

The first 190 reports are always the same: 20 facts, 20 corrections stored two months later, 30 other findings and 120
pages. What comes after them are findings and pages of other projects. The texts are made of the sentences and
paragraphs of `questions/project.json` and `questions/corrections.json`; no two are equal.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from typing import Any

from cases import QUESTIONS, Correction, corrections
from corrected import AGENTS, LATER

from vector_memory.embedding import Embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

SIZE = 190
OTHERS, PAGES = 30, 120
FINDINGS_OF_OTHERS = 0.85
"""The share of short findings among what other projects stored; the rest are pages."""

START = datetime(2026, 2, 2, 9, tzinfo=UTC)
DAYS_BEFORE = 500
"""Other projects began so long before."""

DAYS = 2 * LATER
"""So long were findings and pages stored, with the corrections in the middle."""


@dataclass(frozen=True, slots=True)
class Report:
    """What an agent stored."""

    text: str
    agent: str
    session: str
    created: datetime
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in plain words. `fact` and `correction`: the obsolete text and the true one, if there is an answer."""

    question: str
    fact: str | None = None
    correction: str | None = None


def questions() -> list[Asked]:
    """Return 20 questions with an answer, and six without, though the memory has their subject."""
    pairs = [Asked(pair.question, pair.fact, pair.correction) for pair in _pairs()]
    return [*pairs, *map(Asked, _parts()["unanswered"])]


def reports(size: int) -> list[Report]:
    """Return the first reports of the memory, oldest first."""
    return sorted(islice(_distinct(), size), key=lambda report: report.created)


def build(folder: Path, size: int, embedder: Embedder) -> Path:
    """Return the file of a memory of so many reports; it is made if the folder does not have it yet."""
    path = folder / f"project-{size}.db"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        with SessionMemoryStore(unfinished, Settings(sqlite_synchronous="NORMAL"), embedder=embedder) as store:
            for report in reports(size):
                store.store_memory(
                    "report", report.text, session_id=report.session, agent_id=report.agent, title=report.title,
                    created_at=report.created.isoformat(),
                )  # fmt: skip
        unfinished.rename(path)
    return path


def _pairs() -> list[Correction]:
    return [pair for pair in corrections()[0] if pair.half == "apart"]


def _parts() -> dict[str, Any]:
    return dict(json.loads((QUESTIONS / "project.json").read_text(encoding="utf-8")))


def _distinct() -> Iterator[Report]:
    seen = set()
    for report in _endless():
        if report.text not in seen:
            seen.add(report.text)
            yield report


def _endless() -> Iterator[Report]:
    parts, drawn = _parts(), random.Random(SIZE)  # noqa: S311 - not a secret
    for number, pair in enumerate(_pairs()):
        yield _own(pair.fact, number, number)
        yield _own(pair.correction, number + 1, number + LATER)
    for number, text in enumerate(corrections()[1][:OTHERS]):
        yield _own(text, number, drawn.randrange(DAYS))
    for number in range(PAGES):
        topic = parts["topics"][(number + number // len(parts["services"])) % len(parts["topics"])]
        service = parts["services"][number % len(parts["services"])]
        title, text = _page(topic, len(topic["paragraphs"]) - number % 2, {"service": service}, drawn, parts)
        yield _own(text, number, drawn.randrange(DAYS), title)
    for number in count():
        yield _of_others(random.Random(number), parts)  # noqa: S311 - not a secret


def _own(text: str, number: int, day: int, title: str | None = None) -> Report:
    created = START + timedelta(days=day, minutes=7 * number)
    return Report(text, AGENTS[number % len(AGENTS)], f"shop {created:%Y-%m-%d}", created, title)


def _of_others(drawn: random.Random, parts: dict[str, Any]) -> Report:
    project, service = drawn.choice(parts["projects"]), drawn.choice(parts["services"])
    created = START + timedelta(days=drawn.randrange(-DAYS_BEFORE, DAYS), minutes=drawn.randrange(480))
    agent, session = drawn.choice(AGENTS), f"{project.lower()} {created:%Y-%m}"
    if drawn.random() < FINDINGS_OF_OTHERS:
        text = _filled(drawn.choice(parts["findings"]), {"service": service, "project": project}, drawn, parts)
        return Report(text, agent, session, created)
    topic = drawn.choice(parts["topics"])
    title, text = _page(topic, drawn.randint(1, 3), {"service": f"{service} of {project}"}, drawn, parts)
    return Report(text, agent, session, created, title)


def _page(
    topic: dict[str, Any], length: int, names: dict[str, str], drawn: random.Random, parts: dict[str, Any]
) -> tuple[str, str]:
    """Return the title and the text of a page with so many of the topic's paragraphs."""
    title = topic["title"].format(**names)
    chosen = [_filled(each, names, drawn, parts) for each in drawn.sample(topic["paragraphs"], length)]
    half = -(-length // 2)
    details = ["## In detail", *chosen[half:]] if chosen[half:] else []
    return title, "\n\n".join([f"# {title}", *chosen[:half], *details])


def _filled(text: str, names: dict[str, str], drawn: random.Random, parts: dict[str, Any]) -> str:
    """Return a text with its placeholders replaced."""
    people: Sequence[str] = parts["people"]
    values = {
        "person": drawn.choice(people), "number": drawn.randint(12, 900), "minutes": drawn.randint(2, 45),
        "percent": drawn.randint(3, 60),
    }  # fmt: skip
    return text.format(**names, **values)
