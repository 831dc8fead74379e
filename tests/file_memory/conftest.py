"""Folders of Markdown files and memories over them, with the toy engine."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.files import FileMemory
from vector_memory.settings import Settings

Open = Callable[..., FileMemory]


@pytest.fixture(autouse=True)
def no_token_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the toy engine's pieces: loading a table of tokens would take longer than the rest."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "memory"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def index_file(tmp_path: Path) -> Path:
    return tmp_path / "index" / "project.sqlite"


@pytest.fixture
def settings() -> Settings:
    return Settings(embedding_model="toy")


@pytest.fixture
def open_memory(folder: Path, index_file: Path, settings: Settings) -> Iterator[Open]:
    """Open a memory of the folder; nothing is followed before its background work is started."""
    opened: list[FileMemory] = []

    def open_memory(
        model: EmbeddingModel | None = None, not_indexed: Sequence[Path] = (), **changed: object
    ) -> FileMemory:
        model, own = model or EmbeddingModel(ToyEngine), settings.model_copy(update=changed)
        opened.append(FileMemory(folder, own, index_file=index_file, model=model, not_indexed=not_indexed))
        return opened[-1]

    yield open_memory
    for memory in opened:
        memory.close()
