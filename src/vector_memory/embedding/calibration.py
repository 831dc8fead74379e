"""What a model's cosines and late scores say about whether a text answers a question."""

import math
from dataclasses import dataclass, replace

from vector_memory.domain import MatchLevel

INSTEAD_OF_TOKENS = 0.1
"""A late score is by so much higher than the cosine, in the middle: the estimate where tokens were not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """From which evidence on a text answers a question, or is at least related to it.

    The evidence is the cosine of its best passage, with `late` the share of it that the late score has instead, and
    `words` times the share of the question's words that it has, weighted by their rarity. Nothing depends on the other
    texts of the scope. `strong`: the evidence from which on a text probably answers; with less than `related`, hardly
    any does; None: a low cosine says nothing. `by_words`: the share of the words that is enough without any other
    evidence. `weight`: the share of its weight in a score that the cosine has, as much as the model can read of the
    question; 0: only words are compared. docs/lab/retrieval.md says how the figures were found.
    """

    strong: float
    related: float | None = None
    late: float = 0.0
    words: float = 0.0
    by_words: float = 1.0
    weight: float = 1.0

    def level(self, cosine: float, covered: float = 0.0, late: float | None = None) -> MatchLevel:
        """Return how well a text matches. `covered`: its share of the words. `late`: None: not compared."""
        late = cosine + INSTEAD_OF_TOKENS if late is None else late
        evidence = (1 - self.late) * cosine + self.late * late + self.words * covered
        if covered >= self.by_words or evidence >= self.strong:
            return "strong"
        return "related" if self.related is None or evidence >= self.related else "weak"

    @property
    def tells_weak(self) -> bool:
        """Whether cosines say that a text is unrelated: they do not in languages that the model does not know."""
        return self.related is not None


UNKNOWN = Calibration(strong=0.42, words=0.84)
"""For models without figures of their own: to be strong, a match needs few of the words or a low cosine."""

MOST_WORDS = 0.35
"""The share of a question's words that is enough if the model does not know its language."""

FOREIGN = Calibration(strong=math.inf, by_words=MOST_WORDS)
"""For questions in a language that the model does not know, although it knows the letters."""

UNREADABLE = replace(FOREIGN, weight=0.0)
"""For questions of which the model can read nothing: their vectors say nothing, so only their words are compared."""
