"""Tagged memories: notes that belong to no session, filed under a category and canonical tags."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from vector_memory.domain import SHARED, MemoryKind, NewMemory, Page, Scope, SearchMode
from vector_memory.errors import EmbeddingUnavailableError, MemoryStorageError, NotFoundError, ValidationError
from vector_memory.results.documents import DeleteResult
from vector_memory.results.tagged import (
    ClearResult,
    RecentTaggedResult,
    SearchTaggedResult,
    StoreTaggedResult,
    TaggedMemoryResult,
    TaggedStatsResult,
)
from vector_memory.search import CoarseSearch
from vector_memory.sessions.deletion import MAX_DAYS, Deletion
from vector_memory.sessions.reader import Documents
from vector_memory.sessions.writer import Saving, is_of_kind
from vector_memory.storage.base import Reader, Storage, Writer
from vector_memory.tagged.answers import (
    found_tagged,
    health_of,
    receipt,
    said_of_clearing,
    said_of_forms,
    said_of_health,
    shown_category,
    tagged,
)
from vector_memory.tagged.categories import CATEGORIES, OTHER
from vector_memory.tagged.tags import MAX_TAGS, sifted
from vector_memory.tagged.vocabulary import Vocabulary
from vector_memory.validation import MAX_IDENTIFIER, MAX_NOTE, check_optional_text, check_range, check_text, parse_id

MAX_RESULTS = 50
MAX_KEPT = 10_000_000

READ_WITH = "get_by_memory_id"
REFERENCES = re.compile(r"\s*(?:(?:[a-z]+\s+)?#\d+[\s,;]*)+", re.IGNORECASE)
"""What is nothing but numbers of tasks or memories: `#42`, `task #42, memory #15`."""

EVERYTHING = Scope(kind=MemoryKind.TAGGED)
NO_TAG = ("!",)
"""What can be no tag, so that no memory has it."""

RECENT_DAYS = 7


class TaggedMemories:
    """Stores, finds and clears tagged memories, at most `limit` of them.

    `coarse` need not count who was found: only who is read by id counts as used.
    """

    def __init__(
        self,
        storage: Storage,
        vocabulary: Vocabulary,
        saving: Saving,
        coarse: CoarseSearch,
        documents: Documents,
        deletion: Deletion,
        limit: int,
    ) -> None:
        self._storage = storage
        self._vocabulary = vocabulary
        self._saving = saving
        self._coarse = coarse
        self._documents = documents
        self._deletion = deletion
        self._limit = limit

    def store(self, content: str, category: str | None = None, tags: Sequence[str] | None = None) -> StoreTaggedResult:
        """Store a note of at most 10,000 characters under the canonical forms of its category and tags.

        What cannot be a tag is left out, and the receipt says so. Raises DuplicateMemoryError with the id of the same
        content, MemoryStorageError if the limit is reached, ValidationError.
        """
        check_text("content", content, MAX_NOTE)
        accepted, refused = sifted(tag_list(tags))
        filed, doubt = self._filed_under(category)
        made = self._vocabulary.vectors_for(accepted)
        forms: dict[str, str] = {}

        def complete(writer: Writer, memory: NewMemory, now: str) -> NewMemory:
            self._require_room(writer)
            forms.update(self._vocabulary.adopt(writer, accepted, made, now))
            return replace(memory, tags=tuple(dict.fromkeys(forms.values())))

        note = NewMemory(kind=MemoryKind.TAGGED, agent_id=SHARED, content=content, metadata={"category": filed})
        return receipt(self._saving.save(note, complete), forms, refused, doubt)

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        offset: int = 0,
    ) -> SearchTaggedResult:
        """Find the notes that match a query best, of one category and with any of the tags if those are given.

        `limit` 1-50 after the first `offset`. Any form of a category or tag will do; nothing new becomes canonical. A
        query of nothing but references, as `task #42`, is compared by its words only.
        """
        page = Page(limit=check_range("limit", limit, 1, MAX_RESULTS), offset=offset)
        scope, said = self._scope(category, tags)
        # A number has no meaning that a vector could show.
        mode = SearchMode.KEYWORD if REFERENCES.fullmatch(query) else None
        found = self._coarse.memories(query, scope, page, mode)
        return SearchTaggedResult(
            query=query,
            results=[found_tagged(memory) for memory in found.results],
            total=self._count(scope),
            count=len(found.results),
            message=" ".join(filter(None, [found.message, *said])),
            **found.model_dump(include={"next_offset", "omitted", "confidence", "elsewhere"}),
        )

    def list_recent(self, limit: int = 10, offset: int = 0) -> RecentTaggedResult:
        """Return the newest notes; `limit` 1-50 after the first `offset`."""
        page = Page(limit=check_range("limit", limit, 1, MAX_RESULTS), offset=offset)
        found = self._coarse.scoped(EVERYTHING, page)
        return RecentTaggedResult(
            results=[tagged(memory) for memory in found.results],
            total=self._count(EVERYTHING),
            count=len(found.results),
            message=found.message,
            **found.model_dump(include={"next_offset", "omitted"}),
        )

    def get(self, memory_id: str | int, offset: int = 0) -> TaggedMemoryResult:
        """Return a note, its content from character `offset` on, and count that it was used. Raises NotFoundError."""
        found = self._documents.get(self._existing(memory_id), offset, read_with=READ_WITH)
        return TaggedMemoryResult(memory=tagged(found.memory) if found.memory else None, message=found.message)

    def describe(self, memory_id: str | int) -> str:
        """Name a note in one line, for a question to the user; this does not count as using it."""
        return self._documents.describe(self._existing(memory_id))

    def delete(self, memory_id: str | int) -> DeleteResult:
        """Delete a note with everything made from it. Its tags stay canonical, as frequent as before."""
        number = self._existing(memory_id)
        self._deletion.delete(number)
        return DeleteResult(memory_id=number, message=f"Deleted memory {number}. Tag frequencies did not change.")

    def stats(self) -> TaggedStatsResult:
        """Count the notes, and say how much room is left."""
        since = (datetime.now(UTC) - timedelta(days=RECENT_DAYS)).isoformat(timespec="microseconds")
        with self._storage.read() as reader:
            total = reader.count(EVERYTHING)
            unindexed = reader.count(EVERYTHING, without_vectors=True)
            stored = reader.count_by(EVERYTHING, "category")
            recent = reader.count(EVERYTHING, since=since)
            size = reader.statistics().database_bytes
        categories: Counter[str] = Counter()
        for category, count in stored.items():
            categories[shown_category(category)] += count
        usage = 100 * total / self._limit
        health = health_of(usage, unindexed)
        return TaggedStatsResult(
            total_memories=total,
            memory_limit=self._limit,
            usage_percentage=round(usage, 2),
            categories=dict(sorted(categories.items())),
            recent_week_count=recent,
            database_size_mb=round(size / 1e6, 2),
            health_status=health,
            message=said_of_health(health, usage, unindexed),
        )

    def clear(self, days_old: int = 30, max_to_keep: int = 1000, *, dry_run: bool = False) -> ClearResult:
        """Delete what is older than `days_old` days until `max_to_keep` notes are left.

        The least used go first, of equals the oldest. Younger ones are kept even if they are more. `dry_run`: only
        count.
        """
        check_range("days_old", days_old, 0, MAX_DAYS)
        check_range("max_to_keep", max_to_keep, 0, MAX_KEPT)
        before = (datetime.now(UTC) - timedelta(days=days_old)).isoformat(timespec="microseconds")
        with self._storage.read() as reader:
            total = reader.count(EVERYTHING)
            surplus = reader.expendable(before, tagged=True, limit=max(0, total - max_to_keep))
        deleted, left = len(surplus), total - len(surplus)
        if surplus and not dry_run:
            deleted, _ = self._deletion.delete_each(surplus)
            self._storage.purge_deleted()
            # Other processes may have stored and deleted meanwhile.
            left = self._count(EVERYTHING)
        return ClearResult(
            deleted_count=deleted, remaining_count=left, message=said_of_clearing(deleted, left, days_old, max_to_keep)
        )

    def _filed_under(self, word: str | None) -> tuple[str, str | None]:
        """Return the category that a note is filed under, and what is to be said if that is not sure."""
        if check_optional_text("category", word, MAX_IDENTIFIER) is None:
            return OTHER, None
        try:
            category = self._vocabulary.category(str(word))
        except EmbeddingUnavailableError as error:
            return OTHER, f"Stored as {OTHER}: without a model, only the names of categories are recognized. {error}"
        doubt = f"Stored as {OTHER}: the category sent is not close to any of {', '.join(CATEGORIES)}."
        return category or OTHER, None if category else doubt

    def _scope(self, category: str | None, tags: Sequence[str] | None) -> tuple[Scope, list[str]]:
        """Return what a search is to look through, and what is to be said about its filters."""
        sent = tag_list(tags)
        accepted, refused = sifted(sent)
        forms = self._vocabulary.look_up(accepted)
        wanted = tuple(dict.fromkeys(forms.values())) or (NO_TAG if sent else ())
        scope = replace(EVERYTHING, category=self._wanted_category(category), tags=wanted)
        return scope, [*said_of_forms(forms), *(f'No memory has the tag "{tag}": {why}.' for tag, why in refused)]

    def _wanted_category(self, word: str | None) -> str | None:
        if check_optional_text("category", word, MAX_IDENTIFIER) is None:
            return None
        try:
            category = self._vocabulary.category(str(word))
        except EmbeddingUnavailableError as error:
            names = ", ".join(CATEGORIES)
            raise ValidationError(
                f"Without a model, only the names of categories are known: omit it, or send one of {names}. {error}"
            ) from None
        if category is None:
            raise ValidationError(f"Unknown category: omit it, or send one of {', '.join(CATEGORIES)}.")
        return category

    def _existing(self, memory_id: str | int) -> int:
        """Return the id of a note, or raise NotFoundError."""
        number = parse_id("memory_id", memory_id)
        with self._storage.read() as reader:
            if not is_of_kind(reader, number, MemoryKind.TAGGED):
                raise NotFoundError(f"Memory not found: there is no memory {number} here. Check the id with a search.")
        return number

    def _count(self, scope: Scope) -> int:
        with self._storage.read() as reader:
            return reader.count(scope)

    def _require_room(self, reader: Reader) -> None:
        if reader.count(EVERYTHING) >= self._limit:
            raise MemoryStorageError(
                f"Memory limit reached: there are {self._limit:,} memories. Run clear_old_memories with a max_to_keep "
                "below that, or raise VECTOR_MEMORY_MEMORY_LIMIT. Nothing was stored."
            )


def tag_list(tags: Sequence[str] | None) -> Sequence[str]:
    """Return the tags that a caller sent, or raise a ValidationError if they are no list, or too many."""
    if tags is None:
        return ()
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise ValidationError('Tags must be a list of texts, for example ["laravel", "module:billing"].')
    if len(tags) > MAX_TAGS:
        raise ValidationError(f"tags has {len(tags):,} entries: send at most {MAX_TAGS}; three to five are best.")
    return tags
