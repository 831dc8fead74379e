"""Leaves the date out of a query that is limited to a time: the texts of a day rarely name it."""

import re
from calendar import month_name

from vector_memory.domain import Scope
from vector_memory.domain.times import beginning_of, end_of
from vector_memory.errors import ValidationError

MONTHS = {name: f"{number:02}" for number, name in enumerate(month_name) if name}
MONTH = f"(?:{'|'.join(MONTHS)})"
NUMBER = r"\d{1,2}(?:st|nd|rd|th)?"
DATE = re.compile(
    rf"""
    (?<![\w.\#-])(?:(?:on|in|of|during|since|until|before|after|by)[ ]+)?(?:the[ ]+)?
    (?P<date>
        \d{{4}}-\d\d(?:-\d\d)?
        | {NUMBER}(?:[ ]+of)?[ ]+{MONTH}(?:,?[ ]+\d{{4}})?
        | {MONTH}(?:[ ]+{NUMBER})?(?:,?[ ]+\d{{4}})?
        | (?:19|20)\d\d
    )(?![.-]?\w)
    """,
    re.VERBOSE,
)
"""A date in English or as ISO 8601, with the words before it."""

PART = re.compile(rf"(?P<year>\d{{4}})|(?P<day>\d{{1,2}})|(?P<month>{MONTH})")
SPACES = re.compile(r"\s+")


def without_dates(query: str, scope: Scope) -> str:
    """Return the query without the dates that are in the time of the scope; unchanged if nothing else would be left."""
    if scope.created_after is None and scope.created_before is None:
        return query

    def kept(found: re.Match[str]) -> str:
        return " " if any(is_within(date, scope) for date in readings(found["date"], scope)) else found[0]

    left = SPACES.sub(" ", DATE.sub(kept, query)).strip()
    return left if re.search(r"\w", left) else query


def readings(text: str, scope: Scope) -> list[str]:
    """Return the date as ISO 8601; if it names no year, in each year that the scope begins or ends in."""
    if text[4:5] == "-":
        return [text]
    parts = {str(found.lastgroup): found[0] for found in PART.finditer(text)}
    years = [bound[:4] for bound in (scope.created_after, scope.created_before) if bound]
    month = f"-{MONTHS[parts['month']]}" if "month" in parts else ""
    day = f"-{int(parts['day']):02}" if "day" in parts else ""
    return [f"{year}{month}{day}" for year in ([parts["year"]] if "year" in parts else years)]


def is_within(date: str, scope: Scope) -> bool:
    """Return whether a date overlaps the time of a scope; False if there is no such date."""
    try:
        first, last = beginning_of("date", date), end_of("date", date)
    except ValidationError:
        return False
    return first <= (scope.created_before or last) and last >= (scope.created_after or first)
