"""What a search answer says in words. Filters are named without their values: those are the caller's own words."""

from collections.abc import Mapping, Sequence
from typing import Any

from vector_memory.domain import MemoryKind, Scope
from vector_memory.results.budget import Packed

PLACES = {
    "other_iterations": "in the session's other iterations",
    "other_agents": "from other agents",
    "knowledge_base": "in the knowledge base",
    "other_categories": "with other categories and tags",
}


def explain(noun: str, answer: Packed[Any], notes: Sequence[str], *, read_with: str) -> str:
    """Say how much was found, what is to be known about it, and how to get what did not fit or was not asked for."""
    count, left_out = len(answer.results), answer.left_out
    nouns = noun if count == 1 else f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    sentences = [f"{count} {nouns}."] if count else []
    sentences += notes
    if left_out:
        named = "see omitted" if left_out == len(answer.omitted) else f"the first {len(answer.omitted)} are in omitted"
        sentences.append(
            f"{left_out}{' more' if count else ''} did not fit into the answer: {named}; read them with {read_with}, "
            f"or repeat with offset={answer.next_offset}{'' if count else ' or a larger max_tokens'}."
        )
    elif answer.next_offset is not None:
        sentences.append(f"For more, repeat with offset={answer.next_offset}.")
    return " ".join(sentences) or "No more results: send a smaller offset."


def scope_in_words(scope: Scope) -> str:
    """Name the filters of a scope; that of the tagged memories is none that a caller has sent."""
    names = [name for name in scope.as_filters() if name != "memory_type" or scope.kind is not MemoryKind.TAGGED]
    return f"this scope ({', '.join(names)})" if names else "this memory"


def nothing_stored(scope: Scope) -> str:
    """Say that a scope is empty."""
    said = f"Nothing is stored in {scope_in_words(scope)}"
    return f"{said} yet." if said.endswith("this memory") else f"{said}: omit filters to search more."


def not_indexed(count: int, pending: int) -> str:
    """Say that some memories of a scope cannot be found by meaning yet, `pending` of them only for a moment."""
    memories, have = ("memory", "has") if count == 1 else ("memories", "have")
    advice = "repeat the search in a moment" if pending == count else "run backfill"
    return f"{count} {memories} in this scope {have} no vectors yet and can be found by words only: {advice}."


def cut_short(scope: Scope) -> str:
    """Say that a search has not looked at all that may be as good."""
    return f"Not everything in {scope_in_words(scope)} was compared, and some results may be missing: add filters."


def all_too_different(threshold: float) -> str:
    """Say that a threshold has left nothing."""
    return f"Everything in this scope is less similar than VECTOR_MEMORY_SIMILARITY_THRESHOLD ({threshold:g})."


def no_such_words(scope: Scope) -> str:
    """Say that a search by words has found nothing."""
    return f"Nothing in {scope_in_words(scope)} contains any of these words: try other words."


def weak(scope: Scope, memories: int, similarity: float) -> str:
    """Say that a scope seems to have nothing on the topic."""
    held = f"{memories:,} {'memory' if memories == 1 else 'memories'}"
    return (
        f"No close match: these results may be unrelated; the best similarity in {scope_in_words(scope)}, with {held}, "
        f"is {similarity:.2f}."
    )


def somewhere_else(counts: Mapping[str, int]) -> str:
    """Say where else there is something near the question."""
    places = ", ".join(f"{count} {PLACES[place]}" for place, count in counts.items())
    return f"There are closer matches elsewhere: {places}."
