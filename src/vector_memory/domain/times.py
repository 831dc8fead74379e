"""Times: ISO 8601 in UTC with microseconds, a fixed format that sorts as text."""

from datetime import UTC, datetime

from vector_memory.errors import ValidationError


def utc_now() -> str:
    """Return the current time."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


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
    """Return a time that a caller gives; one in the future becomes the present. Raises ValidationError."""
    try:
        return min(utc(value if isinstance(value, str) else ""), utc_now())
    except ValueError as error:
        raise ValidationError(f"{name} {error}.") from None
