"""Reads LoCoMo (Maharana et al. 2024), as published: questions about ten long conversations.

The file is a list of samples, each with a `conversation` (`session_1`, `session_1_date_time`, ...: turns with
`speaker`, `dia_id` and `text`, and for a shared picture its `blip_caption`) and questions in `qa` with their `evidence`
and `category`. Every conversation is a scope. Adversarial questions, which nothing answers, are left out, and so are
those whose evidence names no turn.
"""

import json
import re
from pathlib import Path
from typing import Any

from judged import JudgedSet, Question

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
"""Of the file's five; the fifth is adversarial."""

TURN = re.compile(r"D\d+:\d+")
SESSION = re.compile(r"session_(\d+)")


def read(path: Path, *, by_turns: bool) -> JudgedSet:
    """Read the file; a document is a session, or a turn."""
    samples: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    documents: dict[str, str] = {}
    scopes: dict[str, list[str]] = {}
    questions = []
    for number, sample in enumerate(samples):
        scope = str(sample.get("sample_id", number))
        parts = turns_of(sample["conversation"]) if by_turns else sessions_of(sample["conversation"])
        documents |= {f"{scope}:{name}": text for name, text in parts.items()}
        scopes[scope] = [f"{scope}:{name}" for name in parts]
        for position, item in enumerate(sample["qa"]):
            turns = TURN.findall(" ".join(map(str, item.get("evidence", []))))
            evidence = turns if by_turns else [session_name(turn) for turn in turns]
            right = {f"{scope}:{name}": 1.0 for name in evidence if name in parts}
            if item["category"] in CATEGORIES and right:
                kind = CATEGORIES[item["category"]]
                questions.append(Question(item["question"], scope, right, name=f"{scope}:q{position}", kind=kind))
    return JudgedSet(f"{path.stem}_{'turns' if by_turns else 'sessions'}", documents, scopes, questions)


def turns_of(conversation: dict[str, Any]) -> dict[str, str]:
    """Return the texts of all turns by their ids, in order."""
    sessions = [conversation[name] for name in conversation if SESSION.fullmatch(name)]
    return {turn["dia_id"]: said(turn) for turns in sessions for turn in turns}


def sessions_of(conversation: dict[str, Any]) -> dict[str, str]:
    """Return the texts of all sessions by their names, in order; each begins with its date."""
    sessions = {found[1]: conversation[name] for name in conversation if (found := SESSION.fullmatch(name))}
    return {
        f"S{number}": "\n\n".join(
            [f"# Session {number}: {conversation.get(f'session_{number}_date_time', '')}", *map(said, turns)]
        )
        for number, turns in sessions.items()
    }


def session_name(turn: str) -> str:
    """Return the name of a turn's session: S4 of D4:12."""
    return f"S{turn.partition(':')[0].removeprefix('D')}"


def said(turn: dict[str, Any]) -> str:
    """Return who said what, with the description of a shared picture."""
    picture = f" [shares a picture: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"**{turn['speaker']}:** {turn['text']}{picture}"
