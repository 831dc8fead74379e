"""The tags of the tagged memories: which are in use, which are canonical, how often they were used, what they say."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from vector_memory.domain import MemoryKind, Scope
from vector_memory.results.budget import Packer
from vector_memory.results.tagged import (
    CanonicalTagEntry,
    CanonicalTagsResult,
    TagFrequenciesResult,
    TagWeightsResult,
    UniqueTagsResult,
)
from vector_memory.storage.base import Storage
from vector_memory.storage.records import CanonicalTag
from vector_memory.tagged.tags import weight
from vector_memory.validation import check_range

A = TypeVar("A", bound=BaseModel)

MAX_OFFSET = 100_000_000
"""So many tags can there be: ten on each of ten million notes."""


EVERYTHING = Scope(kind=MemoryKind.TAGGED)


class Word(BaseModel):
    """A tag, to be measured."""

    tag: str


class TagListing:
    """Lists tags after the first `offset`, as many as fit into an answer."""

    def __init__(self, storage: Storage, packer: Packer) -> None:
        self._storage = storage
        self._packer = packer

    def unique(self, offset: int = 0) -> UniqueTagsResult:
        """Return the tags that stand on memories now, in the order of the alphabet."""
        check_range("offset", offset, 0, MAX_OFFSET)
        with self._storage.read() as reader:
            tags = list(reader.count_by(EVERYTHING, "tag"))

        def build(packer: Packer) -> UniqueTagsResult:
            words = packer.fitting([Word(tag=tag) for tag in tags[offset:]])
            return UniqueTagsResult(tags=[word.tag for word in words], **page(words, offset, len(tags)))

        return self._packer.fit(build)

    def canonical(self, offset: int = 0) -> CanonicalTagsResult:
        """Return the canonical tags, the most frequent first."""
        return self._canonical(offset, lambda entries, facts: CanonicalTagsResult(tags=entries, **facts))

    def frequencies(self, offset: int = 0) -> TagFrequenciesResult:
        """Return on how many memories each canonical tag was ever stored, the most frequent first."""

        def answer(entries: list[CanonicalTagEntry], facts: dict[str, Any]) -> TagFrequenciesResult:
            return TagFrequenciesResult(frequencies={entry.tag: entry.frequency for entry in entries}, **facts)

        return self._canonical(offset, answer)

    def weights(self, offset: int = 0) -> TagWeightsResult:
        """Return how much each canonical tag says, the most frequent, which says least, first."""

        def answer(entries: list[CanonicalTagEntry], facts: dict[str, Any]) -> TagWeightsResult:
            return TagWeightsResult(weights={entry.tag: weight(entry.frequency) for entry in entries}, **facts)

        return self._canonical(offset, answer)

    def _canonical(self, offset: int, answer: Callable[[list[CanonicalTagEntry], dict[str, Any]], A]) -> A:
        """Return an answer about the canonical tags after the first `offset` that fit into it."""
        check_range("offset", offset, 0, MAX_OFFSET)
        with self._storage.read() as reader:
            tags = reader.canonical_tags()
        listed = [entry_of(tag) for tag in tags[offset:]]

        def build(packer: Packer) -> A:
            entries = packer.fitting(listed)
            return answer(entries, page(entries, offset, len(tags)))

        return self._packer.fit(build)


def entry_of(tag: CanonicalTag) -> CanonicalTagEntry:
    """Return a canonical tag as answers show it."""
    return CanonicalTagEntry(tag=tag.tag, frequency=tag.frequency, created_at=tag.created_at)


def page(shown: Sequence[BaseModel], offset: int, total: int) -> dict[str, Any]:
    """Return what an answer says about tags that it does not hold."""
    end = offset + len(shown)
    more = end < total
    return {
        "total": total,
        "next_offset": end if more else None,
        "message": f"{len(shown):,} of {total:,} tags." + (f" For more, repeat with offset={end}." if more else ""),
    }
