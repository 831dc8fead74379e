"""Reads a set in the form of BEIR (Thakur et al. 2021): SciFact, NFCorpus, CoSQA and many others are published in it.

A folder has `corpus.jsonl` (`_id`, `title`, `text`), `queries.jsonl` (`_id`, `text`), and `qrels/test.tsv` with a line
of heads and the columns query, document and grade.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from judged import WHOLE, JudgedSet, Question


def read(folder: Path) -> JudgedSet:
    """Read a folder; only the questions of its test are asked."""
    documents = {item["_id"]: "\n\n".join(filter(None, (item.get("title"), item["text"]))) for item in lines(folder)}
    texts = {item["_id"]: item["text"] for item in lines(folder, "queries")}
    grades: dict[str, dict[str, float]] = defaultdict(dict)
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        if float(grade) > 0 and document in documents:
            grades[query][document] = float(grade)
    questions = [Question(texts[name], WHOLE, right, name=name) for name, right in grades.items()]
    return JudgedSet(folder.name, documents, {WHOLE: list(documents)}, questions)


def lines(folder: Path, name: str = "corpus") -> list[dict[str, Any]]:
    """Return the objects of a file."""
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
