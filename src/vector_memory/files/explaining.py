"""Explains a search of files: how each chunk was measured, and why a file was not found."""

from vector_memory.domain.text import text_in
from vector_memory.errors import ValidationError
from vector_memory.files.folder import MemoryFolder, is_daily
from vector_memory.files.index_file import FileIndex
from vector_memory.files.indexer import NO_TEXT, files_of
from vector_memory.files.search import FileHits, FileSearch
from vector_memory.results.rounding import to_score
from vector_memory.search.explaining import EVERYTHING, SHOWN, Trace, compared, measures
from vector_memory.search.retrieval import MAX_DEPTH
from vector_memory.storage.base import Reader

MEASURES = ("score", "cosine", "words", "has", "lacks")


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
        shown = min(self._limit + SHOWN, len(found.hits))
        told = {}
        if path is not None:
            told = {"file": {"path": self._folder.shown(path), **self._why(reader, found, path)}}
        return {
            "compared": compared(found.question, late=False),
            "queryWords": list(found.question.terms or ()),
            "candidatesCompared": len(found.hits),
            "candidates": [self._candidate(found, place) for place in range(shown)],
            **told,
        }

    def _candidate(self, found: FileHits, place: int) -> Trace:
        """Return how the chunk in a place of the ranking was measured."""
        chunk = found.hits[place]
        measured = measures(found.question, chunk.hit, "", chunk.text)
        return {
            "rank": place + 1,
            "path": self._folder.shown(chunk.path),
            "startLine": chunk.start_line,
            "endLine": chunk.end_line,
            **{name: measured[name] for name in MEASURES},
            "fate": "in this answer" if place < self._limit else "behind the limit",
        }

    def _why(self, reader: Reader, found: FileHits, path: str) -> Trace:
        """Say where in the ranking a file is, or why it is not there."""
        place = next((place for place, hit in enumerate(found.hits) if hit.path == path), None)
        if place is None:
            return {"found": False, "why": self._not_ranked(reader, found, path)}
        best = self._candidate(found, place)
        if place < self._limit:
            said = "It is in this answer; if the answer does not show it, it did not fit."
        else:
            last = to_score(found.hits[self._limit - 1].hit.score)
            said = (
                f"It ranks {place + 1} with a score of {best['score']}, behind the limit; the last result has {last}."
            )
        return {"found": place < self._limit, "why": said, "best": best}

    def _not_ranked(self, reader: Reader, found: FileHits, path: str) -> str:
        """Say why no chunk of a file is in the ranking."""
        if self._search.daily not in (None, is_daily(path)):
            return "It is outside the filters: source."
        scope = files_of(path=path)
        file = next(iter(reader.memories(reader.ids(scope)).values()), None)
        if file is None:
            return self._not_indexed(path)
        return not_compared(found, unembedded=bool(reader.count(scope, without_vectors=True)))

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


def not_compared(found: FileHits, *, unembedded: bool) -> str:
    """Say why no chunk of an indexed file is in the ranking."""
    if len(found.hits) >= MAX_DEPTH:
        return f"At least {MAX_DEPTH:,} others come before it."
    if found.question.vector is None:
        return "It has none of the query's words, and meaning was not compared."
    by_meaning_only = found.question.terms is None
    if unembedded:
        lacks = "Its" if by_meaning_only else "It has none of the query's words, and its"
        return f"{lacks} vectors are still missing: repeat the call in a moment."
    few = "" if by_meaning_only else "few or none of the query's words, and "
    return f"It has {few}no cosine above 0."
