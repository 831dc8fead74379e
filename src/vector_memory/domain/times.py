"""Times: ISO 8601 in UTC with microseconds, a fixed format that sorts as text."""

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta

from vector_memory.errors import ValidationError

PERIOD = re.compile(
    r"(?P<date>\d{4}(-\d\d(-\d\d)?)?)|"
    r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?)(?P<zone>Z|[+-]\d\d(:?[0-5]\d)?)?",
    re.ASCII,
)
"""A year, a month, a day, or a time down to the hour, minute, second or a fraction of one."""

FIRST, LAST = "0001-01-01T00:00:00.000000", "9999-12-31T23:59:59.999999"
"""Completions of a period to its first and last moment."""

EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)

MONTH = len("2026-10")

DAY = len("2026-10-05")

MAX_TTL_DAYS = 36_500

AT_ONCE_SECONDS = 10
"""Texts stored within this time of being written keep the order of storing, whatever the clock says."""


def utc_now(seconds_ago: float = 0) -> str:
    """Return the current time, or an earlier one."""
    return (datetime.now(UTC) - timedelta(seconds=seconds_ago)).isoformat(timespec="microseconds")


def utc(time: str) -> str:
    """Return a time with a time zone in this format. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(time)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):  # the latter at both ends of the calendar
        pass
    raise ValueError("must be a time with a time zone, such as 2026-01-31T12:00:00+00:00")


def past_time(name: str, value: object) -> str:
    """Return a caller's time; a future one becomes the present. Raises ValidationError."""
    try:
        return min(utc(value if isinstance(value, str) else ""), utc_now())
    except ValueError as error:
        raise ValidationError(f"{name} {error}.") from None


def future_time(name: str, value: object) -> str:
    """Return a caller's time, or the end of a day, month or year. Raises ValidationError if it is past."""
    is_day = isinstance(value, str) and len(value.strip()) <= DAY
    at = end_of(name, value) if is_day else beginning_of(name, value)
    if at <= utc_now():
        raise ValidationError(f"{name} is in the past: send a later time.")
    return at


def check_lifetime(ttl_days: float | None, expires_at: object) -> str | None:
    """Check the time or number of days after which a memory expires, and return the time. Raises ValidationError."""
    if ttl_days is not None and expires_at is not None:
        raise ValidationError("Send ttl_days or expires_at, not both.")
    if ttl_days is not None:
        is_number = isinstance(ttl_days, int | float) and not isinstance(ttl_days, bool)
        if not is_number or not 0 < ttl_days <= MAX_TTL_DAYS:
            raise ValidationError(f"ttl_days must be a number above 0, up to {MAX_TTL_DAYS:,}.")
    return None if expires_at is None else future_time("expires_at", expires_at)


def after_days(time: str, days: float) -> str:
    """Return a time in this format, `days` later."""
    return (datetime.fromisoformat(time) + timedelta(days=days)).isoformat(timespec="microseconds")


def microseconds(time: str) -> int:
    """Return a time in this format as microseconds since 1970; 0 for a damaged one."""
    try:
        return (datetime.fromisoformat(time) - EPOCH) // MICROSECOND
    except (ValueError, TypeError):
        return 0


def beginning_of(name: str, period: object) -> str:
    """Return the first moment of a year, month, day, hour, minute or second. Raises ValidationError."""
    return _moment(name, period, FIRST)


def end_of(name: str, period: object, or_else: str = "") -> str:
    """Return the last moment of a year, month, day, hour, minute or second.

    Raises ValidationError. `or_else`: what a caller could send instead.
    """
    return _moment(name, period, LAST, or_else)


def _moment(name: str, period: object, pattern: str, or_else: str = "") -> str:
    """Return the period's first or last moment. Without a time zone it is in UTC."""
    found = PERIOD.fullmatch(period.strip().upper()) if isinstance(period, str) else None
    try:
        if found is not None:
            text = (found["date"] or found["time"])[: len(pattern)]
            if len(text) == MONTH and pattern == LAST:
                text += f"-{monthrange(int(text[:4]), int(text[5:]))[1]}"
            return utc(text + pattern[len(text) :] + (found["zone"] or "Z"))
    except ValueError:  # there is no such month, day or hour
        pass
    other = f"{or_else}, or " if or_else else ""
    raise ValidationError(f"{name} must be {other}a date or time, such as 2026-10-05, 2026-10 or 2026-10-05T14:30Z.")
