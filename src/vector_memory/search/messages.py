"""The sentences of search answers. They name filters without their values, which are the caller's own words."""

from collections.abc import Mapping, Sequence

from vector_memory.answers.forms import FORM
from vector_memory.domain import MemoryKind, Scope
from vector_memory.domain.text import counted
from vector_memory.storage.queries.memories import Hidden
from vector_memory.storage.spelling import Spelling

NOUNS = {
    MemoryKind.SESSION_CONTEXT: ("session context", "session contexts", "search_session_context"),
    MemoryKind.INPUT_PROMPT: ("prompt", "prompts", "search_input_prompts"),
    MemoryKind.SYSTEM_MEMORY: ("system memory", "system memories", "search_system_memory"),
    MemoryKind.REPORT: ("report", "reports", "search_reports_specific_chunks"),
    MemoryKind.REPORT_OBSERVATION: ("observation", "observations", "load_session_context_for_task"),
    MemoryKind.WORKING_MEMORY: ("working memory", "working memories", "search_working_memory_specific_chunks"),
    MemoryKind.KNOWLEDGE_BASE: (
        "knowledge base entry", "knowledge base entries", "search_knowledge_base_specific_chunks",
    ),
    MemoryKind.TAGGED: ("note", "notes", "search_memories"),
}  # fmt: skip
"""Each kind in the singular and plural, and the tool that finds its memories."""

PLACES = {
    "other_times": ("from other times", "omit created_after and created_before"),
    "other_iterations": ("in the session's other iterations", "omit session_iter"),
    "other_agents": ("from other agents", "omit agent_id"),
    "other_tasks": ("from other tasks", "omit task_code"),
    "other_sessions": ("in other sessions", "omit session_id"),
    "other_categories": ("with other categories and tags", "omit category and tags"),
    **{str(kind): (f"among the {several}", tool) for kind, (_, several, tool) in NOUNS.items()},
    "knowledge_base": ("in the knowledge base", NOUNS[MemoryKind.KNOWLEDGE_BASE][2]),
}
"""Other scopes with matches, and how to search there."""


def scope_in_words(scope: Scope) -> str:
    """Return the kind and the filters of a scope in words."""
    names = filters_of(scope)
    return f"these {noun_of(scope.kind)}" + (f" ({', '.join(names)})" if names else "")


def filters_of(scope: Scope) -> list[str]:
    """Return the names of the filters a caller sent, without the kind, which the tool sets."""
    return [name for name in scope.as_filters() if name != "memory_type"]


def noun_of(kind: MemoryKind | None) -> str:
    """Return the plural noun for memories of a kind."""
    return NOUNS[kind][1] if kind else "memories"


def kinds_in_words(counts: Mapping[MemoryKind, int]) -> str:
    """List how many memories of each kind there are, and which tool finds them."""
    return ", ".join(f"{counted(count, *NOUNS[kind][:2])} ({NOUNS[kind][2]})" for kind, count in counts.items())


IN_TIME = "a server computes them in the background, or `vector-memory backfill` at once"
"""How missing vectors are computed."""


def not_indexed(count: int, pending: int) -> str:
    """Report that some memories cannot be found by meaning yet, `pending` of them only for a moment."""
    memories, lack = ("memory", "lacks") if count == 1 else ("memories", "lack")
    advice = "repeat the search in a moment" if pending == count else IN_TIME
    return f"{count} {memories} in this scope still {lack} vectors and may be found by words only: {advice}."


def cut_short(scope: Scope) -> str:
    """Report that a search did not compare everything."""
    return f"Not all of {scope_in_words(scope)} were compared, and some results may be missing: add filters."


def all_too_different(threshold: float) -> str:
    """Report that the threshold excluded everything."""
    return f"Everything in this scope is less similar than VECTOR_MEMORY_SIMILARITY_THRESHOLD ({threshold:g})."


def no_such_words(scope: Scope) -> str:
    """Report that a search by words found nothing."""
    return f"None of {scope_in_words(scope)} contains any of these words: try other words."


def read_as(respelt: Sequence[Spelling]) -> str:
    """Report the spelling corrections of a query."""
    return " ".join(f"No '{one.typed}'; searched '{one.word}'." for one in respelt)


NO_MATCH = "No match: nothing here answers the question."
"""Replaces results if all are weak."""


def of_task(count: int, task: str, kind: MemoryKind | None) -> str:
    """Report memories of a task that a question names, and how to search only these."""
    return f'The task {task} has {count} of these {noun_of(kind)}: add task_code="{task}" for only these.'


def missing_words(words: Sequence[str]) -> str:
    """Report words of the question that no result has."""
    named = " or ".join(f"'{word}'" for word in words)
    return f"Nothing found here has {named}."


def better_but_superseded(memory_id: int, newer: Sequence[int], read_with: str) -> str:
    """Report that the best match is superseded, by what, and how to read it."""
    by = ", ".join(map(str, newer))
    return f'The best match, memory {memory_id}, is superseded by {by}: {read_with} reads them, as_of="any" finds both.'


NO_CLOSE_MATCH = "No close match: these results may be unrelated."
"""Precedes results that seem to be on another topic."""


def somewhere_else(counts: Mapping[str, int], *, advise: bool = False) -> str:
    """Report closer matches elsewhere; `advise` adds how a tool finds them."""
    places = [
        f"{count} {where} ({how})" if advise else f"{count} {where}"
        for (where, how), count in ((PLACES[place], count) for place, count in counts.items())
    ]
    return f"There are closer matches elsewhere: {', '.join(places)}."


NONE_HIDDEN = Hidden()


def with_counts(notes: Sequence[str | None], left_out: int, hidden: Hidden = NONE_HIDDEN) -> list[str]:
    """Add notes on weak results and memories that were left out; a lean answer has their counts instead."""
    counts = (
        (left_out, counted(left_out, "weak match", "weak matches")),
        (hidden.superseded, counted(hidden.superseded, "superseded memory", "superseded memories")),
        (hidden.pending, f"{counted(hidden.pending, 'memory', 'memories')} that a person has yet to accept"),
    )
    said = [f"{what} left out." for number, what in counts if number and FORM.get().tells_counts]
    return list(filter(None, [*notes, *said]))
