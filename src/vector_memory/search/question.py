"""Turns a query into a question: its words, and its vector unless only words can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vector_memory.domain import SearchMode
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.calibration import UNKNOWN, Calibration
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.search.references import is_reference
from vector_memory.storage.ranking import Vectors
from vector_memory.storage.terms import query_terms
from vector_memory.validation import MAX_QUERY, check_text

LOADING_SECONDS = 1.0
"""Seconds a search waits for a model that is still loading before it answers by words."""

STILL_LOADING = "The embedding model is still loading: repeat the call in a moment."


@dataclass(frozen=True, slots=True)
class Question:
    """A query, ready to be compared. `vector` is None in a search by words, `terms` is None in one by meaning.

    `problem`: why meaning is not compared, although it was requested. `is_reference`: the query has no meaning.
    `calibration`: when an answer to it is close.
    """

    vector: Vectors | None
    terms: Sequence[str] | None
    problem: str | None = None
    is_reference: bool = False
    calibration: Calibration = UNKNOWN

    def by_words(self, problem: str) -> "Question":
        """Return the question without its vector. `problem`: a sentence that gives the reason."""
        return replace(self, vector=None, problem=f"Found by words only. {problem}")


def prepare(query: str, model: EmbeddingModel, mode: SearchMode) -> Question:
    """Turn a query into a question. All families of tools decide here whether meaning is compared.

    Without a model, or while it is loading, only words are compared, unless the mode requires meaning; and so they are
    if the query is only a number, a code or an address.
    Raises ValidationError, EmbeddingUnavailableError.
    """
    check_text("query", query, MAX_QUERY)
    terms = None if mode is SearchMode.VECTOR else query_terms(query)
    if mode is SearchMode.KEYWORD:
        return Question(None, terms)
    if mode is SearchMode.HYBRID and is_reference(query):
        return Question(None, terms, is_reference=True)
    try:
        if mode is SearchMode.HYBRID and not model.wait_for_loading(LOADING_SECONDS):
            return Question(None, terms).by_words(STILL_LOADING)
        return Question(model.embed_query(query), terms, calibration=model.calibration_for(query))
    except EmbeddingUnavailableError as error:
        if mode is SearchMode.VECTOR:
            raise
        return Question(None, terms).by_words(str(error))
