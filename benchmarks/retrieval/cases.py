"""Memories of our own with questions, in two halves: what is tuned on one half is judged by the other.

`questions/precision.json`: short memories on many subjects, which are shared, and questions with exactly the memories
that answer them. `questions/corrections.json`: facts, what corrected them later, and a decoy on a near subject.
`questions/states.json`: the same of states, decisions, owners, versions and configuration.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

QUESTIONS = Path(__file__).parent / "questions"

Half = Literal["construction", "apart"]
HALVES: tuple[Half, ...] = ("construction", "apart")

Sort = Literal["single", "compound", "absent", "off topic"]
SORTS: tuple[Sort, ...] = ("single", "compound", "absent", "off topic")
"""One subject, several subjects, a subject of the memory without the answer, and no subject of the memory."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question, and the names of exactly the memories that answer it; there may be none."""

    half: Half
    sort: Sort
    question: str
    right: frozenset[str]


@dataclass(frozen=True, slots=True)
class Correction:
    """A fact, what corrected it later, and a newer text on a near subject. The question repeats the fact's words."""

    half: Half | Literal["state"]
    question: str
    fact: str
    correction: str
    decoy: str


def precision_cases() -> tuple[dict[str, str], list[Case]]:
    """Return the memories of both halves by name, and the cases."""
    data = json.loads((QUESTIONS / "precision.json").read_text(encoding="utf-8"))
    memories = {name: text for half in HALVES for name, text in data["memories"][half].items()}
    cases = [Case(each["half"], each["sort"], each["question"], frozenset(each["right"])) for each in data["questions"]]
    return memories, cases


def states() -> list[Correction]:
    """Return facts about the state of something, which changed: who owns it, which version, what was decided."""
    data: Sequence[dict[str, str]] = json.loads((QUESTIONS / "states.json").read_text("utf-8"))
    return [Correction(half="state", **each) for each in data]


def corrections() -> tuple[list[Correction], list[str]]:
    """Return the corrected facts, and findings on other subjects."""
    data: Mapping[str, Sequence[dict[str, str]]] = json.loads((QUESTIONS / "corrections.json").read_text("utf-8"))
    found = [Correction(half=half, **each) for half in HALVES for each in data[half]]
    return found, [str(each) for each in data["others"]]
