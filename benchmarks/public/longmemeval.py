"""Reads LongMemEval (Wu et al. 2024), as published: questions, each with the sessions of one user.

The file is a list of questions with `question_id`, `question_type`, `question`, a haystack (`haystack_session_ids`,
`haystack_sessions`: turns with `role`, `content` and, where they have the answer, `has_answer`) and
`answer_session_ids`. Every haystack is a scope. Questions without an answer, whose ids end in `_abs`, are left out, as
in the paper's measures of retrieval.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judged import JudgedSet, Question


def read(path: Path, *, by_turns: bool) -> JudgedSet:
    """Read the file; a document is a session, or a turn. Questions whose evidence has no text are left out."""
    asked: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    documents: dict[str, str] = {}
    scopes: dict[str, list[str]] = {}
    questions = []
    for item in asked:
        scope = item["question_id"]
        parts = list(turns_of(item) if by_turns else sessions_of(item))
        right = {name: 1.0 for name, _, is_right in parts if is_right}
        if scope.endswith("_abs") or not right:
            continue
        documents |= {name: text for name, text, _ in parts}
        scopes[scope] = [name for name, _, _ in parts]
        questions.append(Question(item["question"], scope, right, name=scope, kind=item["question_type"]))
    return JudgedSet(f"{path.stem}_{'turns' if by_turns else 'sessions'}", documents, scopes, questions)


def sessions_of(item: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield the name and the text of each session, and whether it is evidence."""
    for name, turns in zip(item["haystack_session_ids"], item["haystack_sessions"], strict=True):
        if text := "\n\n".join(map(said, turns)).strip():
            yield name, text, name in item["answer_session_ids"]


def turns_of(item: dict[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield the name and the text of each turn, and whether it is evidence: that depends on the question."""
    for session, turns in zip(item["haystack_session_ids"], item["haystack_sessions"], strict=True):
        for number, turn in enumerate(turns, 1):
            if turn["content"].strip():
                yield f"{session}:{number}", said(turn), bool(turn.get("has_answer"))


def said(turn: dict[str, Any]) -> str:
    """Return who said what."""
    return f"**{turn['role']}:** {turn['content']}"
