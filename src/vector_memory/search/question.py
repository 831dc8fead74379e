"""Turns a query into a question: its words and, unless only words can be compared, its vector."""

import re
from calendar import month_abbr, month_name
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vector_memory.domain import Scope, SearchMode
from vector_memory.domain.times import beginning_of, end_of
from vector_memory.domain.validation import MAX_QUERY, check_text
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.description import UNKNOWN, Calibration
from vector_memory.embedding.token_states import States
from vector_memory.errors import EmbeddingUnavailableError, ValidationError
from vector_memory.search.gate import GENERAL, specific_words
from vector_memory.storage.scoring import NOTHING_TYPED, VECTOR_WEIGHT, VECTOR_WEIGHT_OF_NAMES, Vectors
from vector_memory.storage.spelling import Spelling
from vector_memory.texts.terms import CAMEL_CASE, STOP_WORDS, asked_days, query_terms, stems_of, without_days

LOADING_SECONDS = 10.0
"""Seconds a search waits for the model to load before it answers by words. A busy machine needs several."""

UNREAD = (
    "The embedding model cannot read this question: a multilingual one such as multilingual-e5-small does "
    "(VECTOR_MEMORY_EMBEDDING_MODEL)."
)

STILL_LOADING = "The embedding model is still loading: repeat the call in a moment."

REFERENCE = re.compile(
    r"""
    \#?\d[\d.,:/-]*  # numbers, dates and times, addresses: #42, 2026-10-05, 10.0.0.1:8080
    | v?\d++(?>(?:\.\d++)+)[\w.+-]*+  # versions
    | (?=[a-f]*\d)(?=\d*[a-f])[\da-f]{7,64}  # hashes
    | [\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}  # UUIDs
    | [a-z]+(?:-\d+)*-\d{2,} | [a-z]\d{3,}  # tickets and codes: CVE-2026-1234, E0502
    | [a-z]+://\S+ | (?:[\w-]+\.)+[a-z]{2,}/\S+ | \S+@[\w-]+(?:\.[\w-]+)+  # URLs, hosts with a path, e-mail addresses
    | /?[\w.-]+(?:/[\w.-]+)+\.\w{1,5}  # paths of files
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
"""A word that names one thing."""

NAME = re.compile(
    rf"""
    --?[A-Za-z][\w-]++  # flags
    | (?=\w*?[^\W_]_+[^\W_])\w++(?:\(\))?  # store_report, MAX_QUERY
    | (?={CAMEL_CASE.pattern})\w++(?:\(\))?  # getUserById, HTTPServer
    | \w++(?>(?:(?:\.|::)\w++)+)(?:\(\))?  # members, modules, names of files
    """,
    re.VERBOSE,
)
"""An identifier of a program."""

AROUND = "`'\"()[]<>,;:.?!"
"""Characters that may surround such a word."""

SHORTEST, LONGEST = 4, 32
"""Number of letters of a word that may be misspelt. Shorter words have too many neighbours."""
SHORTEST_NAME = 6
"""Minimum letters of a capitalized word within a question: Joan is not Jon."""

TASK = re.compile(r"[A-Za-z]\w*-\d+", re.ASCII)
TIME_OF_DAY = re.compile(r"(?<![\w:.])\d?\d:[0-5]\d(?![\w:])")
ASKING = GENERAL | STOP_WORDS
"""Words of a question for a day or a time that name nothing."""

NUMBERED = re.compile(r"\b(?:task|memory|issue|ticket|pr)\s+(?=#\d)", re.IGNORECASE)
"""What a number names, as in `task #42`: such a word has no meaning of its own."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query, ready to be compared. `vector` is None in a search by words, `terms` is None in one by meaning.

    `problem`: why meaning is not compared although it was requested. `is_reference`: the query has no meaning.
    `is_unread`: the model cannot read it. `calibration`: when an answer is close. `weight`: of the cosine in a score.
    `day`: all that it names, if that is a day. `states`: of its tokens, for late interaction; None: none. `plain`:
    words that may be misspelt, by term. `respelt`: their corrections. `reworded`: prepares the question again with
    corrections, if its meaning is compared. `text`: the query. `parts`: its words, as places among `states` (see
    `gate`).
    """

    vector: Vectors | None
    terms: Sequence[str] | None
    problem: str | None = None
    is_reference: bool = False
    is_unread: bool = False
    day: str | None = None
    calibration: Calibration = UNKNOWN
    weight: float = VECTOR_WEIGHT
    states: States | None = None
    plain: Mapping[str, str] = field(default_factory=dict)
    respelt: Sequence[Spelling] = ()
    reworded: "Callable[[Collection[Spelling]], Question] | None" = None
    text: str = ""
    parts: Sequence[Sequence[int]] = ()

    @property
    def tells_matches(self) -> bool:
        """Whether match levels are reliable: not if the query has a meaning that was not compared."""
        return self.vector is not None or self.is_reference or self.is_unread

    def read_as(self, respelt: Mapping[str, Spelling]) -> "Question":
        """Apply spelling corrections, by the terms they replace."""
        read = tuple(respelt.values())
        terms = dict.fromkeys(respelt[one].term if one in respelt else one for one in self.terms or ())
        meant = self if self.reworded is None else self.reworded(read)
        states = None if self.states is None else meant.states
        return replace(meant, terms=list(terms), states=states, plain=NOTHING_TYPED, respelt=read)

    def by_words(self, problem: str) -> "Question":
        """Return the question for a search by words. `problem`: a sentence with the reason."""
        problem = f"Found by words only. {problem}"
        return replace(self, vector=None, states=None, problem=problem, reworded=None)


def prepare(query: str, model: EmbeddingModel, mode: SearchMode) -> Question:
    """Turn a query into a question, for all families of tools.

    Only words are compared if the model is missing or still loading, unless the mode requires meaning, and if the query
    is only a number, a code or an address, or in a script that the model cannot read.
    Raises ValidationError, EmbeddingUnavailableError.
    """
    check_text("query", query, MAX_QUERY)
    terms = None if mode is SearchMode.VECTOR else query_terms(query)
    plain: Mapping[str, str] = {} if terms is None else plain_words(query)
    if mode is SearchMode.KEYWORD:
        return Question(None, terms, plain=plain)
    if mode is SearchMode.HYBRID and is_reference(query):
        words, is_dated = words_besides_days(query)
        terms = [*asked_days(query), *query_terms(" ".join(words))] if is_dated else terms
        return Question(None, terms, is_reference=True, day=only_day(query), text=query)
    try:
        if mode is SearchMode.HYBRID and not model.wait_for_loading(LOADING_SECONDS):
            return Question(None, terms, plain=plain).by_words(STILL_LOADING)
        calibration = model.calibration_for(query)
        if mode is SearchMode.HYBRID and not calibration.weight:
            return Question(None, terms, is_unread=True, calibration=calibration).by_words(UNREAD)
        weight = calibration.weight * (VECTOR_WEIGHT_OF_NAMES if is_name(query) else VECTOR_WEIGHT)
        vector, states = model.encode_query(query)
        if calibration is not UNKNOWN:  # in the vocabulary of a known model, usual words are single tokens
            plain = {term: word for term, word in plain.items() if model.token_count(word) > 1}
        parts = specific_words(query, model.token_spans(query)) if states is not None and calibration.answers else ()
        return Question(
            vector, terms, calibration=calibration, weight=weight, states=states, plain=plain, text=query, parts=parts,
            reworded=lambda respelt: prepare(with_spellings(query, respelt), model, mode),
        )  # fmt: skip
    except EmbeddingUnavailableError as error:
        if mode is SearchMode.VECTOR:
            raise
        return Question(None, terms, plain=plain).by_words(str(error))


def with_spellings(query: str, respelt: Collection[Spelling]) -> str:
    """Return a query with spelling corrections."""
    words = {one.typed: one.word for one in respelt}
    return re.sub(rf"\b(?:{'|'.join(words)})\b", lambda typed: words[typed[0]], query)


def plain_words(query: str) -> dict[str, str]:
    """Return the words of a query that may be misspelt, by term: Latin letters, lower case after the first."""
    plain: list[str] = []
    for place, typed in enumerate(query.split()):
        word = typed.strip(AROUND).removesuffix("'s")
        is_plain = word.isascii() and word.isalpha() and word[1:].islower()
        shortest = SHORTEST if place == 0 or word.islower() else SHORTEST_NAME
        if is_plain and shortest <= len(word) <= LONGEST and word.lower() not in STOP_WORDS:
            plain.append(word)
    return dict(zip(stems_of(plain), plain, strict=True))


def is_reference(query: str) -> bool:
    """Whether every word of a query is a number, a code or an address, as in `task #42`.

    Vectors cannot compare such words: to the model, any two hashes are near each other.
    """
    words, is_dated = words_besides_days(query)
    return all(map(REFERENCE.fullmatch, words)) and bool(words or is_dated)


def words_besides_days(query: str) -> tuple[list[str], bool]:
    """Return the words of a query without days, and whether it has days or times; then without words that only ask."""
    rest = without_days(query)
    words, is_dated = NUMBERED.sub("", rest).split(), rest != query or TIME_OF_DAY.search(query) is not None
    asking = [word.strip(AROUND) for word in words]
    return [word for word in asking if word and word.casefold() not in ASKING] if is_dated else words, is_dated


def tasks_in(query: str) -> list[str]:
    """Return the words of a query that may be the codes of tasks."""
    words = (word.strip(AROUND) for word in query.split())
    return [word for word in words if TASK.fullmatch(word)]


def only_day(query: str) -> str | None:
    """Return the day that a query names, if it names nothing else."""
    words, _ = words_besides_days(query)
    days = [day for day in asked_days(query) if day[0].isdigit()]
    return days[0] if len(days) == 1 and not words and is_within(days[0], EVER) else None


def is_name(query: str) -> bool:
    """Whether every word of a query is an identifier or a reference, as in `getUserById`.

    The model cuts such words into pieces: a text that contains the name may be far from it, and one with a similar name
    near.
    """
    words = [word.strip(AROUND) if NAME.fullmatch(word) is None else word for word in query.split()]
    return bool(words) and all(NAME.fullmatch(word) or REFERENCE.fullmatch(word) for word in words)


# Removes dates from a query whose scope is limited to a time: texts of a day rarely name it.

MONTHS = {name: f"{number:02}" for number, name in enumerate(month_name) if name}
MONTHS |= {name: f"{number:02}" for number, name in enumerate(month_abbr) if name} | {"Sept": "09"}
NAMES = frozenset({"March", "April", "May", "June", "August"})
"""Months that are also words or names: alone, they are dates only after a word such as `in`."""

FULL = "|".join(name for name in month_name if name)
ALONE = "|".join(name for name in month_name if name and name not in NAMES)
MONTH = rf"(?:{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b\.?"
DAY = r"\d{1,2}(?:st|nd|rd|th)?"
DAYS = rf"{DAY}(?:[ ]?(?:-|\u2013|to)[ ]?{DAY})?"
YEAR = r"(?:19|20)\d\d"
DATE = re.compile(
    rf"""
    (?<![\w.\#/$€£'\u2019=-])(?<!(?i:version)[ ])
    (?:
        (?:(?:on|in|of|during|since|until|before|after|by|from)[ ]+)?(?:the[ ]+)?
        (?P<date>
            \d{{4}}-\d\d-\d\d
            | {DAYS}\.?(?:[ ]+of)?[ ]+{MONTH}(?:,?[ ]+{YEAR})?
            | {MONTH}[ ]+(?:{DAYS},?[ ]+)?{YEAR}
            | {MONTH}[ ]+{DAYS}
            | (?:{ALONE})(?![ ]+\d)
        )
        | (?:in|during|since|until|before|after)[ ]+(?P<month>{FULL})(?![ ]+\d)
        | (?:in|of|during|since|until|before|after|by|from)[ ]+(?P<year>{YEAR}(?:-\d\d)?)
    )
    (?![./'\u2019-]*\w)
    """,
    re.VERBOSE,
)
"""A date in English or ISO 8601, with its preposition. A bare number may be anything: a port, a release."""

PART = re.compile(rf"(?P<year>\d{{4}})|(?P<day>\d{{1,2}})|(?P<month>{MONTH})")
EVER = Scope()
SPACES = re.compile(r"\s+")
WORD = re.compile(r"\w+")
BETWEEN_DATES = frozenset({"and", "between", "from", "or", "to"})


def without_dates(query: str, scope: Scope) -> str:
    """Remove dates within the scope's time from a query; unchanged if nothing else would be left."""
    if scope.created_after is None and scope.created_before is None:
        return query

    def kept(found: re.Match[str]) -> str:
        return " " if any(is_within(date, scope) for date in readings(found[str(found.lastgroup)], scope)) else found[0]

    left = SPACES.sub(" ", DATE.sub(kept, query)).strip()
    return query if BETWEEN_DATES.issuperset(WORD.findall(left.casefold())) else left


def readings(text: str, scope: Scope) -> list[str]:
    """Return the possible readings of a date in ISO 8601; without a year, in the years around the scope's limits.

    For several days, the first.
    """
    if text[4:5] == "-":
        return [text]
    parts: dict[str, str] = {}
    for found in PART.finditer(text):
        parts.setdefault(str(found.lastgroup), found[0])
    bounds = [int(bound[:4]) for bound in (scope.created_after, scope.created_before) if bound]
    years = [int(parts["year"])] if "year" in parts else sorted({year + by for year in bounds for by in (-1, 0, 1)})
    month = f"-{MONTHS[parts['month'].rstrip('.')]}" if "month" in parts else ""
    day = f"-{int(parts['day']):02}" if "day" in parts else ""
    return [f"{year:04}{month}{day}" for year in years]


def is_within(date: str, scope: Scope) -> bool:
    """Whether a date overlaps the time of a scope; False if there is no such date."""
    try:
        first, last = beginning_of("date", date), end_of("date", date)
    except ValidationError:
        return False
    return first <= (scope.created_before or last) and last >= (scope.created_after or first)
