"""Indexing a folder of Markdown files, step by step."""

import threading
from pathlib import Path

from vector_memory.embedding import EmbeddingModel
from vector_memory.files.folder import MemoryFolder
from vector_memory.files.index_file import IndexFile
from vector_memory.files.indexer import FolderIndexer
from vector_memory.indexing.indexer import Indexer
from vector_memory.settings import Settings


class Steps:
    """The two steps of indexing, one at a time and in this thread."""

    def __init__(self, folder: Path, index: IndexFile, model: EmbeddingModel, seconds_to_embed: float = 60) -> None:
        indexer = Indexer(model, Settings(embedding_model="toy"))
        self._index = index
        self._steps = FolderIndexer(MemoryFolder(folder), indexer, threading.Event(), seconds_to_embed)

    def words(self) -> None:
        """Index the words of changed files."""
        self._index.use(self._steps.update_files)

    def vectors(self) -> bool:
        """Compute missing vectors; False: some are still missing."""
        return self._index.use(lambda index: self._steps.add_missing_vectors(index, lambda: False))

    def all(self) -> None:
        """Do both."""
        self.words()
        assert self.vectors()
