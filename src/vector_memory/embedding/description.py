"""What an engine must know about a model besides its weights: prefixes, input size, and calibration."""

import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from vector_memory.domain import MatchLevel
from vector_memory.domain.user_files import read_file
from vector_memory.errors import EmbeddingUnavailableError

INSTEAD_OF_TOKENS = 0.1
"""The mean difference between late score and cosine: the estimate where tokens were not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The evidence at which a text probably answers a question, or is at least related to it.

    The evidence is the cosine of the best passage, of which the late score replaces the share `late`, plus `words`
    times the share of the question's words that the text has, weighted by rarity. It does not depend on other texts.
    `strong`: from this evidence on, a text probably answers; below `related`, hardly any does; None: a low cosine says
    nothing. `by_words`: the share of the words that is enough alone. `weight`: factor of the cosine's weight in a
    score, by how much of the question the model can read; 0: only words are compared. docs/lab/retrieval.md explains
    the constants.

    `answers`: what the evidence of the best passage plus `farthest` times the nearness of the question's farthest words
    must reach (`search.gate`); None: unknown.

    `same_subject`: from this evidence on, two texts are on the same subject (`writing.links`); None: cosines do not
    tell. `shared_words`, `change`: what common words, and words of change in the newer text, add to their cosine.
    """

    strong: float
    related: float | None = None
    late: float = 0.0
    words: float = 0.0
    by_words: float = 1.0
    weight: float = 1.0
    answers: float | None = None
    farthest: float = 0.0
    same_subject: float | None = None
    shared_words: float = 0.0
    change: float = 0.0

    def level(self, cosine: float, covered: float = 0.0, late: float | None = None) -> MatchLevel:
        """Return a text's match level. `covered`: its share of the words. `late`: None: not compared."""
        evidence = self.evidence(cosine, late) + self.words * covered
        if covered >= self.by_words or evidence >= self.strong:
            return "strong"
        return "related" if self.related is None or evidence >= self.related else "weak"

    def evidence(self, cosine: float, late: float | None) -> float:
        """Return a text's evidence without its words."""
        return (1 - self.late) * cosine + self.late * (cosine + INSTEAD_OF_TOKENS if late is None else late)

    def are_strong(self, cosine: Any, covered: Any) -> Any:
        """Return for each text whether its level is `strong`; tokens were not compared."""
        evidence = cosine + self.late * INSTEAD_OF_TOKENS + self.words * covered
        return (covered >= self.by_words) | (evidence >= self.strong)

    @property
    def tells_weak(self) -> bool:
        """Whether low cosines mean that a text is unrelated: not in languages that the model does not know."""
        return self.related is not None


UNKNOWN = Calibration(strong=0.42, words=0.84)
"""For models without a calibration: a strong match needs few of the words or a low cosine."""

MOST_WORDS = 0.35
"""The share of a question's words that is enough in a language that the model does not know."""

FOREIGN = Calibration(strong=math.inf, by_words=MOST_WORDS)
"""For questions in a language that the model does not know, in letters that it knows."""

UNREADABLE = replace(FOREIGN, weight=0.0)
"""For questions that the model cannot read: their vectors mean nothing, so only words are compared."""


DESCRIPTION_FILE = "vector-memory.json"
MAX_BYTES = 100_000
MAX_NAME = 100
MAX_PREFIX = 1_000
MAX_TOKENS = 8_192
LATIN = ("LATIN",)
LONGEST_TOKEN = 64
"""Letters. No vocabulary has a longer word, so only shorter ones are cached."""
WORD = re.compile(r"\b[^\W\d_][^\W\d_A-Z]*\b")
"""A word, not an identifier: `What`, but not `busy_timeout`, `OAuth2` or `JWT`."""

SHORT = 3
"""Letters. Nearly every shorter word is in any vocabulary: `de`, `la` and `der` are in an English model's."""

LAST_ENGLISH = "z"
FOREIGN_WEIGHT = 0.5
"""Factor of the cosine's weight. Without it, short English notes rank above one that has a Polish question verbatim."""

LEAST_READABLE = 0.5
"""The share of a question's letters that the model must read; with less, hardly anything is left to compare."""

FEWEST_WORDS = 2
"""Number of words that show a question's language. A single word in several pieces may be a name or a rare word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A model. `pooling`: a text's vector is the mean of the states of its tokens, or the state of the first one (cls).

    The prefixes are put before each text. `tokens`: the maximum number of tokens read, `passage_tokens`: the length of
    a passage; both without the two special tokens. `languages`: codes, for people. `scripts`: Unicode names of the
    scripts it knows; none: all. `whole_words`: the minimum share of a question's words that are single tokens in a
    language it knows; 0: not considered. `short_words`: the words of up to three letters that may count among these;
    none: any. `late_interaction`: comparing the states of single tokens improves the ranking. `confidence`: None if not
    measured. `foreign`: the same for questions in a language it does not know; None: only their words count.
    """

    name: str
    pooling: Literal["mean", "cls"] = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""
    tokens: int = 510
    passage_tokens: int = 126
    languages: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    whole_words: float = 0.0
    short_words: tuple[str, ...] = ()
    late_interaction: bool = False
    confidence: Calibration | None = None
    foreign: Calibration | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if a field is out of range."""
        if not 1 <= len(self.name) <= MAX_NAME or not self.name.isprintable() or "@" in self.name:
            raise ValueError(f"name must have 1 to {MAX_NAME} printable characters other than @")
        if max(len(self.query_prefix), len(self.passage_prefix)) > MAX_PREFIX:
            raise ValueError(f"a prefix must have at most {MAX_PREFIX:,} characters")
        if not 1 <= self.passage_tokens <= self.tokens <= MAX_TOKENS:
            raise ValueError(f"passage_tokens must be from 1 to tokens, and tokens at most {MAX_TOKENS:,}")
        if not 0 <= self.whole_words <= 1:
            raise ValueError("whole_words must be from 0 to 1")
        for name, figures in (("confidence", self.confidence), ("foreign", self.foreign)):
            if figures and not all(math.isfinite(each) for each in astuple(figures) if each is not None):
                raise ValueError(f"the figures of {name} must be finite")

    def calibration_for(self, question: str, count_tokens: Callable[[str], int]) -> Calibration:
        """Return the calibration for a question: in a language that the model does not know, cosines mean less.

        `count_tokens`: counts a word's tokens.
        """
        readable = self._known_letters(question)
        if readable < LEAST_READABLE:
            return UNREADABLE
        known = self._knows_words(question, count_tokens)
        figures = (self.confidence or UNKNOWN) if known else (self.foreign or FOREIGN)
        # In English letters only, the unknown words may be names.
        is_foreign = not known and any(letter > LAST_ENGLISH for letter in question if self._is_read(letter))
        weight = readable * (FOREIGN_WEIGHT if is_foreign else 1)
        return figures if weight == 1 else replace(figures, weight=weight)

    def _known_letters(self, text: str) -> float:
        """Return the share of the letters in scripts that the model knows; 1 without letters."""
        if text.isascii() and "LATIN" in self.scripts:
            return 1.0
        letters = [character for character in text if character.isalpha()] if self.scripts else []
        known = sum(map(self._is_read, letters))
        return known / len(letters) if letters else 1.0

    def _is_read(self, letter: str) -> bool:
        return letter.isalpha() and unicodedata.name(letter, "").startswith(self.scripts)

    def _knows_words(self, text: str, count_tokens: Callable[[str], int]) -> bool:
        """Whether enough words are in the model's vocabulary; words of other languages are cut into pieces."""
        words = WORD.findall(unicodedata.normalize("NFC", text)) if self.whole_words else []

        def is_known(word: str) -> bool:
            if len(word) <= SHORT and self.short_words:
                return word.lower() in self.short_words
            return len(word) <= LONGEST_TOKEN and count_tokens(word) == 1

        # Counts one extra known word: one of two words may be a name.
        return len(words) < FEWEST_WORDS or 1 + sum(map(is_known, words)) >= self.whole_words * (1 + len(words))


def read_description(folder: Path) -> Description:
    """Read the description in a model's folder. Raises EmbeddingUnavailableError if it is missing or invalid."""
    file = folder / DESCRIPTION_FILE
    if not file.is_file():
        raise EmbeddingUnavailableError(
            f"The model's folder has no {DESCRIPTION_FILE}: write one with its name, pooling and prefixes."
        )
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - only needed for models of the user's own

    if file.stat().st_size > MAX_BYTES:
        raise EmbeddingUnavailableError(f"{DESCRIPTION_FILE} is longer than {MAX_BYTES:,} bytes: shorten it.")
    try:
        return TypeAdapter(Description).validate_json(read_file(file))
    except OSError as error:
        raise EmbeddingUnavailableError(f"{DESCRIPTION_FILE} in the model's folder cannot be read.") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise EmbeddingUnavailableError(
            f"{DESCRIPTION_FILE} in the model's folder is not valid: {place + ': ' if place else ''}{first['msg']}."
        ) from None
