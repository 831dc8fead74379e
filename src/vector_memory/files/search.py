"""Searches the chunks of files by meaning and words."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

from vector_memory.answers.budget import ResponseBudget
from vector_memory.domain import EVERYTHING, Chunk, Fingerprint, SearchMode
from vector_memory.domain.text import counted, text_in
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError, ValidationError
from vector_memory.files.folder import MemoryFolder, is_daily
from vector_memory.files.index_file import NO_TEXT, FileIndex, file_scope
from vector_memory.search.explain import SHOWN, RankedUnits, Trace, compared, not_compared
from vector_memory.search.judge import CANDIDATES, level_of_each
from vector_memory.search.messages import NO_CLOSE_MATCH, read_as
from vector_memory.search.question import Question, prepare
from vector_memory.search.rank import Hit
from vector_memory.search.retrieval import MAX_DEPTH
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
    """The hits, best first.

    `question`: as it was compared, perhaps by words only. `is_close`: whether a hit is on the topic; None if meaning
    was not compared. `partial`: not every chunk that could be as good was compared. `files`: their number, and how many
    are `unembedded`. `is_outdated`: their vectors are from another model.
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
        """Return the best chunks, as a scan of all chunks would."""
        scope, question = file_scope(daily=self.daily), self.question
        is_outdated = question.vector is not None and reader.vectors.fingerprint() not in (None, self._fingerprint)
        if is_outdated:
            question = self._words.by_words(ANOTHER_MODEL)
        retrieval = index.retriever.within(reader, question, scope)
        found = retrieval.find(max(limit, CANDIDATES))  # so that the limit does not change the best match
        question = replace(retrieval.question, weight=found.weight)
        levels = level_of_each(found, question) if question.vector is not None or question.is_reference else []
        judged = [hit._replace(match=level) for hit, level in zip_longest(found.hits, levels)]
        hits = file_hits(reader, [hit for hit in judged if hit.score > 0][:limit])
        close = "strong" in levels if levels else None
        missing = reader.memories.count(scope, without_vectors=True)
        return FileHits(question, hits, close, found.partial, reader.memories.count(scope), missing, is_outdated)


def file_hits(reader: Reader, hits: Sequence[Hit]) -> list[FileHit]:
    """Return the chunks of hits with their paths and lines."""
    chunks = reader.chunks.get_all([hit.id for hit in hits])
    files = reader.memories.get_all(sorted({hit.memory_id for hit in hits}))
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


# Explains a search of files: how each chunk was measured, and why a file was not found.

MEASURES = ("score", "cosine", "words", "has", "lacks", "fate")

NOT_CLOSE = "It has no cosine above 0."


class FileExplaining:
    """Explains a search for the `limit` best chunks."""

    def __init__(self, folder: MemoryFolder, search: FileSearch, limit: int) -> None:
        self._folder = folder
        self._search = search
        self._limit = limit

    def path_of(self, explain: str) -> str | None:
        """Return the path inside the folder of the file that a caller asks for, or None. Raises ValidationError."""
        if explain == EVERYTHING:
            return None
        try:
            return self._folder.find(explain)
        except ValidationError:
            raise ValidationError(
                f'explain must be "{EVERYTHING}" or the path of a Markdown file in the memory folder, for example '
                f"{self._folder.name}/MEMORY.md."
            ) from None

    def explain(self, index: FileIndex, reader: Reader, path: str | None) -> Trace:
        """Return the query's words and the best candidates; of a file, if one is named, why it was not found.

        A candidate has its rank, path and lines, score, cosine (None: not compared), share of the words (`words`), the
        words that it has and lacks, and its fate.
        """
        found = self._search.find(index, reader, MAX_DEPTH)
        hits, limit = [chunk.hit for chunk in found.hits], self._limit
        fates = ["in this answer" if place < limit else "behind the limit" for place in range(len(hits))]
        scores = [hit.score for hit in hits]
        ranking = RankedUnits(found.question, hits, range(len(hits)), fates, scores, range(limit))
        trace = {
            "compared": compared(found.question),
            "queryWords": list(found.question.terms or ()),
            "candidatesCompared": len(hits),
            "candidates": [self._candidate(found, ranking, place) for place in range(len(hits))[: limit + SHOWN]],
        }
        if path is not None:
            trace["file"] = {"path": self._folder.shown(path), **self._why(reader, found, ranking, path)}
        return trace

    def _candidate(self, found: FileHits, ranking: RankedUnits, place: int) -> Trace:
        """Return how the chunk at a position in the ranking was measured."""
        chunk = found.hits[place]
        measured = ranking.candidate(place, "", chunk.text)
        return {
            "rank": measured["rank"],
            "path": self._folder.shown(chunk.path),
            "startLine": chunk.start_line,
            "endLine": chunk.end_line,
            **{name: measured[name] for name in MEASURES},
        }

    def _why(self, reader: Reader, found: FileHits, ranking: RankedUnits, path: str) -> Trace:
        """Say where a file is in the ranking, or why it is missing."""
        place = next((place for place, hit in enumerate(found.hits) if hit.path == path), None)
        if place is not None:
            return {**ranking.why(place), "best": self._candidate(found, ranking, place)}
        scope = file_scope(path=path)
        if self._search.daily not in (None, is_daily(path)):
            said = "It is outside the filters: source."
        elif not reader.memories.count(scope):
            said = self._not_indexed(path)
        else:
            missing = reader.memories.count(scope, without_vectors=True)
            lacks = "Its vectors are still missing: repeat the call in a moment." if missing else NOT_CLOSE
            said = not_compared(ranking, lacks)
        return {"found": False, "why": said}

    def _not_indexed(self, path: str) -> str:
        """Say why a file is not in the index."""
        reason = self._folder.why_not_listed(path)
        if reason is not None:
            return reason
        try:
            data, _ = self._folder.read(path)
        except ValidationError:
            return "It is not indexed: it cannot be read."
        try:
            text = text_in(data)
        except ValidationError as error:
            return str(error)
        if not text.strip():
            return NO_TEXT
        return "It is not indexed yet: repeat the call in a moment."


# Reads the lines of a file that fit into an answer.


def fitting_lines(text: str, first: int, count: int, offset: int, budget: ResponseBudget) -> dict[str, Any]:
    """Return which of `count` lines from `first` on fit, without the first `offset` characters of the first one.

    The names are those of FileTextResult. Raises ValidationError if there is no such line or offset.
    """
    every = split_lines(text)
    if first > max(1, len(every)):
        raise ValidationError(f"startLine must be between 1 and {len(every):,}, the number of lines.")
    lines = every[first - 1 : first - 1 + count]
    length = len(lines[0]) if lines else 0
    if offset > length:
        raise ValidationError(f"offset must be at most {length:,}, the length of the line.")
    fitting, facts = budget.cut("".join(lines), offset), {"total_lines": len(every), "start_line": first}
    whole, last = fitting.text.count("\n"), first + len(lines) - 1
    if fitting.end is None:
        return facts | {"content": fitting.text, "end_line": last}
    if not whole:
        return facts | {"content": fitting.text, "end_line": first, "next_line": first, "next_offset": fitting.end}
    end = first + whole - 1
    return facts | {
        "content": "".join(lines[:whole])[offset:],
        "end_line": end,
        "next_line": end + 1 if end < last else None,
    }


def split_lines(text: str) -> list[str]:
    """Return the lines with their line feeds. Only a line feed ends a line, as in editors and in the index."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
