"""Turns texts into vectors: one interface, several engines, and a model loaded on demand."""

from vector_memory.embedding.embedder import Embedder, Vectors
from vector_memory.embedding.model import EmbeddingModel, load_embedder

__all__ = ["Embedder", "EmbeddingModel", "Vectors", "load_embedder"]
