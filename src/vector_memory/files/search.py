"""Searches the chunks of files by meaning and words."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from vector_memory.domain import Chunk, Fingerprint, SearchMode
from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.files.index_file import FileIndex
from vector_memory.files.indexer import file_scope
from vector_memory.search.fusion import Hit
from vector_memory.search.messages import NO_CLOSE_MATCH, read_as
from vector_memory.search.question import Question, prepare
from vector_memory.search.relevance import CANDIDATES, level_of_each
from vector_memory.storage.base import Reader

ANOTHER_MODEL = "The index has vectors of another model, which must be recomputed."


class FileHit(NamedTuple):
    """A chunk that was found, its path, its lines (counted from 1), and how it was measured."""

    path: str
    text: str
    start_line: int
    end_line: int
    hit: Hit


class FileHits(NamedTuple):
    """What was found, best first. `question`: as it was compared, perhaps by words only.

    `is_close`: whether it is on the topic; None if meaning was not compared. `partial`: not every chunk that could be
    as good was compared. `files`: how many there are, and how many of them are `unembedded`. `is_outdated`: their
    vectors are of another model.
    """

    question: Question
    hits: list[FileHit]
    is_close: bool | None
    partial: bool
    files: int
    unembedded: int
    is_outdated: bool


class FileSearch:
    """A search of the files. `daily`: True searches only daily logs, False only other files, None all files.

    Without a model it compares words, even in the mode that compares only meaning.
    """

    def __init__(self, query: str, model: EmbeddingModel, mode: SearchMode, *, daily: bool | None) -> None:
        self._words = prepare(query, model, SearchMode.KEYWORD)
        self.daily = daily
        self._fingerprint: Fingerprint | None = None
        try:
            self.question = replace(prepare(query, model, mode), states=None)
            if self.question.vector is not None:
                self._fingerprint = model.fingerprint
        except EmbeddingUnavailableError as error:
            self.question = self._words.by_words(str(error))

    def find(self, index: FileIndex, reader: Reader, limit: int) -> FileHits:
        """Return the best chunks: the same as a scan of all chunks would return."""
        scope, question = file_scope(daily=self.daily), self.question
        is_outdated = question.vector is not None and reader.fingerprint() not in (None, self._fingerprint)
        if is_outdated:
            question = self._words.by_words(ANOTHER_MODEL)
        retrieval = index.retriever.within(reader, question)
        found = retrieval.find(scope, max(limit, CANDIDATES))  # so that the limit does not change the best match
        question = replace(retrieval.question, weight=found.weight)
        levels = level_of_each(found, question) if question.vector is not None or question.is_reference else []
        judged = [hit._replace(match=level) for hit, level in zip_longest(found.hits, levels)]
        hits = file_hits(reader, [hit for hit in judged if hit.score > 0][:limit])
        close = "strong" in levels if levels else None
        missing = reader.count(scope, without_vectors=True)
        return FileHits(question, hits, close, found.partial, reader.count(scope), missing, is_outdated)


def file_hits(reader: Reader, hits: Sequence[Hit]) -> list[FileHit]:
    """Return the chunks of hits with their paths and lines."""
    chunks = reader.chunks([hit.id for hit in hits])
    files = reader.memories(sorted({hit.memory_id for hit in hits}))
    found = []
    for hit in hits:
        chunk, file = chunks[hit.id].chunk, files[hit.memory_id]
        found.append(FileHit(file.metadata["source"], chunk.text, *lines_of(chunk, file.content), hit))
    return found


def lines_of(chunk: Chunk, text: str) -> tuple[int, int]:
    """Return the first and the last line of a chunk of a text. Only a line feed ends a line, as in editors."""
    first = text.count("\n", 0, chunk.start) + 1
    return first, first + chunk.text.count("\n")


def notes(found: FileHits, *, complete: bool, failed: bool) -> Iterator[str]:
    """Yield the limits of an answer: meaning was not compared, files are missing, or nothing is close to the query."""
    if found.question.problem:
        yield found.question.problem
    elif found.unembedded:
        have = "has" if found.unembedded == 1 else "have"
        yield (
            f"{found.unembedded:,} of {counted(found.files, 'file')} {have} no vectors yet and can be found by words "
            "only."
        )
    if found.question.respelt:
        yield read_as(found.question.respelt)
    if failed:
        yield "Changed files could not be indexed (see the server's log). The search used the existing index."
    elif not complete:
        yield "Files are still being indexed: repeat the call in a moment."
    if found.partial:
        yield "Not all files were compared, and some results may be missing."
    if not found.hits:
        yield "No results."
    elif found.is_close is False and not found.unembedded:
        yield NO_CLOSE_MATCH
