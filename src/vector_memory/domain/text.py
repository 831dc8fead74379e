"""Texts and parts of them, and the fingerprints of their vectors."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from vector_memory.errors import OtherModelError, ValidationError


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun in the singular or plural; `plural` defaults to the noun with an "s"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def near(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words at a distance of one: a letter more, less or different, or two neighbours swapped."""
    return [one for one in known if _is_near(word, one)]


def _is_near(word: str, other: str) -> bool:
    while word and word[:1] == other[:1]:
        word, other = word[1:], other[1:]
    while word and word[-1:] == other[-1:]:
        word, other = word[:-1], other[:-1]
    return max(len(word), len(other)) <= 1 or (not word[2:] and word == other[::-1])


def without_halves(text: str) -> str:
    """Return a text that UTF-8 can encode: lone surrogates, which JSON may contain, become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def without_nul(text: str) -> str:
    """Return a text that every engine can store: NUL becomes U+FFFD, as in CommonMark."""
    return text.replace("\0", "\ufffd")


def text_in(data: bytes) -> str:
    """Decode a file, without a byte order mark. Raises ValidationError if it is not UTF-8."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:  # UTF-16 without a byte order mark may be valid UTF-8 with many NULs
        raise ValidationError("The file is not text in UTF-8: convert it first.")
    return text


class Span(NamedTuple):
    """A half-open range of character offsets."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Identifies comparable vectors: theirs are equal.

    `model`: the model's name. `dimensions`: the length of a vector. `precision`: the type of the weights, for example
    `fp32`. `engine`: the runtime that computes the vectors, for example `onnxruntime`.
    """

    model: str
    dimensions: int
    precision: str
    engine: str

    def __str__(self) -> str:
        return f"{self.model} ({self.dimensions} x {self.precision}, {self.engine})"

    def require_comparable(self, stored: "Fingerprint | None", dimensions: int) -> None:
        """Raise OtherModelError unless vectors with this fingerprint are comparable with a memory's.

        `stored`: the fingerprint of its vectors; None: it has none yet. `dimensions`: the length the memory was created
        for.
        """
        if stored in (None, self) and dimensions == self.dimensions:
            return
        made = f"were computed with {stored}" if stored else f"have {dimensions} numbers"
        raise OtherModelError(
            f"The stored vectors {made}, but the configured model is {self}: they cannot be compared. Run "
            "`vector-memory reembed` to recompute them with this model, or change VECTOR_MEMORY_EMBEDDING_MODEL back."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of a document. `text` is always `document[start:end]`.

    `headings`: the enclosing headings with their marks, outermost first, such as `("# Title", "## Section")`.
    `level`: depth 1-6 of the innermost heading, 0 without one. `kind`: `section`, `text` or `code_block`.
    `oversized`: longer than the chunk size, because code fences are kept whole or there would be too many chunks.
    """

    index: int
    text: str
    start: int
    end: int
    kind: str
    token_count: int
    headings: tuple[str, ...]
    level: int
    contains_code: bool
    contains_table: bool
    oversized: bool

    def position(self, sibling_count: int) -> float:
        """Return the position among the document's chunks: 0.0 for the first, 1.0 for the last."""
        return self.index / (sibling_count - 1) if sibling_count > 1 else 0.0

    @property
    def header_path(self) -> str:
        """The headings joined with ` > `, such as `# Title > ## Section`."""
        return " > ".join(self.headings)
