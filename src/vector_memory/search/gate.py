"""Decides whether the best passages answer a question, or are only on its topic.

A word of the question may be decisive: a number, code, version, address or day. A passage without it does not answer,
and one with a different number or code is about something else. Among the other words, those far from every passage
decide: the topic matches, but not what is asked. docs/lab/retrieval.md has the measurements.
"""

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Span
from vector_memory.embedding.token_states import MAX_QUESTION_TOKENS, is_content
from vector_memory.texts import terms

if TYPE_CHECKING:
    from vector_memory.search.question import Question

LOOKED_AT = 3
"""Number of best passages considered together."""

MOST_PARTS = 6
"""A question with more words has several subjects or tells a story: no single word decides."""

LOWEST = 0.2
"""The share of the words that may be farther away than the word that counts."""

GENERAL = frozenset(
    """
    able actually allowed another anybody anyone anything best big called came come comes currently different else
    exactly far fast find first found gave get gets getting give given gives go goes good got happen happened happening
    happens keep keeps kept kind know known large last left let like lived lives located long look looks made make
    makes many may mean means meant might much must name named need needed needs new often old one ones people please
    possible put ran really recommended right run runs said say says see seen set shall show somebody someone something
    soon sort state still store stored take taken takes tell thing things today told took type use used uses using
    valid want wants way ways went work works wrong yet
    """.split()  # noqa: SIM905 - a hundred lines shorter
)
"""Words of questions that an answer need not contain."""

DECIDING = re.compile(
    r"(?<![\w@#])(?=[\w@#])(?=[^\s\d]{0,60}\d|\S{0,60}\w@\w|_*[^\W_]{1,60}_\w)[\w@#][\w@#./:+_-]*[\w+]|\d\d+|\d(?=\s*%)"
)
"""Matches at the beginning of a word with bounded lookahead: otherwise a text without spaces takes forever."""
YEAR_OR_RANK = re.compile(r"(?:19|20)\d\d|\d+(?:st|nd|rd|th)")
LISTED = re.compile(r"(\w+?)s? #(?:(?:,| and| or| to| than| vs\.?)+(?: \1)? #)+", re.IGNORECASE)
"""Deciding words of one sort, each written "#": a passage with one of them answers a part."""
LIMITS = re.compile(
    r"(?:(?:since|after) )?#(?: ?[-\u2013] ?| (?:and )?(?:to|until|till|through|before) )#|\bbetween # and #"
    r"|\b(?:(?P<since>since|after)|(?P<until>until|till|before|by)) (?:the )?#",
    re.IGNORECASE,
)
"""The limits of a time in a question whose days are each written "#"."""
SPACED = re.compile(r"(?<![\w.,])\d{1,3}(?: \d{3})+(?![\w,])", re.ASCII)
MEASURED = re.compile(r"(\d+) ?([a-z\u00b5%]{0,3})")
"""A number with its unit, or without."""
DIGITS, LETTERS = re.compile(r"\d+"), re.compile(r"[a-z]+")

HOW_MANY = re.compile(r"\bhow many (\w+)(?: (\w+))?", re.IGNORECASE)
HOW_MUCH = re.compile(r"\bhow (?:long|often|much|large|big|high|far|old)\b", re.IGNORECASE)
NUMBERS = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundreds?|thousands?|millions?|dozens?|couple|few|several|no|both"
    r"|half|each"
)
AMOUNT = re.compile(
    rf"\d|\b(?:{NUMBERS}|once|twice|none|every|all|(?:second|minute|hour|day|week|month|year)s?|hourly|daily|nightly"
    r"|weekly|monthly|yearly|always|never|after|until|when|on)\b",
    re.IGNORECASE,
)
NUMBER = re.compile(rf"\d|(?:{NUMBERS})$")
ASKS = re.compile(
    r"^(?!.*\bshould\b|\s*how (?:can|could|do|does|would)\b)"
    r"(?:.*\?|\s*(?:\w+\s+)?(?:who|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|may|has|have)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""A factual question. For a list of words, a statement or a request for advice, the topic is enough."""
QUESTION = re.compile(r"\?|^\s*(?:\w+\s+)?(?:who|whose|what|when|where|which|why|how)\b", re.IGNORECASE)
"""Any question. For a list of words, even distant texts of a small scope are shown."""
SEVERAL = re.compile(r"[,;]|\b(?:and|or)\b", re.IGNORECASE)
WITHIN = 5
"""Maximum distance in words between a number and what it counts."""


STATE = re.compile(
    r"\b(?:is|are|has|have|do|does|can|may|which|where|who|whose|how|what|when|now|still|currently)\b", re.IGNORECASE
)
PAST = re.compile(
    r"\b(?:was|were|did|had|been|ago|used to|before|formerly|former|previous(?:ly)?|originally|first|initially|earlier"
    r"|old|history|changed|happened|yesterday|last|until|why|since|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)


UNSETTLED = re.compile(
    r"""
    \?["')\u00bb\u201d]*(?=\s|$)  # asks
    | \b(?:propos(?:al|e[sd]?|ing) | consider(?:ed|ing)? | would | should | might | maybe | perhaps
        | suggest(?:s|ed|ions?)? | intend(?:s|ed)? | rfc | todo | roadmap | sketch | recommends? | will | soon
        | undecided)\b
    | (?<!as[ ])\b(?:is|are|was|were|we)[ ](?:already[ ])?plan(?:s|ned|ning)?\b | ^\W*plan(?:ned|s)?\b
    | \b(?:wants?[ ]to|supposed[ ]to|going[ ]to|could[ ](?:be|go))\b
    | \b(?:next[ ](?:year|quarter|month|experiment)|in[ ]a[ ]year)\b
    | \b(?:not|no|nobody[ ]has|nothing|never)[ ](?:\w+[ ]){0,3}(?:decided|decision|approved|begun|started)\b
    | \b(?:design[ ]note|recommendation[ ]is|let[ ]the)\b | ^(?:once|try)\b | \btry[ ] | \bif[ ]we\b
    | \b(?:rumou?r | untrue | hoax | myth | misread | mistaken | reverted | unchanged | unfounded
        | untouched)\b  # denies
    | \b(?:is|are|was|were)[ ](?:false|not[ ]true|about[ ]another|not[ ](?:set|left|moved|switched|touched))\b
    | \b(?:nothing|not)[ ](?:has[ ]|was[ ])?changed?\b | \bno[ ]change\b | \bcontrary[ ]to\b
    | \b(?:says?|said|reads?|wr(?:ote|ites)|claims?|claimed|quoted?|mail|post|article|forum|paper|chat)\b
        [^."]{0,40}["\u201c\u00ab]
    | ["\u201d\u00bb][ ]?(?:says|said|wrote|claims)\b | ^>[ ]
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""Matches sentences that ask, plan, deny or quote, and so state nothing about the present."""
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
DENIES = re.compile(
    r"(?<!, )\b(?:not|never|nobody|nothing|none|neither|wants?|ideas?)\b|n't\b|\bno\b(?! longer| more)"
    r"|[\"\u201c\u00ab](?:[^\s\"]+ ){2,}[^\"]*[\"\u201d\u00bb]",
    re.IGNORECASE,
)
"""Matches sentences that deny, quote or wish, although the text may be settled."""
NO_MORE = re.compile(r"\bany ?more\b", re.IGNORECASE)
"""What is so no more is said by a text that states what is so."""


def asks_for_state(query: str) -> bool:
    """Whether a question asks for the current state: not for the past, a reason or a day."""
    return bool(STATE.search(query)) and not PAST.search(query) and not [*terms.asked_days(query)]


def replaces(query: str, older: str, newer: str) -> bool:
    """Whether a newer text answers instead of an older one on its subject: with a number, if that does."""
    if not answers_instead(query, older, newer):
        return False
    known = terms.WORD.findall(query.casefold())
    counted, counted_now = (
        any(NUMBER.match(word) and word not in known for word in terms.WORD.findall(" ".join(near).casefold()))
        for near in (sentences_near(asked_stems(query) & stems_in(older), text) for text in (older, newer))
    )
    return counted_now >= counted


def answers_instead(query: str, text: str, other: str) -> bool:
    """Whether another text has all words of the question that a text has, and says what is so."""
    asked = asked_stems(query) & stems_in(text)
    return asked <= stems_in(other) and fit_of(query, other) is Fit.WHOLE and states(asked, other)


def leaves_open(query: str, text: str) -> bool:
    """Whether a text has several words of the question, but does not say what is so."""
    asked = asked_stems(query) & stems_in(text)
    return len(asked) > 1 and not states(asked, text)


def states(asked: set[str], text: str) -> bool:
    """Whether the sentences of a text that have most of these stems say what is so."""
    near = sentences_near(asked, text)
    return not any(UNSETTLED.search(one) or (DENIES.search(one) and not NO_MORE.search(one)) for one in near)


def sentences_near(asked: set[str], text: str) -> list[str]:
    """Return the sentences of a text that have most of these stems."""
    counts = {one: len(asked & stems_in(one)) for one in SENTENCE.split(text.strip())}
    return [one for one, count in counts.items() if count == max(counts.values())]


@lru_cache(maxsize=64)
def asked_stems(query: str) -> set[str]:
    """Return the stems of the words of a question that an answer may have."""
    words = (word for word in terms.WORD.findall(query.casefold()) if word not in GENERAL | terms.STOP_WORDS)
    return stems_in(" ".join(words))


@lru_cache(maxsize=1 << 9)
def stems_in(text: str) -> set[str]:
    """Return the stems of a text's words; numbers and words of other alphabets as they are."""
    words = set(terms.WORD.findall(text.casefold()))
    plain = [word for word in words if word.isascii() and word.isalpha()]
    return {*terms.stems_of(plain), *words.difference(plain)}


class Fit(IntEnum):
    """How well a passage has the deciding words. `OTHER`: it has different ones in their place.

    `UNDATED`: it lacks only the day, and names no other. Most texts are of the day on which they were written.
    """

    OTHER = 0
    LACKING = 1
    UNDATED = 2
    WHOLE = 3


def specific_words(query: str, spans: Sequence[Span]) -> tuple[tuple[int, ...], ...]:
    """Return the specific words of a question, as the places of their tokens among its states.

    Deciding words and days are left out: they are compared literally. `spans`: of its tokens.
    """
    exact = [found.span() for pattern in (terms.DATE, DECIDING) for found in pattern.finditer(query)]
    content = [span for span in spans if is_content(terms.folded(query[span.start : span.end]).casefold())] or [*spans]
    words: list[list[int]] = []
    for place, span in enumerate(content[:MAX_QUESTION_TOKENS]):
        follows = place and content[place - 1].end == span.start and query[span.start - 1].isalnum()
        words[-1:] = [[*words[-1], place]] if words and follows else [*words[-1:], [place]]
    special = []
    for word in words:
        start, end = content[word[0]].start, content[word[-1]].end
        is_exact = any(first <= start and end <= last for first, last in exact)
        if not is_exact and query[start:end].casefold() not in GENERAL:
            special.append(tuple(word))
    return tuple(special)


@lru_cache(maxsize=64)
def deciding_words(query: str) -> tuple[str, ...]:
    """Return the deciding words of a question, and its days as terms. A single digit decides only within a word."""
    plain = SPACED.sub(lambda found: found[0].replace(" ", ""), terms.ungrouped(terms.folded(query)))
    words = (found[0].casefold() for found in DECIDING.finditer(terms.without_days(plain)))
    days = [day for day in terms.asked_days(plain) if not day.startswith("~")]
    return tuple(dict.fromkeys([*(word for word in words if not YEAR_OR_RANK.fullmatch(word)), *days]))


def asks_for_amount(query: str) -> bool:
    """Whether a question asks for a number or a time."""
    return HOW_MANY.search(query) is not None or HOW_MUCH.search(query) is not None


def fit_of(query: str, text: str) -> Fit:
    """Return how well a passage has the deciding words of a question, or the amount it asks for."""
    plain, words = terms.ungrouped(terms.folded(text)), deciding_words(query)
    fit, plain = day_in(query, plain), plain.casefold()
    lacking = {shape_of(word) for word in words if not terms.DAY_TERM.fullmatch(word) and not has_word(word, plain)}
    if lacking and LISTED.search(DECIDING.sub("#", query)):
        lacking -= {shape_of(word) for word in words if has_word(word, plain)}
    if lacking:
        had = {shape_of(found[0]) for found in DECIDING.finditer(plain)}
        fit = min(fit, Fit.OTHER if lacking & had else Fit.LACKING)
    return fit if has_amount(query, text) else min(fit, Fit.LACKING)


def has_word(word: str, plain: str) -> bool:
    """Whether a text has a deciding word, with or without its "v" or "#", or spaces in a number and before its unit."""
    bare = word[1:] if word[0] in "v#" and word[1:2].isdigit() else word
    before = r"(?<!\w)(?<!\d\.)" if not bare[0].isdigit() else r"(?<![\w.])v?" if "." in bare else r"(?<![\w.])"
    form = re.escape(bare)
    if number := MEASURED.fullmatch(bare):
        digits = re.sub(r"(?<=\d)(?=(?:\d{3})+$)", " ?", number[1])
        form = f"{digits} ?{number[2]}" if number[2] else f"{digits}(?:[a-z%]{{1,3}}(?![\\w-]))?"
    return bool(re.search(rf"{before}{form}(?!\w|\.\d)", plain))


def found_nowhere(query: str, texts: Iterable[str]) -> list[str]:
    """Return the deciding words, other than days, that none of these texts has."""
    plain = [terms.ungrouped(terms.folded(text)).casefold() for text in texts]
    words = [word for word in deciding_words(query) if not terms.DAY_TERM.fullmatch(word)]
    return [word for word in words if not any(has_word(word, text) for text in plain)]


def day_in(query: str, text: str) -> Fit:
    """Return whether a text has a day of a question or one within its time, no day or another one."""
    days = [word for word in deciding_words(query) if terms.DAY_TERM.fullmatch(word)]
    if not days or not (named := {*terms.days_in(text)}):
        return Fit.UNDATED if days else Fit.WHOLE
    if any(day[0] == "-" for day in days):  # without a year
        days, named = [f"--{day[-5:]}" for day in days], {name for name in named if name[0] == "-"}
    else:
        named = {day[:5] + name[1:] if name[0] == "~" else name for name in named for day in days if name[0] != "-"}
    if limits := LIMITS.search(terms.without_days(query, "#")):
        first, last = "" if limits["until"] else days[0], "~" if limits["since"] else days[-1]
        return Fit.WHOLE if any(first <= name <= last for name in named) else Fit.OTHER
    return Fit.WHOLE if named & {*days} else Fit.OTHER


def shape_of(word: str) -> str:
    """Replace each run of digits and of letters by one character."""
    return LETTERS.sub("a", DIGITS.sub("9", word))


def has_amount(query: str, text: str) -> bool:
    """Whether a passage has an amount that the question may ask for; if it names what is counted, near it."""
    asked, words = (terms.WORD.findall(terms.ungrouped(one).casefold()) for one in (query, text))
    words = [word for word in words if not (word.isdecimal() and word in asked)]
    counted = HOW_MANY.search(query)
    if counted is None:
        return HOW_MUCH.search(query) is None or AMOUNT.search(" ".join(words)) is not None
    stems = stems_in(" ".join(counted.groups("")))
    numbers = [place for place, word in enumerate(words) if NUMBER.match(word)]
    things = [place for place, word in enumerate(words) if stems & stems_in(word)]
    return bool(numbers) and (not things or any(abs(one - other) <= WITHIN for one in things for other in numbers))


def is_answered(question: "Question", passages: Sequence[tuple[float, NDArray[np.float32]]]) -> bool:
    """Whether one of the best passages answers the question, or several together if it has several parts.

    `passages`: the evidence of each, and its nearness to each token of the question.
    """
    rule, parts = question.calibration, question.parts
    if not passages or rule.answers is None or not parts or len(parts) > MOST_PARTS or not ASKS.search(question.text):
        return bool(passages)
    nearest = np.array([[near[list(part)].mean() for part in parts] for _, near in passages])
    if SEVERAL.search(question.text):
        nearest[:] = nearest.max(axis=0)
    farthest = np.sort(nearest, axis=1)[:, int((len(parts) - 1) * LOWEST)]
    return bool((np.array([evidence for evidence, _ in passages]) + rule.farthest * farthest).max() >= rule.answers)
