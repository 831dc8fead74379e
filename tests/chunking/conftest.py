"""The tokenizer of the default model."""

from collections.abc import Callable

import pytest
from tokenizers import Tokenizer

from vector_memory.domain import Span
from vector_memory.embedding.weights import find_weights


@pytest.fixture(scope="session")
def token_spans() -> Callable[[str], list[Span]]:
    """Where the word pieces of a text stand, for the tokenizer of all-MiniLM-L6-v2."""
    tokenizer = Tokenizer.from_file(str(find_weights(None).file("tokenizer.json")))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: [Span(*offsets) for offsets in tokenizer.encode(text, add_special_tokens=False).offsets]
