"""Finds the meaning of a word that a scope lacks: the scope's most frequent word that differs by one letter.

The index keeps hashes of terms, not words. So candidates are built from the letters of a misspelt word, and looked up
in the scope.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.texts.terms import STOP_WORDS, stems_of

MOST_BLOCKS = 128
"""All postings of a scope are read, so scopes with more blocks are skipped: they take too long."""
MOST_TEXTS = 64
"""How many of the latest texts with a term are searched for the word itself."""
WORD = re.compile(r"\w+")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LONG = 6
"""In shorter words, another letter is more often another word than a typing error (hide, hike)."""
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


class Occurring(NamedTuple):
    """The terms of a scope: the `keys` of all postings, and the `units` that have them."""

    keys: NDArray[np.int64]
    units: NDArray[np.int64]


def spellings(
    missing: Mapping[str, str],
    others: Collection[str],
    found: Occurring,
    key_of: Callable[[str], int],
    texts_of: Callable[[list[int]], Iterable[str]],
) -> dict[str, Spelling]:
    """Return what the `missing` words were probably meant to be, by their terms, as far as the scope has such words.

    `others`: what the query asks for already. `texts_of`: the texts of units. A key covers all words of one stem, so
    the texts show which of them occurs: nothing is read as a word that nobody wrote.
    """
    respelt: dict[str, Spelling] = {}
    for term, typed in missing.items():
        words = list(dict.fromkeys(one_letter_off(typed.lower())))
        stems = [(word, stem) for word, stem in zip(words, stems_of(words), strict=True) if stem not in STOP_STEMS]
        ascending = np.unique(np.array([key_of(stem) for _, stem in stems], np.int64))
        has_one = ascending.take(ascending.searchsorted(found.keys), mode="clip") == found.keys
        if not has_one.any() or not STOP_WORDS.isdisjoint(words):
            continue
        keys, counts = np.unique(found.keys[has_one], return_counts=True)
        for key in keys[np.argsort(-counts, kind="stable")].tolist():
            texts = texts_of(found.units[found.keys == key][-MOST_TEXTS:].tolist())
            there = {word for text in texts for word in WORD.findall(text.lower())}
            known = next(((word, stem) for word, stem in stems if word in there and key_of(stem) == key), None)
            if known is not None:
                if known[1] not in others:
                    respelt[term] = Spelling(typed, *known)
                break
    return respelt


def one_letter_off(word: str) -> Iterator[str]:
    """Yield what a misspelt word may mean: two letters swapped, one more or less, or a similar one instead."""
    parts = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    yield from (before + after[1] + after[0] + after[2:] for before, after in parts if len(after) > 1)
    yield from (before + letter + after for before, after in parts for letter in LETTERS)
    if len(word) >= LONG:
        pairs = ((place, letter) for place in range(len(word)) for letter in LETTERS if {word[place], letter} in ALIKE)
        yield from (word[:place] + letter + word[place + 1 :] for place, letter in pairs)
    yield from (before + after[1:] for before, after in parts if after)
