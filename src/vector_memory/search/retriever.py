"""From a query to the pieces that match best: by meaning, by words, or by both."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope, SearchMode
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.search.fusion import Found, Hit, Horizon, Match, Ranked, best_of_each_memory, from_one, fuse, shown
from vector_memory.search.index.loader import PassageIndex
from vector_memory.search.index.scan import Scan
from vector_memory.search.neighbours import NearestNeighbours, table_of
from vector_memory.search.words import WordRanking
from vector_memory.settings import Settings
from vector_memory.storage.sqlite.database import Connection, Database
from vector_memory.storage.sqlite.terms import query_terms
from vector_memory.storage.sqlite.vectors import require_same_fingerprint
from vector_memory.validation import MAX_QUERY, check_text

DEPTH = 50
"""So many of the best pieces of each list are looked at first, which settles ten results as a rule."""

COUNTED = 100
"""Pieces near a question in other scopes are counted up to so many."""

GROWTH = 4

MAX_DEPTH = DEPTH * GROWTH**4
"""Lists that are so long become no longer: then a search gives up, and says so."""

LOADING_SECONDS = 1.0
"""A search waits so long for a model that is being loaded, and then answers by words."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query, ready to be compared. `vector` is None in a search by words, `terms` is None in one by meaning.

    `problem`: why it is not compared by meaning though it was meant to be.
    """

    vector: NDArray[np.float32] | None
    terms: Sequence[str] | None
    problem: str | None = None


class Retriever:
    """Finds pieces; which are the same, in the same order, as if everything in the scope had been compared.

    `threshold`: results that are less similar are dropped; None: none are.
    """

    def __init__(self, database: Database, model: EmbeddingModel, index: PassageIndex, settings: Settings) -> None:
        self._database = database
        self._model = model
        self._mode = settings.search_mode
        self.threshold = settings.similarity_threshold if settings.use_threshold_filtering else None
        self._index = index
        self._uses_index = settings.use_iterative_fetching
        self._neighbours = NearestNeighbours(settings)

    def prepare(self, query: str, mode: SearchMode | None = None) -> Question:
        """Make a question of a query; the mode is otherwise that of the settings.

        Without a model it is answered by words, unless only meaning was asked for. Raises ValidationError,
        EmbeddingUnavailableError.
        """
        mode = mode or self._mode
        check_text("query", query, MAX_QUERY)
        terms = None if mode is SearchMode.VECTOR else query_terms(query)
        if mode is SearchMode.KEYWORD:
            return Question(None, terms)
        try:
            return Question(self._embed(query, patient=mode is SearchMode.VECTOR), terms)
        except EmbeddingUnavailableError as error:
            if mode is SearchMode.VECTOR:
                raise
            return Question(None, terms, f"Found by words only. {error}")

    def find(
        self, connection: Connection, question: Question, scope: Scope, count: int, *, memories: bool = False
    ) -> Found:
        """Find the `count` best pieces of the scope, or with `memories` the whole memories that have the best pieces.

        Raises ValidationError for a scope that is not of one kind, EmbeddingUnavailableError if the file's model has
        changed since the question was prepared.
        """
        vector = question.vector
        if vector is not None:
            require_same_fingerprint(connection, self._model.fingerprint)
        view = self._index.view(connection) if self._uses_index else None
        if view is None:
            found = self._from_tables(connection, question, scope, count, memories=memories)
        else:
            scan = Scan(connection, view, scope, question.terms, depth=max(DEPTH, count), memories=memories)
            found = scan.find(table_of(scope), vector, count)
        return found._replace(hits=[hit for hit in found.hits if self._is_similar_enough(hit)])

    def _from_tables(
        self, connection: Connection, question: Question, scope: Scope, count: int, *, memories: bool
    ) -> Found:
        vector = question.vector
        words = None if question.terms is None else WordRanking(connection, scope, question.terms)
        depth = max(DEPTH, count)
        while True:
            near = None if vector is None else self._neighbours.find(connection, vector, scope, depth)
            worded = None if words is None else words.find(depth)
            if vector is not None and near is not None and words is not None and worded is not None:
                near_only, worded_only = only_in(near, worded), only_in(worded, near)
                near = replace(near, others=self._neighbours.cosines(connection, vector, scope, worded_only))
                worded = replace(worded, others=words.scores(near_only))
            hits, horizon = merged(near, worded)
            partial = near is not None and near.partial
            settled = [hit for hit in hits if partial or horizon is None or horizon.is_behind(hit.score, hit.id)]
            found = best_of_each_memory(settled) if memories else settled
            nearest = shown(near.matches[0].score) if near and near.matches else None
            if horizon is None or partial or len(found) >= count:
                return Found(found[:count], nearest, partial)
            if depth >= MAX_DEPTH:
                return Found((best_of_each_memory(hits) if memories else hits)[:count], nearest, partial=True)
            depth *= GROWTH

    def count_near(self, connection: Connection, question: Question, scope: Scope, similarity: float) -> int:
        """Return how many pieces of the scope are at least so similar to the question, at most 100."""
        if question.vector is None:
            return 0
        found = self.find(connection, Question(question.vector, None), scope, COUNTED)
        return sum(hit.score >= similarity for hit in found.hits)

    def _embed(self, query: str, *, patient: bool) -> NDArray[np.float32]:
        if not patient and not self._model.wait_for_loading(LOADING_SECONDS):
            raise EmbeddingUnavailableError("The embedding model is still loading: repeat the call in a moment.")
        vector = self._model.embed_query(query)
        with self._database.read() as connection:
            require_same_fingerprint(connection, self._model.fingerprint)
        return vector

    def _is_similar_enough(self, hit: Hit) -> bool:
        return self.threshold is None or hit.similarity is None or hit.similarity >= self.threshold


def merged(near: Ranked | None, worded: Ranked | None) -> tuple[list[Hit], Horizon | None]:
    """Return the pieces of the lists there are, best first, and what none of the other pieces comes before."""
    if worded is None:
        return from_one(near or Ranked(), "vector")
    if near is None:
        return from_one(worded, "keyword")
    return fuse(near, worded)


def only_in(ranked: Ranked, other: Ranked) -> list[Match]:
    """Return the matches of a list that another list has not found."""
    known = {match.id for match in other.matches}
    return [match for match in ranked.matches if match.id not in known]
