"""Where in an answer each unit of a ranking is: a result is a chunk or memory, a section, or a whole document."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from vector_memory.domain import TRAITS, Page, Scope
from vector_memory.search.confidence import judged
from vector_memory.search.fusion import Hit, best_of_each_memory
from vector_memory.search.medium import CHUNKS_PER_SECTION, rank_sections, sections_of
from vector_memory.search.question import Question
from vector_memory.search.relevance import arranged
from vector_memory.search.retrieval import Retrieval

Grain = Literal["chunk", "section", "document"]
"""The size of a result."""


class Ranking(NamedTuple):
    """All units of a scope that were compared, best first, and the results that they belong to.

    `places`: of each unit's result among all results; None: in none, for the reason in `left_out`. `scores`: of the
    results. `shown`: the places on the page. `question`: as it was compared.
    """

    hits: Sequence[Hit]
    places: Sequence[int | None]
    left_out: Sequence[str]
    scores: Sequence[float]
    shown: range
    question: Question

    def fate(self, index: int) -> str:
        """Return what became of a unit."""
        place = self.places[index]
        if place is None:
            return self.left_out[index]
        if place in self.shown:
            return "on this page"
        return "on an earlier page" if place < self.shown.start else "on a later page"

    def nearness(self, index: int) -> tuple[bool, bool, int]:
        """Return a key that sorts units: on the page, in another result, in none."""
        place = self.places[index]
        return place is None, place not in self.shown, index if place is None else place

    def last_score(self) -> float | None:
        """Return the score of the page's last result; None if it has none."""
        on_page = self.scores[self.shown.start : self.shown.stop]
        return on_page[-1] if on_page else None


def ranking_of(retrieval: Retrieval, scope: Scope, page: Page, grain: Grain, shown: range | None) -> Ranking:
    """Rank all units of a scope, and find their places among results of a size. `shown`: None: those of the page.

    Raises ValidationError.
    """
    found = retrieval.everything(scope)
    hits = judged(found, retrieval.question)
    if scope.kind is not None and not TRAITS[scope.kind].chunked:
        grain = "chunk"
    places, scores, on_page = PLACES[grain](retrieval, hits, page)
    first = page.limit * CHUNKS_PER_SECTION
    left_out = [
        f"sections are made of the best {first} chunks"
        if retrieval.is_similar_enough(hit)
        else f"cut: similarity below VECTOR_MEMORY_SIMILARITY_THRESHOLD ({retrieval.threshold:g})"
        for hit in hits
    ]
    shown = on_page if shown is None else shown
    return Ranking(hits, places, left_out, scores, shown, replace(retrieval.question, weight=found.weight))


Places = tuple[list[int | None], list[float], range]
"""The place of each unit, the scores of the results, and the places on the page."""


def of_units(retrieval: Retrieval, hits: Sequence[Hit], page: Page) -> Places:
    """Return the places and scores of results that are units."""
    enough, shown, _ = arranged([hit for hit in hits if retrieval.is_similar_enough(hit)], page)
    place_of = {hit.id: place for place, hit in enumerate(enough)}
    return [place_of.get(hit.id) for hit in hits], [hit.score for hit in enough], shown


def of_documents(retrieval: Retrieval, hits: Sequence[Hit], page: Page) -> Places:
    """Return the places and scores of the documents that units belong to."""
    enough = [document for document in best_of_each_memory(hits) if retrieval.is_similar_enough(document)]
    documents, shown, _ = arranged(enough, page)
    place_of = {document.memory_id: place for place, document in enumerate(documents)}
    return [place_of.get(hit.memory_id) for hit in hits], [document.score for document in documents], shown


def of_sections(retrieval: Retrieval, hits: Sequence[Hit], page: Page) -> Places:
    """Return the places and scores of the sections that units belong to; only the best units make sections."""
    enough = [hit for hit in hits if retrieval.is_similar_enough(hit)][: page.limit * CHUNKS_PER_SECTION]
    outlines = retrieval.reader.outlines(sorted({hit.memory_id for hit in enough}))
    sections, shown, _ = arranged(rank_sections(sections_of(outlines), enough), page)
    place_of = {hit.id: place for place, section in enumerate(sections) for hit in section.hits}
    return [place_of.get(hit.id) for hit in hits], [section.score for section in sections], shown


PLACES = {"chunk": of_units, "document": of_documents, "section": of_sections}
