"""How well the turns that answer a question are found in a long conversation: LoCoMo (Maharana et al. 2024).

uv run benchmarks/retrieval/locomo.py locomo10.json [--questions N] [--cache DIR] [--json FILE]

The file is the public one: a list of samples, each with a `conversation` (`session_1`, `session_1_date_time`, ...:
turns with `speaker`, `dia_id` and `text`, and for a shared picture its `blip_caption`) and questions in `qa` with their
`evidence` and `category`. Every conversation is a session of the memory, and each turn a working memory. Adversarial
questions, which nothing answers, are left out, and so are those whose evidence names no turn.
"""

import json
import re
from pathlib import Path
from typing import Any

from conversations import Types, main, type_key
from judged import JudgedSet, Question

CATEGORIES = {1: "several facts", 2: "time", 3: "world knowledge", 4: "one fact"}
"""Of the file's five; the fifth is adversarial."""

TURN = re.compile(r"D\d+:\d+")


def read(path: Path) -> tuple[JudgedSet, Types]:
    """Read the public file."""
    samples: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    documents: dict[str, str] = {}
    scopes: dict[str, list[str]] = {}
    questions, types = [], {}
    for number, sample in enumerate(samples):
        scope = str(sample.get("sample_id", number))
        turns = dict(turns_of(sample["conversation"]))
        documents |= {f"{scope}:{name}": text for name, text in turns.items()}
        scopes[scope] = [f"{scope}:{name}" for name in turns]
        for item in sample["qa"]:
            evidence = TURN.findall(" ".join(map(str, item.get("evidence", []))))
            grades = {f"{scope}:{name}": 1.0 for name in evidence if name in turns}
            if item["category"] in CATEGORIES and grades:
                question = Question(item["question"], scope, grades)
                questions.append(question)
                types[type_key(question)] = CATEGORIES[item["category"]]
    return JudgedSet(path.stem, documents, scopes, questions), types


def turns_of(conversation: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the ids and texts of all turns, in order."""
    sessions = [conversation[name] for name in conversation if re.fullmatch(r"session_\d+", name)]
    return [
        (turn["dia_id"], f"**{turn['speaker']}:** {turn['text']}{picture(turn)}")
        for turns in sessions
        for turn in turns
    ]


def picture(turn: dict[str, Any]) -> str:
    """Return the description of the picture that a turn shares, or nothing."""
    return f" [shares a picture: {turn['blip_caption']}]" if turn.get("blip_caption") else ""


if __name__ == "__main__":
    main(__doc__, read)
