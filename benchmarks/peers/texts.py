"""What is stored and asked: reports with facts planted in them, notes, and findings that resemble each other."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, cycle, islice
from pathlib import Path
from typing import NamedTuple

FACTS = Path(__file__).parents[2] / "tests" / "data" / "planted_facts.json"
PLACES = {"start": 0.0, "middle": 0.5, "end": 1.0}
LENGTH = 20_000
SHORTEST_NOTE, LONGEST_NOTE = 100, 400
LONGEST_PARAGRAPH = 1_000
SHORTEST_LINE = 40


class Planted(NamedTuple):
    """A report, the fact in it and where, and two ways to ask for it. `lines`: the longer ones that only it has."""

    report: str
    lines: frozenset[str]
    fact: str
    place: str
    name: str
    paraphrase: str


class Material(NamedTuple):
    """All that one server is given."""

    reports: list[Planted]
    notes: list[str]
    facts: list[str]
    similar: list[str]


def gather(folder: Path, each: int, notes: int) -> Material:
    """Make `each` reports for every place, and notes, of the Markdown under a folder; all texts are different."""
    facts = json.loads(FACTS.read_text(encoding="utf-8"))
    paragraphs = (
        paragraph
        for path in sorted(folder.rglob("*.md"))
        for paragraph in re.split(r"\n{2,}", path.read_text(encoding="utf-8"))
        if len(paragraph) <= LONGEST_PARAGRAPH
    )
    chosen = list(islice(bodies(paragraphs), each * len(PLACES)))
    occurrences = Counter(line for body in chosen for line in long_lines(body))
    reports = [
        Planted(
            planted(body, fact["fact"], PLACES[place]),
            frozenset(line for line in long_lines(body) if occurrences[line] == 1),
            fact["fact"],
            place,
            fact["name"],
            fact["paraphrase"],
        )
        for place, fact, body in zip(cycle(PLACES), facts, chosen, strict=False)
    ]
    short = [text for text in paragraphs if SHORTEST_NOTE < len(text) < LONGEST_NOTE][:notes]
    if len(reports) < each * len(PLACES) or len(short) < notes:
        raise SystemExit(f"{folder} has too little Markdown: {each * len(PLACES)} x {LENGTH:,} characters are needed.")
    return Material(reports, short, [fact["fact"] for fact in facts], similar_findings())


def bodies(paragraphs: Iterator[str]) -> Iterator[list[str]]:
    """Yield paragraphs that together are as long as a report, less the room for a fact."""
    body: list[str] = []
    for paragraph in paragraphs:
        if sum(len(each) + 2 for each in body) + len(paragraph) > LENGTH - 200:
            yield body
            body = []
        body.append(paragraph)


def long_lines(paragraphs: list[str]) -> set[str]:
    """Return the lines that distinguish a report from the others."""
    return {line for paragraph in paragraphs for line in paragraph.splitlines() if len(line) >= SHORTEST_LINE}


def planted(paragraphs: list[str], fact: str, share: float) -> str:
    """Return a report with the fact as a paragraph at this share of its length."""
    lengths = list(accumulate(map(len, paragraphs), initial=0))
    at = min(range(len(lengths)), key=lambda index: abs(lengths[index] - share * lengths[-1]))
    return "\n\n".join([*paragraphs[:at], fact, *paragraphs[at:]])


def similar_findings() -> list[str]:
    """Return twenty findings of a code review: each says something else, in much the same words."""
    modules = ("billing/invoice", "billing/refund", "auth/session", "auth/token", "search/index")
    functions = ("load_rows", "write_rows", "retry_call", "parse_date")
    return [
        f"Review finding: {function}() in {module}.py, line {40 + 17 * number}, swallows exceptions and returns None."
        for number, (module, function) in enumerate((module, each) for module in modules for each in functions)
    ]
