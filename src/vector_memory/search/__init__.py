"""Searching memories: chunks (fine), sections (medium), whole memories (coarse)."""

from vector_memory.search.answer import Search
from vector_memory.search.latency import SearchTimer
from vector_memory.search.retrieval import Retriever

__all__ = ["Retriever", "Search", "SearchTimer"]
