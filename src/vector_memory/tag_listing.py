"""The tags of the tagged memories: which are in use, which are canonical, how often they were used, what they say."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from vector_memory.packing import Packer
from vector_memory.storage import tags as tag_rows
from vector_memory.storage.database import Database
from vector_memory.storage.tags import CanonicalTag
from vector_memory.tagged_results import (
    CanonicalTagEntry,
    CanonicalTagsResult,
    TagFrequenciesResult,
    TagWeightsResult,
    UniqueTagsResult,
)
from vector_memory.tagging.tags import weight
from vector_memory.values import check_range

MAX_OFFSET = 100_000_000
"""So many tags can there be: ten on each of ten million notes."""


class Word(BaseModel):
    """A tag, to be measured."""

    tag: str


class TagListing:
    """Lists tags after the first `offset`, as many as fit into an answer."""

    def __init__(self, database: Database, packer: Packer) -> None:
        self._database = database
        self._packer = packer

    def unique(self, offset: int = 0) -> UniqueTagsResult:
        """Return the tags that stand on memories now, in the order of the alphabet."""
        check_range("offset", offset, 0, MAX_OFFSET)
        with self._database.read() as connection:
            tags = tag_rows.tags_in_use(connection)
        words = self._packer.fitting([Word(tag=tag) for tag in tags[offset:]])
        return UniqueTagsResult(tags=[word.tag for word in words], **page(words, offset, len(tags)))

    def canonical(self, offset: int = 0) -> CanonicalTagsResult:
        """Return the canonical tags, the most frequent first."""
        entries, facts = self._canonical(offset)
        return CanonicalTagsResult(tags=entries, **facts)

    def frequencies(self, offset: int = 0) -> TagFrequenciesResult:
        """Return on how many memories each canonical tag was ever stored, the most frequent first."""
        entries, facts = self._canonical(offset)
        return TagFrequenciesResult(frequencies={entry.tag: entry.frequency for entry in entries}, **facts)

    def weights(self, offset: int = 0) -> TagWeightsResult:
        """Return how much each canonical tag says, the most frequent, which says least, first."""
        entries, facts = self._canonical(offset)
        return TagWeightsResult(weights={entry.tag: weight(entry.frequency) for entry in entries}, **facts)

    def _canonical(self, offset: int) -> tuple[list[CanonicalTagEntry], dict[str, Any]]:
        check_range("offset", offset, 0, MAX_OFFSET)
        with self._database.read() as connection:
            tags = tag_rows.canonical_tags(connection)
        entries = self._packer.fitting([entry_of(tag) for tag in tags[offset:]])
        return entries, page(entries, offset, len(tags))


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
        "message": f"{len(shown):,} of {total:,} tags." + (f" Ask on with offset={end}." if more else ""),
    }
