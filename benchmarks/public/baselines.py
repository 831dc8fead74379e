"""What searches are compared with, in the same run: plain ways to rank the same documents."""

import re
from collections.abc import Sequence

import apsw
import numpy as np
from judged import JudgedSet, Question
from rankings import DEPTH

from vector_memory.embedding import Embedder
from vector_memory.settings import Settings
from vector_memory.texts.chunks import chunk_document
from vector_memory.texts.tokens import find_token_counter


class Vectors:
    """Vectors of parts of the documents, each of which counts with its nearest part.

    The model reads the first 256 of its tokens of a part, as in the original server and in Chroma.
    """

    def __init__(self, judged: JudgedSet, embedder: Embedder) -> None:
        self._embedder = embedder
        self._scopes = judged.scopes
        self._vectors = {name: embedder.embed(self.parts(text)) for name, text in judged.documents.items()}

    def parts(self, text: str) -> Sequence[str]:
        """Return what is embedded of a document: all of it."""
        return [text]

    def rank(self, question: Question) -> list[str]:
        """Order the documents by the cosine of their best part."""
        (query,) = self._embedder.embed([question.text])
        names = self._scopes[question.scope]
        best = np.array([(self._vectors[name] @ query).max() for name in names])
        return [names[index] for index in np.argsort(-best, kind="stable")[:DEPTH]]


class OriginalDesign(Vectors):
    """The design of the original server: one vector for each chunk of 450 tokens."""

    def parts(self, text: str) -> Sequence[str]:
        """Return the chunks of a document."""
        settings = Settings()
        count = find_token_counter(lambda part: len(self._embedder.token_spans(part)))
        chunks = chunk_document(text, count, settings.default_chunk_size, settings.default_chunk_overlap)
        return [chunk.text for chunk in chunks]


class Words:
    """BM25 of SQLite's FTS5 over stems (Porter): an index for each scope, and any word of the question counts."""

    def __init__(self, judged: JudgedSet) -> None:
        self._connection = apsw.Connection(":memory:")
        self._names = {scope: f"scope{number}" for number, scope in enumerate(judged.scopes)}
        for scope, table in self._names.items():
            columns = "name unindexed, text, tokenize = 'porter'"
            self._connection.execute(f"create virtual table {table} using fts5({columns})")
            rows = [(name, judged.documents[name]) for name in judged.scopes[scope]]
            self._connection.executemany(f"insert into {table} values (?, ?)", rows)  # noqa: S608 - names are made here

    def rank(self, question: Question) -> list[str]:
        """Order the documents by BM25."""
        table = self._names[question.scope]
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question.text))
        query = f"select name from {table} where {table} match ? order by rank limit {DEPTH}"  # noqa: S608
        return [name for (name,) in self._connection.execute(query, (words,))] if words else []
