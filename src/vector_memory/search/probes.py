"""Answers several questions in one search."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast, get_args

from vector_memory.answers import models
from vector_memory.answers.budget import ResponseBudget, explain, listed
from vector_memory.answers.mapping import counted_with_copies, cut_note
from vector_memory.domain import LINES, MatchLevel, Page
from vector_memory.domain.validation import MAX_LIMIT
from vector_memory.errors import ValidationError
from vector_memory.search.answer import NAMED
from vector_memory.search.copies import copies_in, results_needed, whole_runs, without_copies
from vector_memory.search.judge import latest_first, on_page
from vector_memory.search.later import without_repeated
from vector_memory.search.messages import somewhere_else, with_counts
from vector_memory.storage.queries.memories import Hidden

A = TypeVar("A", models.FineSearchResult, models.MediumSearchResult, models.CoarseSearchResult)
H = TypeVar("H", bound=models.FoundChunk | models.FoundSection | models.FoundMemory)

Hit = models.FoundChunk | models.FoundSection | models.FoundMemory

MAX_QUERIES = 5

LEVELS: tuple[MatchLevel, ...] = get_args(MatchLevel)
"""The best first."""


def asked(query: str | None, queries: Sequence[str] | None) -> str | list[str] | None:
    """Join `query` and `queries`, of which a caller may send either or both. Raises ValidationError."""
    if not queries:
        return query
    both = list(dict.fromkeys([*([] if query is None else [query]), *queries]))
    if len(both) > MAX_QUERIES:
        raise ValidationError(f"There are {len(both)} questions: send up to {MAX_QUERIES} in one call.")
    return both[0] if len(both) == 1 else both


class Probes:
    """Answers several questions. `record_access` counts whole memories as read."""

    def __init__(self, budget: ResponseBudget, record_access: Callable[[Sequence[int]], None]) -> None:
        self._budget = budget
        self._record_access = record_access

    def ask(self, queries: Sequence[str], page: Page, search: Callable[..., A]) -> A:
        """Return one answer to up to 5 questions, with the best hit of each.

        `search` answers one question for a page. Only the best 100 hits of a question count. Raises ValidationError.
        """
        questions = asked(None, queries)
        if questions is None:
            raise ValidationError(f"A question is missing: send query, or up to {MAX_QUERIES} in queries.")
        if isinstance(questions, str):
            return search(questions, page=page)
        answers, found = self._found(questions, page, search)
        answer = self._budget.within(page.max_tokens).fit(lambda budget: joint_answer(answers, found, page, budget))
        if isinstance(answer, models.CoarseSearchResult):
            self._record_access([memory.id for memory in answer.results])
        return answer

    def _found(
        self, questions: Sequence[str], page: Page, search: Callable[..., A]
    ) -> tuple[Sequence[A], Sequence[Hit]]:
        """Return the answers, and their joint results for a page; see `results_for`."""
        needed = results_needed(page)
        wanted = min(whole_runs(needed), MAX_LIMIT)
        while True:
            rest = max(0, wanted - page.limit)
            part = replace(page, offset=rest, detail=None, copies=not page.folds, is_part=True)
            answers = [search(one, page=part) for one in questions]
            found = in_fair_order([list(answer.results) for answer in answers])
            are_all = wanted == MAX_LIMIT or all(len(answer.results) < wanted for answer in answers)
            sure = len(found) if are_all else wanted  # hits beyond these may change with longer lists
            copies = copies_in(found[:sure], needed, lambda run: [hit.said for hit in run])
            if are_all or sure - len(copies) >= needed:
                break
            wanted = MAX_LIMIT
        found = without_copies(found, copies)
        return answers, latest_first(found, {hit.memory_id: hit.newer for hit in found})


def joint_answer(answers: Sequence[A], found: Sequence[Hit], page: Page, budget: ResponseBudget) -> A:
    """Return the page of the joint results that fits."""
    following, left_out, more = on_page(found, page, len(answers))
    wanted = without_repeated(following)
    first = answers[0]
    if page.detail == LINES:
        lines, packed = listed(budget, cast("Sequence[models.FoundMemory]", wanted), page, more=more)
        shown = []
    else:
        shown = fitted(budget, wanted)
        lines, packed = [], budget.packed(wanted, shown, page, more=more)
    levels = [answer.confidence for answer in answers if answer.confidence is not None]
    best = min(levels, key=LEVELS.index, default=None)
    notes = with_counts(list(dict.fromkeys(notes_of(answers, best))), left_out, Hidden(first.superseded, first.pending))
    noun, read_with = NAMED[type(first)]
    update: dict[str, Any] = {
        "total_results": counted_with_copies(packed.results),
        "confidence": best,
        "weak": left_out,
        "best_superseded": next(filter(None, (answer.best_superseded for answer in answers)), None),
        "elsewhere": elsewhere_of(answers) if best != LEVELS[0] else {},
        "message": explain(noun, packed, notes, read_with=read_with),
    }
    if isinstance(first, models.CoarseSearchResult):
        memories = cast("Sequence[models.FoundMemory]", shown)
        update |= {"query": None, "limit": page.limit, "message": f"{update['message']}{cut_note(memories)}"}
    if page.detail == LINES:
        update |= {"lines": lines}
    return first.model_copy(update=packed.fields() | {"results": shown} | update)


def fitted(budget: ResponseBudget, hits: Sequence[H]) -> list[H]:
    """Return the first hits that fit; a hit that does not fit alone is cut."""
    if all(isinstance(hit, models.FoundMemory) for hit in hits):
        return cast("list[H]", budget.share(cast("Sequence[models.FoundMemory]", hits)))
    return cast("list[H]", budget.held(cast("Sequence[models.FoundChunk | models.FoundSection]", hits)))


def in_fair_order(lists: Sequence[Sequence[H]]) -> list[H]:
    """Merge several lists; each hit occurs once, with its best score and match.

    First comes the best hit of each list, then all others by score, last the weak ones. The order does not change when
    the lists become longer.
    """
    best: dict[tuple[int, int], H] = {}
    order: dict[tuple[int, int], tuple[bool, bool, float, int]] = {}
    for each in lists:
        for place, hit in enumerate(each):
            key, own = text_of_hit(hit), (hit.match == "weak", place > 0, -score_of(hit), place)
            order[key] = min(own, order.get(key, own))
            best[key] = better(best.get(key, hit), hit)
    return [best[key] for key in sorted(best, key=lambda key: (order[key], key))]


def better(one: H, other: H) -> H:
    """Merge two hits of the same text: the higher score, the better match."""
    match = next((level for level in LEVELS if level in (one.match, other.match)), None)
    update = {"match": match, "observations": one.observations or other.observations}
    return cast("H", max(one, other, key=score_of).model_copy(update=update))


def elsewhere_of(answers: Sequence[models.SearchResult]) -> dict[str, int]:
    """Return for each other scope the highest count of strong matches of any question."""
    counts: dict[str, int] = {}
    for place, count in (each for answer in answers for each in answer.elsewhere.items()):
        counts[place] = max(count, counts.get(place, 0))
    return counts


def text_of_hit(hit: Hit) -> tuple[int, int]:
    """Return a key that identifies a hit within its grain."""
    if isinstance(hit, models.FoundChunk):
        return hit.memory_id, hit.chunk_id
    return (hit.memory_id, hit.section_start) if isinstance(hit, models.FoundSection) else (hit.id, 0)


def score_of(hit: Hit) -> float:
    """Return a hit's sort key."""
    return hit.score or 0.0


def notes_of(answers: Sequence[models.SearchResult], best: MatchLevel | None) -> Iterator[str]:
    """Yield the notes of the answers with the best match, and which questions have no close match."""
    for number, answer in enumerate(answers, 1):
        if answer.confidence == best or best is None:
            yield from answer.notes
        elif answer.confidence is not None:
            places = f" {somewhere_else(answer.elsewhere, advise=True)}" if answer.elsewhere else ""
            yield f"No close match for question {number}.{places}"
