"""Lists the tags of tagged memories: those in use, and the canonical ones with their frequencies and weights."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from pydantic import BaseModel

from vector_memory.domain.text import counted
from vector_memory.domain.validation import check_range
from vector_memory.results.budget import ResponseBudget
from vector_memory.results.tagged import (
    CanonicalTagEntry,
    CanonicalTagsResult,
    TagFrequenciesResult,
    TagWeightsResult,
    UniqueTagsResult,
)
from vector_memory.storage.base import Storage
from vector_memory.tagged.tags import ALL_TAGGED, weight

A = TypeVar("A", bound=BaseModel)
E = TypeVar("E", bound=BaseModel)

MAX_TAG_OFFSET = 100_000_000
"""Maximum number of tags: ten on each of ten million notes."""


class TagEntry(BaseModel):
    """A tag as a model, so that its length in an answer can be measured."""

    tag: str


class TagListing:
    """Lists as many tags as fit into an answer, after skipping `offset`."""

    def __init__(self, storage: Storage, budget: ResponseBudget) -> None:
        self._storage = storage
        self._budget = budget

    def unique(self, offset: int = 0) -> UniqueTagsResult:
        """Return the tags in use, in alphabetical order."""
        with self._storage.read() as reader:
            tags = [TagEntry(tag=tag) for tag in reader.count_by(ALL_TAGGED, "tag")]
        return self._fitting(
            tags, offset, lambda shown, rest: UniqueTagsResult(tags=[one.tag for one in shown], **rest)
        )

    def canonical(self, offset: int = 0) -> CanonicalTagsResult:
        """Return the canonical tags, most frequent first."""
        return self._fitting(self._canonical(), offset, lambda shown, rest: CanonicalTagsResult(tags=shown, **rest))

    def frequencies(self, offset: int = 0) -> TagFrequenciesResult:
        """Return how many memories were ever stored with each canonical tag, most frequent first."""

        def answer(shown: list[CanonicalTagEntry], rest: dict[str, Any]) -> TagFrequenciesResult:
            return TagFrequenciesResult(frequencies={one.tag: one.frequency for one in shown}, **rest)

        return self._fitting(self._canonical(), offset, answer)

    def weights(self, offset: int = 0) -> TagWeightsResult:
        """Return the weight of each canonical tag, lowest (most frequent) first."""

        def answer(shown: list[CanonicalTagEntry], rest: dict[str, Any]) -> TagWeightsResult:
            return TagWeightsResult(weights={one.tag: weight(one.frequency) for one in shown}, **rest)

        return self._fitting(self._canonical(), offset, answer)

    def _canonical(self) -> list[CanonicalTagEntry]:
        with self._storage.read() as reader:
            return [CanonicalTagEntry(**asdict(tag)) for tag in reader.canonical_tags()]

    def _fitting(self, tags: list[E], offset: int, answer: Callable[[list[E], dict[str, Any]], A]) -> A:
        """Return `answer` for the tags after the first `offset` that fit."""
        check_range("offset", offset, 0, MAX_TAG_OFFSET)

        def build(budget: ResponseBudget) -> A:
            shown = budget.fitting(tags[offset:])
            return answer(shown, page(shown, offset, len(tags)))

        return self._budget.fit(build)


def page(shown: Sequence[BaseModel], offset: int, total: int) -> dict[str, Any]:
    """Return the fields that say which part of the tags a result contains."""
    end = offset + len(shown)
    more = end < total
    return {
        "total": total,
        "next_offset": end if more else None,
        "message": f"{len(shown):,} of {counted(total, 'tag')}."
        + (f" For more, repeat with offset={end}." if more else ""),
    }
