"""What a search answer says in words."""

from collections.abc import Sequence

from vector_memory.results import Omitted
from vector_memory.values import Scope


def explain(noun: str, count: int, scope: Scope, omitted: Sequence[Omitted], *, read_with: str) -> str:
    """Say how much was found, where, and how to get what did not fit."""
    if not count:
        return f"Nothing is stored in this scope ({describe(scope)}): widen it by leaving filters out."
    text = f"{count} {noun}{'' if count == 1 else 's'}."
    if omitted:
        text += (
            f" {len(omitted)} more matched but did not fit into one answer: see omitted, and read them with "
            f"{read_with}, or ask with a smaller limit or a narrower query."
        )
    return text


def describe(scope: Scope) -> str:
    """Name the filters, without their values: those are the caller's own words."""
    return ", ".join(scope.as_filters())
