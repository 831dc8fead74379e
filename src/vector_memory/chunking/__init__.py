"""Splits documents into chunks and chunks into passages, and counts tokens."""

from vector_memory.chunking.front_matter import read_front_matter
from vector_memory.chunking.markdown import MAX_CHUNKS, chunk_document
from vector_memory.chunking.passages import cut_passages, header
from vector_memory.chunking.structure import headings, nesting_deeply, title_of, without_attributes
from vector_memory.chunking.tokens import TokenCounter, WordPieceCounter, find_token_counter

__all__ = [
    "MAX_CHUNKS",
    "TokenCounter",
    "WordPieceCounter",
    "chunk_document",
    "cut_passages",
    "find_token_counter",
    "header",
    "headings",
    "nesting_deeply",
    "read_front_matter",
    "title_of",
    "without_attributes",
]
