"""Counts tokens, without using the network."""

import hashlib
import os
import re
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from vector_memory.domain import Span
from vector_memory.domain.user_files import read_file
from vector_memory.errors import EmbeddingUnavailableError

# tiktoken stores a downloaded encoding under the SHA-1 of its URL. If the file's SHA-256 is wrong, it deletes the file
# and downloads it again (tiktoken/load.py, read_file_cached), so it must only ever see the correct file.
CL100K_FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
CL100K_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"

BYTES_PER_TOKEN = 4

# A model reads a very long word (a hash, a blob) as one unknown token, but it costs the reader many tokens.
MAX_BYTES_PER_TOKEN = 16

# Up to 4,096 characters, if possible up to a space between words: every tokenizer starts a token there, so the counts
# add up exactly. Only a longer word is cut elsewhere, which changes its count by about 0.1 %.
SLICE = re.compile(r"(?s:.{1,4096})(?:\Z|(?<=\S)(?= \S))|(?s:.{1,4096})")

# The characters that every tokenizer treats as spaces. Some tokenizers remove other Unicode spaces.
SPACES = re.compile(r"[ \t\r\n]+")

# Encoded data, such as an image in a document. No language has such words, and tokenizers are slow to split them.
DATA = re.compile(r"[A-Za-z0-9+/_=-]{128,}+")

CHARACTERS_OF_DATA, TOKENS_OF_DATA = 4, 3
"""Ratio of tokens to characters of encoded data, measured with the default model."""

MAX_CACHED_WORDS = 100_000
"""Maximum number of words whose token counts are cached: about 10 MB."""


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts the tokens of a text. `name`: the method, `cl100k_base`, `model` or `estimate`."""

    name: str
    count: Callable[[str], int]

    def __call__(self, text: str) -> int:
        """Return the number of tokens in a text."""
        return self.count(text)


class WordPieceCounter:
    """Counts an embedding model's WordPiece tokens word by word: they never cross a space, so counts are cached.

    Thread-safe. `token_spans(text)` returns the spans of the tokens, sorted by their starts.
    """

    def __init__(self, token_spans: Callable[[str], Sequence[Span]]) -> None:
        self._token_spans = token_spans
        self._counts: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Return the number of WordPiece tokens in a text; of encoded data, or if the model fails, an estimate."""
        data = 0
        if DATA.search(text):
            data = sum(map(len, DATA.findall(text))) * TOKENS_OF_DATA // CHARACTERS_OF_DATA
            text = DATA.sub(" ", text)
        words = SPACES.split(text)
        if len(self._counts) > MAX_CACHED_WORDS:
            self._counts = {}
        counts = self._counts  # another thread may replace the cache at any moment
        unknown = [word for word in dict.fromkeys(words) if word not in counts]
        try:
            counts.update(zip(unknown, self._counted(unknown) if unknown else (), strict=True))
        except EmbeddingUnavailableError:
            return data + estimate_tokens(text)
        return data + sum(map(counts.__getitem__, words))

    def _counted(self, words: Sequence[str]) -> Iterable[int]:
        starts = [span.start for span in self._token_spans(" ".join(words))]
        ends = accumulate(len(word) + 1 for word in words)
        passed = [bisect_left(starts, end) for end in ends]
        return (after - before for before, after in pairwise([0, *passed]))


def find_token_counter(word_pieces: Callable[[str], int] | None) -> TokenCounter:
    """Return the best counter that needs no network.

    cl100k_base if tiktoken has its file on disk. Otherwise the embedding model's own tokens, if `word_pieces` counts
    them, but at least one for every 16 bytes of UTF-8. Otherwise an estimate: one for every 4 bytes.
    """
    if has_cl100k():
        return TokenCounter("cl100k_base", in_slices(_load_cl100k()))
    if word_pieces is not None:
        return TokenCounter("model", in_slices(_with_floor(word_pieces)))
    return TokenCounter("estimate", estimate_tokens)


def estimate_tokens(text: str) -> int:
    """Return the number of UTF-8 bytes divided by 4, rounded up."""
    return -(-len(text.encode(errors="surrogatepass")) // BYTES_PER_TOKEN)


def _with_floor(count: Callable[[str], int]) -> Callable[[str], int]:
    floor = MAX_BYTES_PER_TOKEN // BYTES_PER_TOKEN
    return lambda text: max(count(text), estimate_tokens(text) // floor)


def has_cl100k() -> bool:
    """Whether the cl100k_base file is where tiktoken looks for it, with the content that tiktoken expects."""
    folder = cache_folder()
    if folder is None:
        return False
    try:
        return hashlib.sha256(read_file(folder / CL100K_FILE)).hexdigest() == CL100K_SHA256
    except OSError:
        return False


def cache_folder() -> Path | None:
    """Return the folder in which tiktoken keeps its files; None: it keeps none."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if (folder := os.environ.get(variable)) is not None:
            return Path(folder) if folder else None
    return Path(tempfile.gettempdir()) / "data-gym-cache"


def _load_cl100k() -> Callable[[str], int]:
    import tiktoken  # noqa: PLC0415  slow to import, and only used if its file is present

    encoding = tiktoken.get_encoding("cl100k_base")
    # encode_ordinary treats <|endoftext|> and the like as plain text; encode raises.
    return lambda text: len(encoding.encode_ordinary(text))


def in_slices(count: Callable[[str], int]) -> Callable[[str], int]:
    """Return `count` applied to slices: tokenizers need quadratic time or hundreds of megabytes for one very long word.

    tiktoken 0.12 needs minutes for one letter repeated 500,000 times; WordPiece needs 400 MB for 500,000 Chinese
    characters.
    """
    return lambda text: sum(count(match.group()) for match in SLICE.finditer(text))
