"""How well the sessions that answer a question are found among all of a user's: LongMemEval (Wu et al. 2024).

uv run benchmarks/retrieval/longmemeval.py longmemeval_s.json [--questions N] [--cache DIR] [--json FILE]

The file is the public one: a list of questions, each with `question_id`, `question_type`, `question`, a haystack of
sessions (`haystack_session_ids`, `haystack_sessions`: turns with `role` and `content`) and `answer_session_ids`.
Every haystack is a session of the memory, and each of its sessions a report. Questions that have no answer, whose ids
end in `_abs`, are left out, as in the paper's measures of retrieval. All 500 take hours to embed on two cores; with
`--cache` a second run takes minutes.
"""

import json
from pathlib import Path
from typing import Any

from conversations import Types, main, type_key
from judged import JudgedSet, Question


def read(path: Path) -> tuple[JudgedSet, Types]:
    """Read the public file."""
    asked: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    documents: dict[str, str] = {}
    scopes: dict[str, list[str]] = {}
    questions, types = [], {}
    for item in asked:
        if item["question_id"].endswith("_abs"):
            continue
        scope = item["question_id"]
        scopes[scope] = []
        for name, turns in zip(item["haystack_session_ids"], item["haystack_sessions"], strict=True):
            text = "\n\n".join(f"**{turn['role']}:** {turn['content']}" for turn in turns)
            if text.strip():
                documents[name] = text
                scopes[scope].append(name)
        grades = {name: 1.0 for name in item["answer_session_ids"] if name in documents}
        question = Question(item["question"], scope, grades)
        questions.append(question)
        types[type_key(question)] = item["question_type"]
    return JudgedSet(path.stem, documents, scopes, questions), types


if __name__ == "__main__":
    main(__doc__, read)
