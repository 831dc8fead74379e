"""Searches the chunks of files by meaning and words."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from vector_memory.domain import Fingerprint, SearchMode
from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.search.fusion import Hit
from vector_memory.search.messages import NO_CLOSE_MATCH
from vector_memory.search.question import Question, prepare
from vector_memory.search.relevance import CANDIDATES, level_of_each
from vector_memory.search.retrieval import best_units
from vector_memory.storage.sqlite.database import Connection
from vector_memory.storage.sqlite.file_contents import FileRevision, contents_of
from vector_memory.storage.sqlite.file_index import FileIndex
from vector_memory.storage.sqlite.file_search import FileCandidates, FoundChunk, chunks_with

ANOTHER_MODEL = "The index has vectors of another model, which must be recomputed."


class FileHit(NamedTuple):
    """A chunk that was found, and how it was measured."""

    chunk: FoundChunk
    hit: Hit


class FileHits(NamedTuple):
    """What was found, best first. `question`: as it was compared, perhaps by words only.

    `is_close`: whether it is on the topic; None if meaning was not compared. `comparable`: the index's vectors are of
    this model. `partial`: not every chunk that could be as good was compared. `counts`: what the index contained then.
    """

    question: Question
    hits: list[FileHit]
    is_close: bool | None
    comparable: bool
    partial: bool
    counts: FileRevision


class FileSearch:
    """A search of the files. `daily`: True searches only daily logs, False only other files, None all files.

    Without a model it compares words, even in the mode that compares only meaning.
    """

    def __init__(self, query: str, model: EmbeddingModel, mode: SearchMode, *, daily: bool | None) -> None:
        self._words = prepare(query, model, SearchMode.KEYWORD)
        self.daily = daily
        self._fingerprint: Fingerprint | None = None
        try:
            self.question = prepare(query, model, mode)
            if self.question.vector is not None:
                self._fingerprint = model.fingerprint
        except EmbeddingUnavailableError as error:
            self.question = self._words.by_words(str(error))

    def find(self, index: FileIndex, connection: Connection, limit: int) -> FileHits:
        """Return the best chunks: the same as a scan of all chunks would return."""
        contents = contents_of(index, connection)
        comparable = index.vectors_usable and contents.fingerprint == self._fingerprint
        question = self.question if comparable or self.question.vector is None else self._words
        source = FileCandidates(connection, contents, daily=self.daily)
        wanted = max(limit, CANDIDATES)  # so that the limit does not change the best match
        found = best_units(source, question, wanted, all_embedded=not contents.revision.unembedded)
        question = replace(question, weight=found.weight)
        levels = level_of_each(found, question) if question.vector is not None or question.is_reference else []
        judged = [hit._replace(match=level) for hit, level in zip_longest(found.hits, levels)]
        hits = [hit for hit in judged if hit.score > 0][:limit]
        chunks = chunks_with(connection, [hit.id for hit in hits])
        best = [FileHit(chunk, hit) for chunk, hit in zip(chunks, hits, strict=True)]
        close = "strong" in levels if levels else None
        return FileHits(question, best, close, comparable, found.partial, contents.revision)


def notes(question: Question, found: FileHits, *, vectors_usable: bool, complete: bool, failed: bool) -> Iterator[str]:
    """Yield the limits of an answer: meaning was not compared, files are missing, or nothing is close to the query."""
    if not vectors_usable:
        yield "Found by words only. sqlite-vec cannot be loaded."
    elif question.problem:
        yield question.problem
    elif question.vector is not None and not found.comparable and found.counts.unembedded < found.counts.chunks:
        yield f"Found by words only. {ANOTHER_MODEL}"
    elif found.counts.unembedded:
        have = "has" if found.counts.unembedded == 1 else "have"
        yield (
            f"{found.counts.unembedded:,} of {counted(found.counts.chunks, 'chunk')} {have} no vectors yet and can be "
            "found by words only."
        )
    if failed:
        yield "Changed files could not be indexed (see the server's log). The search used the existing index."
    elif not complete:
        yield "Files are still being indexed: repeat the call in a moment."
    if found.partial:
        yield "Not all files were compared, and some results may be missing."
    if not found.hits:
        yield "No results."
    elif found.is_close is False and not found.counts.unembedded:
        yield NO_CLOSE_MATCH
