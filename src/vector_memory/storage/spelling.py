"""Finds what a word means that a scope does not have: the most frequent of its words that differ by one letter.

The index keeps hashes of terms, no words. So what a misspelt word may have been is made from its letters, and the scope
is asked which of these it has.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.terms import STOP_WORDS, stems_of

MOST_BLOCKS = 128
"""All postings of a scope are read. One with more blocks of them is not asked: it takes too long."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LONG = 6
"""In shorter words, another letter gives another word more often than a slip (hide, hike)."""
KEYS = "qwertyuiop asdfghjkl zxcvbnm qaz wsx edc rfv tgb yhn ujm ik ol wa esz rdx tfc ygv uhb ijn okm pl"
SOUNDS = "kcs qk xz dt bp vw lr gj"
ALIKE = {
    *(frozenset(pair) for run in f"{KEYS} {SOUNDS}".split() for pair in pairwise(run)),
    *(frozenset(pair) for pair in combinations("aeiouy", 2)),
}
"""Pairs of letters that are next to each other on a keyboard, or sound alike; neighbours above are such pairs."""
STOP_STEMS = frozenset(stems_of(sorted(STOP_WORDS)))


class Spelling(NamedTuple):
    """What a word of a query was read as. `term`: that of the word."""

    typed: str
    word: str
    term: str


def spellings(
    missing: Mapping[str, str], others: Collection[str], keys: NDArray[np.int64], key_of: Callable[[str], int]
) -> dict[str, Spelling]:
    """Return what the `missing` words were probably meant to be, by their terms, as far as the scope has such words.

    `keys`: of the terms of all postings of the scope. `others`: what the query asks for already.
    """
    found: dict[str, Spelling] = {}
    for term, typed in missing.items():
        words = list(dict.fromkeys(one_letter_off(typed.lower())))
        # In reverse, so that of several words with one term the first is kept, which often has all its letters.
        stems = zip(stems_of(words)[::-1], words[::-1], strict=True)
        known = {key_of(other): (word, other) for other, word in stems if other not in STOP_STEMS}
        ascending = np.sort(np.array(list(known), np.int64))
        has_one = ascending.take(ascending.searchsorted(keys), mode="clip") == keys
        if not has_one.any() or not STOP_WORDS.isdisjoint(words):
            continue
        counts = dict(zip(*map(np.ndarray.tolist, np.unique(keys[has_one], return_counts=True)), strict=True))
        word, other = known[max(reversed(known), key=lambda key: counts.get(key, 0))]
        if other not in others:
            found[term] = Spelling(typed, word, other)
    return found


def one_letter_off(word: str) -> Iterator[str]:
    """Yield what a word may be a slip of: two letters swapped, one more or less, or one written for one like it."""
    parts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    yield from (before + after[1] + after[0] + after[2:] for before, after in parts if len(after) > 1)
    yield from (before + letter + after for before, after in parts for letter in LETTERS)
    if len(word) >= LONG:
        pairs = ((place, letter) for place in range(len(word)) for letter in LETTERS if {word[place], letter} in ALIKE)
        yield from (word[:place] + letter + word[place + 1 :] for place, letter in pairs)
    yield from (before + after[1:] for before, after in parts if after)
