"""Searching memories: chunks (fine), sections (medium), whole memories (coarse)."""

from vector_memory.search.coarse import CoarseSearch
from vector_memory.search.fine import FineSearch
from vector_memory.search.latency import SearchTimer
from vector_memory.search.medium import MediumSearch
from vector_memory.search.retriever import Retriever

__all__ = ["CoarseSearch", "FineSearch", "MediumSearch", "Retriever", "SearchTimer"]
