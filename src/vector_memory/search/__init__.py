"""Finding memories again: chunks (fine), sections (medium), whole memories (coarse)."""

from vector_memory.search.coarse import CoarseSearch
from vector_memory.search.fine import FineSearch
from vector_memory.search.medium import MediumSearch
from vector_memory.search.passage_index import PassageIndex
from vector_memory.search.retrieval import Retriever
from vector_memory.search.timing import SearchTimer

__all__ = ["CoarseSearch", "FineSearch", "MediumSearch", "PassageIndex", "Retriever", "SearchTimer"]
