"""Splits text into the terms of the keyword index.

Spellings are unified first (`folded`). FTS5's `unicode61` splits the text into words, and its `porter` stems them.
Extra terms are: whole identifiers, which `unicode61` splits, and the parts of camel-case names; other names of
identifiers: a version without its "v", the ends of a path or URL, the first characters of a hash, a hexadecimal number
without its "0x"; days in any usual notation; names with signs, such as C++; German words with "ae" for "ä"; emoji; and,
for scripts without spaces between words, each character and each pair of neighbours. Cyrillic words are stemmed as
Russian (Snowball).
"""

import re
import unicodedata
from calendar import month_abbr, month_name
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import cast

import apsw

from vector_memory.domain import Chunk

RULES = 5
"""The version of the rules for terms and units. Blocks with an earlier version are indexed again
(`KeywordIndex.index_again`). Raise it whenever the terms of a text change."""

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

# Words that are not joined to another are skipped at once: these patterns take most of the time of indexing.
JOINED = re.compile(
    r"\#\d+"  # of an issue: #42
    r"|\b(?![A-Za-z]++[ \n,])(?:"
    r"\w++(?>(?:[-./:@#]++\w++)+)"  # paths, versions, names with dots or dashes: a/b/c.py, v1.2.3
    r"|[^\W_]*+_\w++"  # store_report
    r")"
)
HYPHENATED = re.compile(r"(?!.*\d-\d)[^\W_]+(?:-[^\W_]+)+")
"""A compound also written as one word: on-prem, ABC-1234, but not 2026-10-05."""
PARTS_OF_PATHS = re.compile(r"[/:@#]+")
PARTS_OF_NAMES = re.compile(r"[-./:@#]+")
CAMEL_CASE = re.compile(r"\b(?![A-Z]?[a-z]++\b)\w*?(?:[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2})\w*+")
CAMEL_JOINT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
VERSION = re.compile(r"\d+(?:\.\d+)+")
LONG_VERSION = re.compile(r"\bv?\d+(?:\.\d+){2,}", re.IGNORECASE)
"""A version or an address whose single numbers mean nothing; 3.11 may stand for 3.11.7."""
MOST_STEPS = 8
"""Maximum number of steps of a path in its ends."""
SHORT_HASH = 7
"""Characters of a hash that identify it, as in git."""
HASH = re.compile(r"\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}\b", re.ASCII | re.IGNORECASE)
IN_CAPITALS = re.compile(r"\b(?=[A-F]*[0-9])[0-9A-F]{4,64}\b", re.ASCII)
"""A hash or a part of a UUID in capitals: not a camel-case name, although capitals follow digits."""
HEXADECIMAL = re.compile(r"\b0x([0-9a-f]{4,16})\b", re.ASCII | re.IGNORECASE)
LONG_NUMBER = re.compile(r"\s*([0-9]{8,64})\s*")
"""The first characters of a hash may all be digits: with eight, in one of 43."""
DIGITS_MARKED = bytes(ord("x") if byte in b"0123456789abcdefABCDEF" else ord(" ") for byte in range(256))
"""Translates hexadecimal digits to "x". Few texts have seven in a row, and searching for hashes takes much longer."""

THOUSANDS = re.compile(r"\d,\d{3}")
SHORT_TIME = re.compile(r"(?<![\w:.,-])\d:[0-5]\d(?![\w:]|[.,]\d)", re.ASCII)
"""A time that lacks a zero: 2:30 is 02:30."""
GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])", re.ASCII)
"""A number with thousands separators: 25,000 is 25000 and does not contain 000."""

MONTHS = {name: number for names in (month_name, month_abbr) for number, name in enumerate(names) if name}
MONTHS |= {"Sept": 9, "Januar": 1, "Februar": 2, "M\u00e4rz": 3, "Marz": 3, "Mai": 5, "Juni": 6, "Juli": 7}
MONTHS |= {"Oktober": 10, "Dezember": 12}
_MONTH = rf"(?P<month{{0}}>{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b\.?"
_DAY = r"(?P<day{0}>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year{0}>(?:19|20)\d\d)"
DATE = re.compile(
    rf"\b(?:{_YEAR}([-/])(?P<month{{0}}>[01]?\d)\2(?P<day{{0}}>[0-3]?\d)(?=T\d|\b)".format(1)
    + rf"|(?P<day2>[0-3]?\d)(?P<sign2>[./])[ ]?(?P<month2>[0-3]?\d)(?P=sign2)[ ]?{_YEAR.format(2)}\b"
    + rf"|{_MONTH.format(3)}[ ]+(?:the[ ]+)?{_DAY.format(3)}\b(?![.:,]\d|%)(?:,?[ ]+{_YEAR.format(3)}\b)?"
    + rf"|{_DAY.format(4)}\.?[ ]+(?:of[ ]+)?{_MONTH.format(4)}(?:,?[ ]+{_YEAR.format(4)}\b)?"
    + rf"|{_YEAR.format(5)}(?P<month5>[01]\d)(?P<day5>[0-3]\d)(?=T\d|\b))"
)
"""A day: 2026-03-14, 14.3.2026, 14/03/2026, 3/14/2026, March 14, 2026, 14th of March, 20260314."""
TYPED = re.compile(
    rf"(\d(?:st|nd|rd|th)? (?:of )?(?!(?<=\d )may)|\b(?!(?<!on )may)(?=\w+\.? (?:the )?\d))({'|'.join(MONTHS)})\b",
    re.IGNORECASE,
)
"""A month beside its day, in any letters, as in questions. "May 14 users log in?" names no day."""
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
DAY_TERM = re.compile(r"(?:\d{4}-|--|~)(\d\d-\d\d)")
SIGNS_OF_DAYS = (
    re.compile(r"[JFMASOND][a-z\u00e4]{2,8}\.?[ ]+(?:the[ ]+)?\d"),
    re.compile(
        r"\d(?:(?<=\d{4})[-/]\d|\.[ ]?[01]?\d\.[ ]?(?:19|20)\d|/[0-3]?\d/(?:19|20)\d"
        r"|(?:st|nd|rd|th|\.)?[ ]+(?:of[ ]+)?[JFMASOND][a-z\u00e4]{2}|(?<=\b[12])\d{7}(?=T\d|\b))"
    ),
)
"""A text without any of these contains no days; checking takes much less time than searching for days."""

LANGUAGE = re.compile(r"\b[A-Za-z](?:\+\+|\#)(?![A-Za-z_])")
"""C++, C#: the letter alone is another language."""
WITH_SIGN = re.compile(r"\b[A-Za-z]{1,2}&[A-Za-z]{1,2}\b|(?<![\w.])\.NET\b")
"""R&D, AT&T, .NET: the letters alone mean little."""
SIGNED = ((LANGUAGE, ("++", "#")), (WITH_SIGN, ("&", ".NET")), (HEXADECIMAL, ("0x", "0X")))
"""Patterns, each with texts one of which it requires; checking those first takes much less time."""

UMLAUTS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "Ø": "Oe", "Å": "Aa"}
)
UMLAUT = re.compile(r"[äöüøåÄÖÜØÅ]|[aouAOU](?=[\u0308\u030a])")
SPELLED_UMLAUT = re.compile(r"([aou])e|(a)a")
WORD = re.compile(r"\w+")

EMOJI = re.compile(
    "[\u2300-\u23ff\u2600-\u27bf\u2b1b\u2b1c\u2b50\u2b55\U0001f000-\U0001f0ff\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff]+"
)
ONE_EMOJI = re.compile("[\U0001f1e6-\U0001f1ff]{2}|.")  # a flag is two letters

UNSPACED = re.compile(
    "["
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9ff\uaa60-\uaadf"  # their neighbours, Balinese, Javanese
    "\u3005-\u3007\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\uac00-\ud7af"  # Hangul
    "]+"
)

CYRILLIC = re.compile("[\u0400-\u04ff]{4,}")
"""A word that may have an ending; shorter ones are often abbreviations."""

_CATEGORIES = ("remove_diacritics", "0", "categories", "L* M* N* Co")  # remaining marks belong to the word
_connection = apsw.Connection(":memory:")
_words = _connection.fts5_tokenizer("unicode61", [*_CATEGORIES])
_stems = _connection.fts5_tokenizer("porter", ["unicode61", *_CATEGORIES])


def terms(text: str) -> list[str]:
    """Return the terms of a text, in no particular order, each as often as it occurs."""
    plain = ungrouped(text if text.isascii() else folded(text))
    compounds, others = _names(plain)
    words = [_spaced(plain), *compounds, *_with_e(text)]
    return [*_tokens(_stems, " ".join(words)), *others, *_short_hashes(plain), *_unspaced(plain), *days_in(plain)]


def query_terms(text: str) -> list[str]:
    """Return the terms to search for, without duplicates, and without stop words unless the text has nothing else.

    There is no query syntax: every part of the text is a term or ignored. A query that is only a number may also be the
    beginning of a hash. A day is one term, without its numbers.
    """
    plain = ungrouped(text if text.isascii() else folded(text))
    days = dict.fromkeys(asked_days(plain))
    if days:
        plain = without_days(plain)
    compounds, names = _names(plain)
    without_versions = IN_CAPITALS.sub(lambda found: found[0].lower(), LONG_VERSION.sub(" ", plain))
    words = _tokens(_words, " ".join([_spaced(without_versions), *compounds, *_with_e(text)]))
    hashes = list(_short_hashes(plain))
    # Stemming would change a short hash: 3f2a9ed becomes 3f2a9.
    wanted = [word for word in words if word not in STOP_WORDS and word not in hashes]
    others = [*names, *hashes, *_unspaced(plain), *days]
    if number := LONG_NUMBER.fullmatch(plain):
        others.append(number[1][:SHORT_HASH])
    return list(dict.fromkeys([*_tokens(_stems, " ".join(wanted if wanted or others else words)), *others]))


def ungrouped(text: str) -> str:
    """Remove thousands separators from numbers, and complete times."""
    text = SHORT_TIME.sub(r"0\g<0>", text) if ":" in text else text
    return GROUPED.sub(lambda found: found[0].replace(",", ""), text) if THOUSANDS.search(text) else text


def days_in(text: str) -> Iterator[str]:
    """Yield terms for the days in a text: 2026-03-14 and --03-14, or without a year --03-14 and ~03-14."""
    for date, of_year in _days(text):
        yield from (date, f"--{of_year}") if date else (f"--{of_year}", f"~{of_year}")


def asked_days(text: str) -> Iterator[str]:
    """Yield terms for the days of a question. A day with a year also finds texts that name no year."""
    for date, of_year in _days(TYPED.sub(lambda found: found[1] + found[2].capitalize(), text)):
        yield from (date, f"~{of_year}") if date else (f"--{of_year}",)


def _days(text: str) -> Iterator[tuple[str, str]]:
    """Yield each day in a text as a date, empty without a year, and as month and day."""
    for found in DATE.finditer(text) if any(sign.search(text) for sign in SIGNS_OF_DAYS) else ():
        yield from _day_of(found)


def without_days(text: str, mark: str = " ") -> str:
    """Put a mark in the place of each day of a question."""
    text = TYPED.sub(lambda found: found[1] + found[2].capitalize(), text)
    return DATE.sub(lambda found: mark if [*_day_of(found)] else found[0], text)


def _day_of(found: re.Match[str]) -> Iterator[tuple[str, str]]:
    parts = {name[:-1]: value for name, value in found.groupdict().items() if value}
    month, day = MONTHS.get(parts["month"]) or int(parts["month"]), int(parts["day"])
    if parts.get("sign") == "/":  # the month may be first; 3/4/2026 may be either day, and 25/14/2026 is none
        month, day = sorted((month, day)) if max(month, day) > len(_DAYS) else (0, 0)
    if 1 <= month <= len(_DAYS) and 1 <= day <= _DAYS[month - 1]:
        of_year = f"{month:02}-{day:02}"
        yield f"{parts['year']}-{of_year}" if "year" in parts else "", of_year


def stems_of(words: Sequence[str]) -> list[str]:
    """Return the stem of each word; words consist of ASCII letters."""
    return _tokens(_stems, " ".join(words))


def named_by(term: str) -> str:
    """Return one term for all terms that name the same thing.

    These are a day with and without its year, a hash and its beginning, a version with and without its "v", a number
    with and without its "0x", and a word with and without the "e" of an umlaut.
    """
    if day := DAY_TERM.fullmatch(term):
        return day[1]
    if number := HEXADECIMAL.fullmatch(term):
        term = number[1]
    if HASH.fullmatch(term) or (term.isdecimal() and len(term) > SHORT_HASH):
        return term[:SHORT_HASH]
    if term.startswith("v") and VERSION.fullmatch(term, 1):
        return term[1:]
    return SPELLED_UMLAUT.sub(lambda found: found[0][0], term)


def _tokens(tokenizer: apsw.FTS5Tokenizer, text: str) -> list[str]:
    data = (text if text.isascii() else text.casefold()).encode(errors="replace")
    found = tokenizer(data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False)
    tokens = cast("list[str]", found)
    if tokenizer is _words or text.isascii():
        return tokens
    return [_russian_stem(token) if CYRILLIC.fullmatch(token) else token for token in tokens]


@lru_cache(maxsize=1 << 14)
def _russian_stem(word: str) -> str:
    from snowballstemmer import stemmer  # noqa: PLC0415 - takes longer than all else here, and few texts need it

    return str(stemmer("russian").stemWord(word))  # a new one: a stemmer keeps the current word


def _spaced(text: str) -> str:
    """Add the parts of camel-case names, and remove what has separate terms."""
    parts = [CAMEL_JOINT.sub(" ", name) for name in CAMEL_CASE.findall(text)]
    if "++" in text or "#" in text:
        text = LANGUAGE.sub(" ", text)
    return " ".join([text if text.isascii() else UNSPACED.sub(" ", text), *parts])


def _names(text: str) -> tuple[list[str], list[str]]:
    """Return hyphenated names as single words, and the terms of all other names that are not words."""
    compounds, others = [], []
    for name in _wholes(text):
        if "-" in name and HYPHENATED.fullmatch(_without_marks(name)):
            compounds.append(name.replace("-", ""))
        else:
            others.append(name)
    for pattern, signs in SIGNED:
        if any(sign in text for sign in signs):
            others += map(str.lower, pattern.findall(text))
    for run in () if text.isascii() else EMOJI.findall(text):
        others += ONE_EMOJI.findall(run)
    return compounds, others


def _wholes(text: str) -> Iterator[str]:
    """Yield each whole identifier and the identifiers inside it: for `a/b_c.py`, itself, `b_c.py` and `b_c`."""
    for found in JOINED.finditer(_without_marks(text)):
        name = text[slice(*found.span())].casefold().strip("_")
        parts = [name, *PARTS_OF_PATHS.split(name), *PARTS_OF_NAMES.split(name)]
        if "." in name or "/" in name:
            parts += _other_names(name)
        for whole in dict.fromkeys(parts):
            inner = whole.strip("_")
            if inner and not _without_marks(inner).isalnum():
                yield inner


def _without_marks(text: str) -> str:
    return text if text.isascii() else with_letters_for_marks(text)


def _with_e(text: str) -> Iterator[str]:
    """Yield words with umlauts in their spelling without: Mueller for Müller."""
    if not text.isascii() and UMLAUT.search(text):
        for word in WORD.findall(unicodedata.normalize("NFC", text)):
            if UMLAUT.search(word):
                yield folded(word.translate(UMLAUTS))


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
    for run in () if text.isascii() else UNSPACED.findall(text):
        yield from run
        yield from map("".join, pairwise(run))


# Unifies spellings before a text is split into terms. The stored text is not changed.


NON_ASCII = re.compile(r"[^\x00-\x7f]+")
"""Such parts can be folded alone: folding keeps only marks that never combine with an ASCII letter before them."""

LONGEST_KEPT = 32
"""Characters. Words recur and are worth caching; sentences without spaces hardly do."""

SYMBOLS = re.compile(
    "[\u00bc-\u00be\u2116\u2120-\u2122\u2150-\u215f\u2189\u2460-\u24ff\u3200-\u33ff"
    "\U0001f100-\U0001f1e5\U0001f200-\U0001f2ff]+"
)
"""Signs for separate words or numbers, which do not join their neighbours: №, ™, ½, ①, ㎏, ㈱."""

OWN_LETTERS = re.compile("[\u0418\u0423\u0438\u0443]\u0306|[\u0406\u0456]\u0308")
"""Cyrillic letters that are never written without their mark: й, ў and ї. People do omit the mark of ё."""

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
"""Characters without a decomposition, and their other spelling."""

UNSEEN = frozenset("\u034f\u0640\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f")
"""Joiners, fillers and selectors outside the category of format characters, and the Arabic kashida."""

OVERLAY = 1
FIRST_POINT, LAST_POINT = 10, 36
FIRST_ACCENT = 200
"""Combining classes of Hebrew, Arabic and Syriac points, and of marks above and below. Vowel signs, viramas, nuktas,
tones and voicing marks have other classes."""


def folded(text: str) -> str:
    """Unify the spellings of words; case is kept."""
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
    """Return a character's replacement; None: it is kept."""
    if ord(character) in LETTERS:
        return str(LETTERS[ord(character)])
    combining = unicodedata.combining(character)
    is_point = FIRST_POINT <= combining <= LAST_POINT
    if is_point or combining >= FIRST_ACCENT or combining == OVERLAY or _is_unseen(character):
        return ""
    return str(unicodedata.decimal(character)) if character.isdecimal() else None


def _is_unseen(character: str) -> bool:
    """Whether a character only changes the look of others, such as skin tones and keycap frames."""
    return (
        character in UNSEEN
        or unicodedata.category(character) in ("Cf", "Me")
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def with_letters_for_marks(text: str) -> str:
    """Replace each mark of a folded text by a letter: patterns do not count marks as parts of words."""
    marks = {ord(character): "x" for character in set(text) if is_mark(character)}
    return text.translate(marks) if marks else text


@cache
def is_mark(character: str) -> bool:
    """Whether a character is a combining mark."""
    return unicodedata.category(character).startswith("M")


# The searchable words of a unit: those of its text, the headings above it, and its memory's title.


def searchable_texts(title: str | None, content: str, chunks: Sequence[Chunk], *, chunked: bool) -> list[str]:
    """Return a memory's searchable texts: one for each chunk, or one for a memory that is not chunked."""
    if not chunked:
        return [searchable_text(title, (), content)]
    return [searchable_text(title, chunk.headings, chunk.text) for chunk in chunks]


def searchable_text(title: str | None, headings: Sequence[str], text: str) -> str:
    """Return the searchable text of a unit. A title that is also a heading counts once."""
    return "\n".join([*names_above(title, headings), text])


def names_above(title: str | None, headings: Sequence[str]) -> list[str]:
    """Return the title and the headings without their marks (`##`) and without repetitions."""
    names = [title or "", *(heading.lstrip("#") for heading in headings)]
    return [name for name in dict.fromkeys(name.strip() for name in names) if name]
