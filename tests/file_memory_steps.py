"""Indexing a folder of Markdown files, step by step."""

import threading
from pathlib import Path

from vector_memory.domain import Fingerprint
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.files.folder import MemoryFolder
from vector_memory.files.index_file import FolderIndexer, IndexFile
from vector_memory.files.memory import index_counts
from vector_memory.settings import Settings
from waiting import eventually


def index_of(path: Path, model: EmbeddingModel) -> IndexFile:
    """Return the index in a file."""
    return IndexFile(path, model, Settings(embedding_model="toy"))


class OtherEngine(ToyEngine):
    """An engine of another model."""

    def __init__(self) -> None:
        super().__init__()
        self.fingerprint = Fingerprint("other", 384, "fp32", "toy")


class Steps:
    """The two steps of indexing, one at a time."""

    def __init__(self, folder: Path, index: IndexFile) -> None:
        self._index = index
        self._steps = FolderIndexer(MemoryFolder(folder), threading.Event())

    def words(self) -> None:
        """Index the words of changed files."""
        self._index.use(self._steps.update_files)

    def vectors(self) -> None:
        """Wait until no vectors are missing."""
        eventually(lambda: not self._index.use(index_counts)[1])

    def all(self) -> None:
        """Do both."""
        self.words()
        self.vectors()
