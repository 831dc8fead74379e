"""Stands in for the library of this name: a model that can be caught at work.

It takes an hour to embed a text with the word "slowly", and as many seconds to load as SLOW_LOADING says. The files
`embedding` and `loading` in the current folder say that it has begun.
"""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

from tokenizers import Tokenizer, models, pre_tokenizers

from vector_memory.embedding.embedder import Vectors
from vector_memory.embedding.toy_engine import ToyEngine


class SentenceTransformer:
    """What the engine uses of the original."""

    max_seq_length = 128

    def __init__(self, _name: str, *, local_files_only: bool) -> None:
        assert local_files_only
        if "SLOW_LOADING" in os.environ:
            Path("loading").touch()
            time.sleep(float(os.environ["SLOW_LOADING"]))
        backend = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))  # noqa: S106 - not a password
        backend.pre_tokenizer = pre_tokenizers.Whitespace()
        self.tokenizer = SimpleNamespace(backend_tokenizer=backend)
        self._toy = ToyEngine(384)

    def parameters(self) -> Iterator[SimpleNamespace]:
        """Give something that has a type of numbers."""
        yield SimpleNamespace(dtype="torch.float32")

    def encode(self, texts: str | Sequence[str], **_options: object) -> Vectors:
        """Embed, slowly if told so."""
        several = [texts] if isinstance(texts, str) else texts
        if any("slowly" in text for text in several):
            Path("embedding").touch()
            time.sleep(3600)
        vectors = self._toy.embed(several)
        return vectors[0] if isinstance(texts, str) else vectors
