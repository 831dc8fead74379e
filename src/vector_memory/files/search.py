"""Finds chunks by meaning and words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from vector_memory.domain import Fingerprint, SearchMode
from vector_memory.embedding import EmbeddingModel, Vectors
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.files.ranking import WEIGHTS, rank
from vector_memory.search.confidence import CONFIDENT
from vector_memory.storage.sqlite import file_index, file_search
from vector_memory.storage.sqlite.database import Connection
from vector_memory.storage.sqlite.file_index import Counts, FileIndex
from vector_memory.storage.sqlite.file_search import StoredChunk

LOADING_SECONDS = 1.0
"""A search waits so long for a model that is being loaded, and then answers by words."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for. `daily`: only in daily logs, or only in other files; None: in all.

    `vector` None: compared by words only, and `problem` says why, unless that was asked for. `fingerprint`: what made
    the vector.
    """

    query: str
    daily: bool | None
    vector: Vectors | None = None
    fingerprint: Fingerprint | None = None
    problem: str | None = None


class Hit(NamedTuple):
    """A chunk that was found."""

    chunk: StoredChunk
    score: float


class Found(NamedTuple):
    """What was found, best first. `nearest`: the cosine of the best passage; None: nothing was compared by meaning.

    `comparable`: the index has vectors of the model. `counts`: what it held then.
    """

    hits: list[Hit]
    nearest: float | None
    comparable: bool
    counts: Counts


def prepare(query: str, model: EmbeddingModel, mode: SearchMode, *, daily: bool | None) -> Question:
    """Make a question of a query; without a model, or while it is still being loaded, one by words."""
    if mode is SearchMode.KEYWORD:
        return Question(query, daily)
    try:
        if not model.wait_for_loading(LOADING_SECONDS):
            return Question(query, daily, problem="the model is still loading; repeat the call in a moment.")
        return Question(query, daily, model.embed_query(query), model.fingerprint)
    except EmbeddingUnavailableError as error:
        return Question(query, daily, problem=str(error))


def find(index: FileIndex, question: Question, mode: SearchMode, limit: int) -> Found:
    """Return the best chunks: those that a scan of all chunks would give."""
    with index.read() as connection:
        comparable = has_comparable_vectors(index, connection, question)
        vector = question.vector if comparable else None
        weights = WEIGHTS[SearchMode.KEYWORD if vector is None else mode]
        near = [] if vector is None else file_search.nearest(connection, vector, daily=question.daily)
        words = file_search.word_scores(connection, question.query, daily=question.daily) if weights.words else {}

        def cosines(chunk_ids: Sequence[int]) -> dict[int, float]:
            return {} if vector is None else file_search.cosines(connection, vector, chunk_ids)

        ranked = rank(near, words, weights, limit, cosines)
        chunks = file_search.chunks_with(connection, [hit.chunk_id for hit in ranked])
        counts = file_index.counts(connection)
    hits = [Hit(chunk, hit.score) for chunk, hit in zip(chunks, ranked, strict=True)]
    return Found(hits, near[0][1] if near else None, comparable, counts)


def has_comparable_vectors(index: FileIndex, connection: Connection, question: Question) -> bool:
    """Whether the index has vectors that the question's can be compared with."""
    return index.vectors_usable and file_index.fingerprint_of(connection) == question.fingerprint


def notes(question: Question, found: Found, *, vectors_usable: bool, followed: bool, failed: bool) -> Iterator[str]:
    """Say what an answer is not: compared by meaning, about all files, or close to the query."""
    if not vectors_usable:
        yield "Found by words only: sqlite-vec cannot be loaded."
    elif question.problem:
        yield f"Found by words only: {question.problem}"
    elif question.vector is not None and not found.comparable and found.counts.unembedded < found.counts.chunks:
        yield "Found by words only: the index has vectors of another model, which must be recomputed."
    elif found.counts.unembedded:
        yield (
            f"{found.counts.unembedded:,} of {found.counts.chunks:,} chunks have no vectors yet and can be found by "
            "words only."
        )
    if failed:
        yield "Changed files could not be indexed (see the server's log). The search used the existing index."
    elif not followed:
        yield "Files are still being indexed: repeat the call in a moment."
    if not found.hits:
        yield "No results."
    elif found.nearest is not None and found.nearest < CONFIDENT and not found.counts.unembedded:
        yield (
            "No close match in meaning: unless you are looking for one of these words, the files seem to have nothing "
            "on the topic."
        )
