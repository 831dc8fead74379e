"""Writes equal words equally, before a text is split into terms. What is stored stays as it is.

A text is in Unicode's compatibility form (NFKC), so it does not matter how letters were composed, which ligatures and
widths were used, and in which digits numbers are. Accents and points are left out, as people do who type a query; vowel
signs and other marks that make another word of it are kept. What nobody sees is left out as well.
"""

import re
import unicodedata
from functools import cache, lru_cache

NON_ASCII = re.compile(r"[^\x00-\x7f]+")
"""Parts of a text can be folded alone: of marks after an ASCII letter, only those are kept that never join it."""

LONGEST_KEPT = 32
"""Characters. Words occur again and are worth keeping; sentences without spaces hardly do."""

SYMBOLS = re.compile(
    "[\u00bc-\u00be\u2116\u2120-\u2122\u2150-\u215f\u2189\u2460-\u24ff\u3200-\u33ff"
    "\U0001f100-\U0001f1e5\U0001f200-\U0001f2ff]+"
)
"""Signs that stand for words or numbers of their own, which do not join their neighbours: №, ™, ½, ①, ㎏, ㈱."""

OWN_LETTERS = re.compile("[\u0418\u0423\u0438\u0443]\u0306|[\u0406\u0456]\u0308")
"""Cyrillic letters that nobody replaces by the one without a mark: й, ў and ї. People do replace ё."""

LETTERS = str.maketrans(
    {
        "ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "þ": "th", "Þ": "Th",
        "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "ħ": "h", "Ħ": "H",
        "ŧ": "t", "Ŧ": "T", "\u0131": "i",  # dotless
        "\u06cc": "\u064a", "\u0649": "\u064a", "\u06a9": "\u0643",  # Farsi yeh, alef maksura, keheh
        "\u06c1": "\u0647", "\u06be": "\u0647", "\u06d5": "\u0647",  # the forms of heh in Urdu and Kurdish
        "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2212": "-", "\u02bc": "'",
    }
)  # fmt: skip
"""What has no decomposition, and is also written as on the right."""

UNSEEN = frozenset("\u034f\u0640\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f")
"""Joiners, fillers and selectors that are not in the category of format characters, and the Arabic kashida."""

OVERLAY = 1
FIRST_POINT, LAST_POINT = 10, 36
FIRST_ACCENT = 200
"""Combining classes, of Hebrew, Arabic and Syriac points, and of marks above and below. The classes of vowel signs,
viramas, nuktas, tones and voicing marks are others."""


def folded(text: str) -> str:
    """Return a text with equal words written equally; their case is kept."""
    return NON_ASCII.sub(_folded_part, text)


def _folded_part(found: re.Match[str]) -> str:
    part = found[0]
    return _folded_word(part) if len(part) <= LONGEST_KEPT else _folded(part)


def _folded(part: str) -> str:
    spread = unicodedata.normalize("NFKD", SYMBOLS.sub(r" \g<0> ", part))
    spread = spread.replace("\u0e40\u0e40", "\u0e41").replace("\u0ec0\u0ec0", "\u0ec1")  # Thai and Lao: e e for ae
    spread = OWN_LETTERS.sub(lambda letter: unicodedata.normalize("NFC", letter[0]), spread)
    changed = {ord(character): new for character in set(spread) if (new := _folded_character(character)) is not None}
    return unicodedata.normalize("NFC", spread.translate(changed))


_folded_word = lru_cache(maxsize=1 << 14)(_folded)


@cache
def _folded_character(character: str) -> str | None:
    """Return what a character is replaced by; None: it is kept."""
    if ord(character) in LETTERS:
        return str(LETTERS[ord(character)])
    combining = unicodedata.combining(character)
    is_point = FIRST_POINT <= combining <= LAST_POINT
    if is_point or combining >= FIRST_ACCENT or combining == OVERLAY or _is_unseen(character):
        return ""
    return str(unicodedata.decimal(character)) if character.isdecimal() else None


def _is_unseen(character: str) -> bool:
    """Return whether a character only changes how others look: skin tones and the frame of a keycap as well."""
    return (
        character in UNSEEN
        or unicodedata.category(character) in ("Cf", "Me")
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def with_letters_for_marks(text: str) -> str:
    """Return a folded text, of equal length, with a letter for each mark: patterns count no marks to words."""
    marks = {ord(character): "x" for character in set(text) if is_mark(character)}
    return text.translate(marks) if marks else text


@cache
def is_mark(character: str) -> bool:
    """Return whether a character belongs to the one before it."""
    return unicodedata.category(character).startswith("M")
