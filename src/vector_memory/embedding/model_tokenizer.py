"""Reads texts as a model does: as the numbers of its tokens, after one special token and before another."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Span
from vector_memory.embedding.model_folder import TOKENIZER_FILE, ModelFolder
from vector_memory.errors import EmbeddingUnavailableError

if TYPE_CHECKING:
    from tokenizers import Encoding

SPECIAL_TOKENS = 2
UNKNOWN_TOKENS = ("[UNK]", "<unk>")
UNUSUAL = "\u13a6 \U00010380"
"""Letters that hardly any vocabulary has: a tokenizer without a token for such letters fails on them."""

Tokens = NDArray[np.int64]


class ModelTokenizer:
    """The tokenizer of a model. Its methods raise EmbeddingUnavailableError if it fails on a text."""

    def __init__(self, model: ModelFolder) -> None:
        """Read the model's file. Raises EmbeddingUnavailableError if it cannot be used."""
        from tokenizers import Tokenizer  # noqa: PLC0415 - lazy, as everywhere in this package

        try:
            self._tokenizer = Tokenizer.from_file(str(model.file(TOKENIZER_FILE)))
        except Exception as error:  # the library raises nothing more specific
            raise model.unusable(TOKENIZER_FILE, "is not a tokenizer's file") from error
        self._tokenizer.no_truncation()  # the file may configure truncation and padding, as to 128 tokens
        self._tokenizer.no_padding()
        _encoded(self._tokenizer.encode_batch, UNUSUAL)
        self.special = self._tokenizer.encode("").ids
        if len(self.special) != SPECIAL_TOKENS:
            raise model.unusable(TOKENIZER_FILE, "must put one token before a text and one after it")

    @property
    def last(self) -> int:
        """The highest number that a token can have."""
        return max(*self._tokenizer.get_vocab().values(), *self.special)

    def token(self, number: int) -> str | None:
        """Return the text of a token, as the vocabulary has it; None: there is no such token."""
        return self._tokenizer.id_to_token(number)

    def tokens(self, text: str, longest: int) -> Tokens:
        """Return the first `longest` tokens of a text between the special ones."""
        encoding = _encoded(self._tokenizer.encode_batch_fast, text)
        first, last = self.special
        return np.array([first, *encoding.ids[:longest], last], np.int64)

    def spans(self, text: str) -> list[Span]:
        """Return the spans of the tokens, in characters. A Hangul syllable has 2-3 tokens with the same span."""
        # encode_batch releases the interpreter lock; encode would hold it for 1 s on 500 kB.
        return list(itertools.starmap(Span, _encoded(self._tokenizer.encode_batch, text).offsets))

    def unknown_characters(self, text: str) -> int:
        """Return how many characters the vocabulary has no token for, as those of a script that it does not know."""
        encoding = _encoded(self._tokenizer.encode_batch, text)
        unknown = [self._tokenizer.token_to_id(token) for token in UNKNOWN_TOKENS]
        spans = (span for token, span in zip(encoding.ids, encoding.offsets, strict=True) if token in unknown)
        return sum(end - start for start, end in spans)


def _encoded(encode: Callable[..., list["Encoding"]], text: str) -> "Encoding":
    """Return the tokens of a text without special ones. Raises EmbeddingUnavailableError if the tokenizer fails."""
    try:
        return encode([text], add_special_tokens=False)[0]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # what the library raises when it panics is not an Exception
        raise EmbeddingUnavailableError(
            f"The model's {TOKENIZER_FILE} cannot read every text: download the model again."
        ) from error
