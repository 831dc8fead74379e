"""Splits text into the terms of the keyword index.

FTS5's `unicode61` splits and folds words (case, diacritics), and its `porter` stems them. Added are whole identifiers,
which `unicode61` splits, with the parts of camel-case names; what identifiers are also called: a version without its
"v", the ends of a path or URL, the first characters of a hash; and, for scripts without spaces between words, each
character and each pair of neighbouring characters.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import cast

import apsw

STOP_WORDS = frozenset(
    """
    a about above after again against all am an and any are as at be because been before being below between both but by
    can could did do does doing down during each few for from further had has have having he her here hers herself him
    himself his how i if in into is it its itself just me more most my myself no nor not now of off on once only or
    other our ours ourselves out over own same she should so some such than that the their theirs them themselves then
    there these they this those through to too under until up very was we were what when where which while who whom why
    will with would you your yours yourself yourselves
    """.split()  # noqa: SIM905 - a hundred lines shorter
)

# Most words are not joined to another one, and are skipped at once: the patterns take most of the time of indexing.
JOINED = re.compile(
    r"\#\d+"  # of an issue: #42
    r"|\b(?![A-Za-z]++[ \n,])(?:"
    r"\w++(?>(?:[-./:@#]++\w++)+)"  # paths, versions, names with dots or dashes: a/b/c.py, v1.2.3
    r"|[^\W_]*+_\w++"  # store_report
    r")"
)
PARTS_OF_PATHS = re.compile(r"[/:@#]+")
PARTS_OF_NAMES = re.compile(r"[-./:@#]+")
CAMEL_CASE = re.compile(r"\b(?![A-Z]?[a-z]++\b)\w*?(?:[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2})\w*+")
CAMEL_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
VERSION = re.compile(r"\d+(?:\.\d+)+")
LONG_VERSION = re.compile(r"\bv?\d+(?:\.\d+){2,}", re.IGNORECASE)
"""A version or an address whose single numbers say nothing; 3.11 may stand for 3.11.7."""
MOST_STEPS = 8
"""Steps of a path that its ends are made of."""
SHORT_HASH = 7
"""Characters of a hash that are enough to ask for it, as in git."""
HASH = re.compile(r"\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}\b", re.ASCII | re.IGNORECASE)
IN_CAPITALS = re.compile(r"\b(?=[A-F]*[0-9])[0-9A-F]{4,64}\b", re.ASCII)
"""A hash, or a part of a UUID, in capitals: no camel-case name, although capitals follow digits."""
LONG_NUMBER = re.compile(r"\s*([0-9]{8,64})\s*")
"""The first characters of a hash may all be digits: one in 43 if they are eight."""
DIGITS_MARKED = bytes(ord("x") if byte in b"0123456789abcdefABCDEF" else ord(" ") for byte in range(256))
"""Translates hexadecimal digits to "x". Few texts have seven in a row, and looking for hashes takes much longer."""

UNSPACED = re.compile(
    "["
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\uac00-\ud7af"  # Hangul
    "]+"
)

_connection = apsw.Connection(":memory:")
_words = _connection.fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
_stems = _connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])


def terms(text: str) -> list[str]:
    """Return the terms of a text in no particular order. A term is repeated as often as it occurs."""
    return [*_tokens(_stems, _spaced(text)), *_wholes(text), *_short_hashes(text), *_unspaced(text)]


def query_terms(text: str) -> list[str]:
    """Return the terms to search for, without duplicates, and without stop words unless the text has nothing else.

    There is no query syntax: every part of the text is either a term or ignored. A query that is only a number may
    also be the beginning of a hash.
    """
    plain = IN_CAPITALS.sub(lambda found: found[0].lower(), LONG_VERSION.sub(" ", text))
    words = _tokens(_words, _spaced(plain))
    hashes = list(_short_hashes(text))
    # The stem of a short hash is another word: 3f2a9 of 3f2a9ed.
    wanted = [word for word in words if word not in STOP_WORDS and word not in hashes]
    others = [*_wholes(text), *hashes, *_unspaced(text)]
    if number := LONG_NUMBER.fullmatch(text):
        others.append(number[1][:SHORT_HASH])
    return list(dict.fromkeys([*_tokens(_stems, " ".join(wanted if wanted or others else words)), *others]))


def named_by(term: str) -> str:
    """Return one term for all that name the same: a hash and its beginning, a version with and without its "v"."""
    if HASH.fullmatch(term) or (term.isdecimal() and len(term) > SHORT_HASH):
        return term[:SHORT_HASH]
    return term[1:] if term.startswith("v") and VERSION.fullmatch(term, 1) else term


def _tokens(tokenizer: apsw.FTS5Tokenizer, text: str) -> list[str]:
    data = text.encode(errors="replace")
    found = tokenizer(data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False)
    return cast("list[str]", found)


def _spaced(text: str) -> str:
    """Return the text with the parts of camel-case names added, and without text in scripts that have no spaces."""
    parts = (CAMEL_JOINT.sub(" ", name) for name in CAMEL_CASE.findall(text))
    return " ".join([UNSPACED.sub(" ", text), *parts])


def _wholes(text: str) -> Iterator[str]:
    """Yield each whole identifier and those inside it: for `a/b_c.py`, itself, `b_c.py` and `b_c`."""
    for found in JOINED.findall(text):
        name = _folded(found).strip("_")
        parts = [name, *PARTS_OF_PATHS.split(name), *PARTS_OF_NAMES.split(name)]
        if "." in name or "/" in name:
            parts += _other_names(name)
        for whole in dict.fromkeys(parts):
            inner = whole.strip("_")
            if inner and not inner.isalnum():
                yield inner


def _other_names(name: str) -> list[str]:
    """Return the versions in a name, and the ends of a path or URL: for `a/b/c.py` also `b/c.py`."""
    names: list[str] = VERSION.findall(name)
    steps = name.rpartition("//")[2].removeprefix("www.").split("/")[-MOST_STEPS:]
    return names + ["/".join(steps[start:]) for start in range(len(steps) - 1)]


def _short_hashes(text: str) -> Iterator[str]:
    if b"x" * SHORT_HASH in text.encode(errors="replace").translate(DIGITS_MARKED):
        for found in HASH.findall(text):
            yield found[:SHORT_HASH].lower()


def _unspaced(text: str) -> Iterator[str]:
    for run in UNSPACED.findall(text):
        yield from run
        yield from map("".join, pairwise(run))


def _folded(name: str) -> str:
    if name.isascii():
        return name.lower()
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    return "".join(character for character in decomposed if not unicodedata.combining(character))
