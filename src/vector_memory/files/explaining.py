"""Explains a search of files: how each chunk was measured, and why a file was not found."""

from vector_memory.domain.search_request import EVERYTHING
from vector_memory.domain.text import text_in
from vector_memory.errors import ValidationError
from vector_memory.files.folder import MemoryFolder, is_daily
from vector_memory.files.index_file import FileIndex
from vector_memory.files.indexer import NO_TEXT, file_scope
from vector_memory.files.search import FileHits, FileSearch
from vector_memory.search.explaining import SHOWN, Ranking, Trace, compared, not_compared
from vector_memory.search.retrieval import MAX_DEPTH
from vector_memory.storage.base import Reader

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
        ranking = Ranking(found.question, hits, range(len(hits)), fates, scores, range(limit))
        trace = {
            "compared": compared(found.question),
            "queryWords": list(found.question.terms or ()),
            "candidatesCompared": len(hits),
            "candidates": [self._candidate(found, ranking, place) for place in range(len(hits))[: limit + SHOWN]],
        }
        if path is not None:
            trace["file"] = {"path": self._folder.shown(path), **self._why(reader, found, ranking, path)}
        return trace

    def _candidate(self, found: FileHits, ranking: Ranking, place: int) -> Trace:
        """Return how the chunk in a place of the ranking was measured."""
        chunk = found.hits[place]
        measured = ranking.candidate(place, "", chunk.text)
        return {
            "rank": measured["rank"],
            "path": self._folder.shown(chunk.path),
            "startLine": chunk.start_line,
            "endLine": chunk.end_line,
            **{name: measured[name] for name in MEASURES},
        }

    def _why(self, reader: Reader, found: FileHits, ranking: Ranking, path: str) -> Trace:
        """Say where in the ranking a file is, or why it is not there."""
        place = next((place for place, hit in enumerate(found.hits) if hit.path == path), None)
        if place is not None:
            return {**ranking.why(place), "best": self._candidate(found, ranking, place)}
        scope = file_scope(path=path)
        if self._search.daily not in (None, is_daily(path)):
            said = "It is outside the filters: source."
        elif not reader.count(scope):
            said = self._not_indexed(path)
        else:
            missing = reader.count(scope, without_vectors=True)
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
