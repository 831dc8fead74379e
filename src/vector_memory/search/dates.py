"""Removes dates from a query that is limited to a time: the texts of a day rarely name it."""

import re
from calendar import month_abbr, month_name

from vector_memory.domain import Scope
from vector_memory.domain.times import beginning_of, end_of
from vector_memory.errors import ValidationError

MONTHS = {name: f"{number:02}" for number, name in enumerate(month_name) if name}
MONTHS |= {name: f"{number:02}" for number, name in enumerate(month_abbr) if name} | {"Sept": "09"}
NAMES = frozenset({"March", "April", "May", "June", "August"})
"""Months that are also words or the names of people: alone they are dates only after a word such as `in`."""

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
"""A date in English or as ISO 8601, with the words before it. Numbers alone may be anything: a port, a release."""

PART = re.compile(rf"(?P<year>\d{{4}})|(?P<day>\d{{1,2}})|(?P<month>{MONTH})")
SPACES = re.compile(r"\s+")
WORD = re.compile(r"\w+")
BETWEEN_DATES = frozenset({"and", "between", "from", "or", "to"})


def without_dates(query: str, scope: Scope) -> str:
    """Return the query without the dates that are in the time of the scope; unchanged if nothing else would be left."""
    if scope.created_after is None and scope.created_before is None:
        return query

    def kept(found: re.Match[str]) -> str:
        return " " if any(is_within(date, scope) for date in readings(found[str(found.lastgroup)], scope)) else found[0]

    left = SPACES.sub(" ", DATE.sub(kept, query)).strip()
    return query if BETWEEN_DATES.issuperset(WORD.findall(left.casefold())) else left


def readings(text: str, scope: Scope) -> list[str]:
    """Return the date as ISO 8601; if it names no year, in those in which, or next to which, the scope begins or ends.

    Of several days the first.
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
    """Return whether a date overlaps the time of a scope; False if there is no such date."""
    try:
        first, last = beginning_of("date", date), end_of("date", date)
    except ValidationError:
        return False
    return first <= (scope.created_before or last) and last >= (scope.created_after or first)
