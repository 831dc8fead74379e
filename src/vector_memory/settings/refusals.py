"""Errors of settings that contradict each other."""

from pydantic_core import PydanticCustomError


def refused_together(message: str, *names: str) -> PydanticCustomError:
    """Return the error for settings that contradict each other; `names` are the ones to change."""
    return PydanticCustomError("together", "{message}", {"message": message, "names": names})
