"""Judged sets: texts, questions about them, and which texts answer them."""

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from vector_memory.domain import MemoryKind

WHOLE = "all"
SHORT = 2_000
"""Characters. Where more than half of a set's texts are shorter, they are stored as working memories."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, asked in one scope; `grades`: how well each document answers it, from 1 on."""

    text: str
    scope: str
    grades: dict[str, float]
    name: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Documents by id, the documents of each scope, and questions."""

    name: str
    documents: dict[str, str]
    scopes: dict[str, list[str]]
    questions: Sequence[Question]

    @property
    def kind(self) -> MemoryKind:
        """The kind of memory that such texts are."""
        short = median(map(len, self.documents.values())) < SHORT
        return MemoryKind.WORKING_MEMORY if short else MemoryKind.REPORT


def load(path: Path, sample: int | None, seed: int, split: str | None = None) -> JudgedSet:
    """Read a set, if need be with a random `sample` of its questions, or those of a `split` only.

    The file is gzipped JSON: `{corpus: {id: text}, queries: {id: text}, qrels: {query: {document: grade}}}`, and
    `scopes: {scope: [document]}` with `query_scope: {query: scope}` if a question is asked in a part of the documents.
    It may have `query_type: {query: kind}` and `split: {query: split}`.
    """
    data = json.loads(gzip.decompress(path.read_bytes()))
    documents = {name: text for name, text in data["corpus"].items() if text.strip()}
    scopes = {
        scope: [name for name in names if name in documents]
        for scope, names in data.get("scopes", {WHOLE: list(documents)}).items()
    }
    scope_of, kind_of, split_of = (data.get(key, {}) for key in ("query_scope", "query_type", "split"))
    questions = [
        Question(text, scope_of.get(name, WHOLE), grades, name, kind_of.get(name, ""))
        for name, text in sorted(data["queries"].items())
        if (split is None or split_of[name] == split)
        and (grades := {document: grade for document, grade in data["qrels"].get(name, {}).items() if grade > 0})
    ]
    if sample is not None and sample < len(questions):
        questions = random.Random(seed).sample(questions, sample)  # noqa: S311 - not a secret
    return JudgedSet(path.name.removesuffix(".json.gz"), documents, scopes, questions)
