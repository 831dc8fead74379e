"""What a model's cosines say about whether a scope has anything on the topic of a question."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The cosine from which on the best passage of a scope is on the topic of a question.

    `base`: that of a scope of one unit, if it has none of the question's words. `words`: by how much less it is if it
    has all. `growth`: by how much more for each e-fold of units, up to `most_units`: of more texts, one is nearer by
    chance. `by_meaning`: the one where no words are compared. `by_words`: the share of the words from which on the
    cosine does not matter. How they were found: docs/retrieval.md.
    """

    base: float
    words: float
    growth: float
    most_units: int
    by_meaning: float
    by_words: float = 1.0

    def is_close(self, cosine: float, covered: float, units: int) -> bool:
        """Return whether the best passage is on the topic: its cosine, the share of the words, the scope's size."""
        needed = self.base + self.growth * math.log(max(1, min(units, self.most_units)))
        return covered >= self.by_words or cosine + self.words * covered >= needed


UNKNOWN = Calibration(base=0.42, words=0.84, growth=0.0, most_units=1, by_meaning=0.42)
"""For models without figures of their own: a warning needs few of the words as well as a low cosine."""

MOST_WORDS = 0.35
"""The share of a question's words that is enough if the model does not know its language."""

UNREADABLE = Calibration(base=math.inf, words=0.0, growth=0.0, most_units=1, by_meaning=math.inf, by_words=MOST_WORDS)
"""For questions of which the model understands nothing: only their words count."""
