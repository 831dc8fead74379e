"""What a search answer says in words."""

from collections.abc import Sequence

from vector_memory.results import Omitted
from vector_memory.values import Scope


def explain(noun: str, count: int, problem: str | None, omitted: Sequence[Omitted], *, read_with: str) -> str:
    """Say how much was found, why not more, and how to get what did not fit."""
    sentences = [f"{count} {noun}{'' if count == 1 else 's'}."] if count else []
    if omitted:
        sentences.append(
            f"{len(omitted)} more did not fit into one answer: see omitted, and read them with {read_with}, or ask "
            "with a smaller limit or a narrower query."
        )
    if problem:
        sentences.append(problem)
    return " ".join(sentences)


def nothing_stored(scope: Scope) -> str:
    """Say that a scope is empty. Filters are named without their values: those are the caller's own words."""
    return f"Nothing is stored in this scope ({', '.join(scope.as_filters())}): widen it by leaving filters out."


def not_indexed(count: int) -> str:
    """Say that some memories of a scope cannot be found by meaning yet."""
    return f"{count} memories of this scope have no vectors yet, so they cannot be found by meaning: run backfill."


def all_too_different(threshold: float) -> str:
    """Say that a threshold has left nothing."""
    return f"Everything in this scope is less similar than SIMILARITY_THRESHOLD ({threshold:g})."
