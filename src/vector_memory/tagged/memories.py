"""Tagged memories: notes that belong to no session, filed under a category and canonical tags."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeVar, Unpack

from pydantic import BaseModel

from vector_memory import errors
from vector_memory.answers import tagged as answers
from vector_memory.answers.budget import ResponseBudget, fitting_values
from vector_memory.answers.documents import DeleteResult
from vector_memory.answers.models import FoundMemory, MemoryEntry
from vector_memory.domain import (
    SHARED_AGENT,
    CameFrom,
    MemoryKind,
    NewMemory,
    Page,
    Scope,
    Way,
    Window,
    utc_now,
    validation,
)
from vector_memory.domain.text import counted
from vector_memory.domain.times import check_lifetime
from vector_memory.reading.documents import Documents
from vector_memory.search import Search
from vector_memory.storage.base import Reader, Storage, Writer
from vector_memory.storage.records import Memory
from vector_memory.tagged import tags as rules
from vector_memory.tagged.vocabulary import ComputedVectors, Vocabulary
from vector_memory.writing.deletion import MAX_DAYS, Deletion, older_than, oldest_ends
from vector_memory.writing.writer import MemoryWriter, StoredMemory, supersedes_message

MAX_KEPT = 10_000_000

READ_WITH_TOOL = "get_by_memory_id"
NO_TAG = ("!",)
"""An invalid tag, which no memory has."""

RECENT_DAYS = 7


@dataclass(frozen=True, slots=True, eq=False)
class TaggedMemories:
    """Stores, finds and clears at most `_limit` tagged memories.

    Only reading a memory by its id counts as using it, so `_coarse` does not have to count what it finds.
    """

    _storage: Storage
    _vocabulary: Vocabulary
    _writer: MemoryWriter
    _coarse: Search
    _documents: Documents
    _deletion: Deletion
    _limit: int

    def store(
        self,
        content: str,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        supersedes: Sequence[str | int] | None = None,
        *,
        ttl_days: float | None = None,
        expires_at: str | None = None,
        came_from: CameFrom | None = None,
    ) -> answers.StoreTaggedResult:
        """Store a note of at most 10,000 characters under the canonical forms of its category and tags.

        Invalid tags are left out, and the receipt names them. A note that is stored, and supersedes nothing, gets the
        tags that it lacks. Raises DuplicateMemoryError if it lacks none, NotFoundError (what it supersedes),
        MemoryStorageError if the limit is reached, ValidationError.
        """
        validation.check_text("content", content, validation.MAX_NOTE)
        accepted, refused = rules.accept_tags(self._writer.kept(list(tag_list(tags))))
        filed, doubt = self._category_for(category)
        computed = self._vocabulary.vectors_for(accepted)
        forms: dict[str, str] = {}

        def with_tags(writer: Writer, memory: NewMemory, now: str) -> NewMemory:
            self._require_room(writer)
            forms.update(self._vocabulary.adopt(writer, accepted, computed, now))
            return replace(memory, tags=tuple(dict.fromkeys(forms.values())))

        note = NewMemory(
            kind=MemoryKind.TAGGED,
            agent_id=SHARED_AGENT,
            content=content,
            metadata={"category": filed or rules.OTHER},
            came_from={**(came_from or CameFrom()), "by": Way.TAGGED},
            supersedes=validation.parse_ids("supersedes", supersedes),
            ttl_days=ttl_days,
            expires_at=check_lifetime(ttl_days, expires_at),
        )
        try:
            stored = self._writer.write(note, with_tags)
            return tagged_receipt(stored, forms, refused, doubt, self._writer.warnings(stored.memory))
        except errors.DuplicateMemoryError as error:
            if note.supersedes:
                raise
            return self._with_more_tags(error, accepted, computed, refused)

    def _with_more_tags(
        self,
        error: errors.DuplicateMemoryError,
        tags: Sequence[str],
        computed: ComputedVectors,
        refused: Sequence[rules.RefusedTag],
    ) -> answers.StoreTaggedResult:
        """Add the tags that the note of a DuplicateMemoryError lacks; raise the error if it lacks none or is gone."""
        meant, now = self._vocabulary.look_up(tags), utc_now()
        with self._storage.write() as writer:
            note = writer.memories.get_all([error.memory_id]).get(error.memory_id)
            lacking = [] if note is None else [tag for tag in tags if meant[tag] not in note.tags]
            if note is None or not lacking:
                raise error
            room = rules.MAX_TAGS_PER_NOTE - len(note.tags)
            forms = self._vocabulary.adopt(writer, lacking[:room], computed, now)
            after = [*note.tags, *(form for form in dict.fromkeys(forms.values()) if form not in note.tags)]
            writer.set_tags(note.id, after, now)
        full = [rules.RefusedTag(tag, f"a memory has at most {rules.MAX_TAGS_PER_NOTE} tags") for tag in lacking[room:]]
        return tagged_again(note, after, forms, [*refused, *full])

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        offset: int = 0,
        prefer: str | None = None,
        **window: Unpack[Window],
    ) -> answers.SearchTaggedResult:
        """Return the notes that match a query best, filtered by a category, by any of the tags and by time if given.

        Up to `limit` (1-50) after the first `offset`; `prefer`: see Page. Any form of a category or tag is accepted,
        and no new form becomes canonical.
        """
        page = Page.of_notes(limit, offset, prefer)
        return self.find(query, self.filters(category, tags, **window), page)

    def find(self, query: str, filters: "TaggedFilters", page: Page) -> answers.SearchTaggedResult:
        """Return what `search` does, in at most the page's tokens."""
        found = self._coarse.memories(query, filters.scope, page)
        return answers.SearchTaggedResult(
            query=query,
            results=[found_tagged(memory) for memory in found.results],
            total=self._count(filters.scope),
            count=len(found.results),
            message=" ".join(filter(None, [found.message, *filters.messages])),
            **found.model_dump(include={"next_offset", "omitted", "confidence", "weak", "superseded", "elsewhere"}),
        )

    def filters(
        self, category: str | None = None, tags: Sequence[str] | None = None, **window: Unpack[Window]
    ) -> "TaggedFilters":
        """Return the filters of a search. Raises ValidationError."""
        sent = self._writer.kept(list(tag_list(tags)))
        accepted, refused = rules.accept_tags(sent)
        forms = self._vocabulary.look_up(accepted)
        wanted = tuple(dict.fromkeys(forms.values())) or (NO_TAG if sent else ())
        filed, doubt = self._category_for(category)
        scope = replace(rules.ALL_TAGGED, category=filed, tags=wanted, **window)
        messages = [f"Searched in {rules.OTHER}: {doubt}"] if doubt else []
        messages += merged_tags_messages(forms)
        messages += [f'No memory has the tag "{tag}": {reason}.' for tag, reason in refused]
        return TaggedFilters(scope, messages)

    def list_recent(
        self, limit: int = 10, offset: int = 0, *, cursor: str | None = None, **window: Unpack[Window]
    ) -> answers.RecentTaggedResult:
        """Return the newest notes, optionally from a time window, up to `limit` (1-50) after `offset` or a `cursor`."""
        page = Page.of_notes(limit, offset, cursor=cursor)
        scope = replace(rules.ALL_TAGGED, **window)
        found = self._coarse.scoped(scope, page)
        return answers.RecentTaggedResult(
            results=[tagged(memory) for memory in found.results],
            total=self._count(scope),
            count=len(found.results),
            message=found.message,
            **found.model_dump(include={"next_offset", "next_cursor", "omitted", "superseded"}),
        )

    def get(self, memory_id: str | int, offset: int = 0) -> answers.TaggedMemoryResult:
        """Return a note with its content from character `offset` on, and count the use. Raises NotFoundError."""
        found = self._documents.get(self._existing(memory_id), offset, read_with=READ_WITH_TOOL)
        return answers.TaggedMemoryResult(memory=tagged(found.memory) if found.memory else None, message=found.message)

    def describe(self, memory_id: str | int) -> str:
        """Describe a note in one line, for a question to the user. This does not count as using it."""
        return self._documents.describe(self._existing(memory_id))

    def delete(self, memory_id: str | int, *, by: str | None = None) -> DeleteResult:
        """Delete a note with everything derived from it. Its tags stay canonical, with the same frequencies."""
        number = self._existing(memory_id)
        self._deletion.delete(number, by=by)
        return DeleteResult(memory_id=number, message=f"Deleted memory {number}. Tag frequencies did not change.")

    def stats(self) -> answers.TaggedStatsResult:
        """Return the number of notes, by category and of the last 7 days, and how much of the limit they use."""
        since = (datetime.now(UTC) - timedelta(days=RECENT_DAYS)).isoformat(timespec="microseconds")
        with self._storage.read() as reader:
            total = reader.memories.count(rules.STORED_TAGGED)
            unindexed = reader.memories.count(rules.STORED_TAGGED, without_vectors=True)
            unindexed -= reader.vectors.pending(rules.STORED_TAGGED).memories
            stored = reader.memories.count_by(rules.STORED_TAGGED, "category")
            recent = reader.memories.count(rules.STORED_TAGGED, since=since)
            size = reader.sessions.statistics().database_bytes
        categories: Counter[str] = Counter()
        for category, count in stored.items():
            categories[shown_category(category)] += count
        usage = 100 * total / self._limit
        health = health_of(usage, unindexed)
        return answers.TaggedStatsResult(
            total_memories=total,
            memory_limit=self._limit,
            usage_percentage=round(usage, 2),
            categories=dict(sorted(categories.items())),
            recent_week_count=recent,
            database_size_mb=round(size / 1e6, 2),
            health_status=health,
            message=health_message(health, usage, unindexed),
        )

    def clear(
        self, days_old: int = 30, max_to_keep: int = 1000, *, dry_run: bool = False, by: str | None = None
    ) -> answers.ClearResult:
        """Delete notes older than `days_old` days until `max_to_keep` notes are left.

        The least used are deleted first, and the oldest of these, but what a note supersedes comes before it. Newer
        notes, and those that supersede a memory that stays, are kept even if there are more than `max_to_keep`.
        `dry_run`: only count.
        """
        validation.check_range("days_old", days_old, 0, MAX_DAYS)
        validation.check_range("max_to_keep", max_to_keep, 0, MAX_KEPT)
        with self._storage.read() as reader:
            total = reader.memories.count(rules.STORED_TAGGED)
            old = reader.memories.expendable(older_than(days_old, MemoryKind.TAGGED))
            surplus = oldest_ends(reader, old)[: max(0, total - max_to_keep)]
        deleted, left = len(surplus), total - len(surplus)
        if surplus and not dry_run:
            deleted, _ = self._deletion.delete_all((memory.id for memory in surplus), by=by)
            # Other processes may have stored and deleted notes in the meantime.
            left = self._count(rules.STORED_TAGGED)
        return answers.ClearResult(
            deleted_count=deleted, remaining_count=left, message=clearing_message(deleted, left, days_old, max_to_keep)
        )

    def _category_for(self, word: str | None) -> tuple[str | None, str | None]:
        """Return the category that a caller's word means, if one was sent, and why it is `other` if none fits.

        Storing and searching agree, so a note is found by the word that it was stored with.
        """
        if validation.check_optional_label("category", word, validation.MAX_IDENTIFIER) is None:
            return None, None
        try:
            category = self._vocabulary.category(str(word))
        except errors.EmbeddingUnavailableError as error:
            return rules.OTHER, f"without a model, only the names of categories are recognized. {error}"
        doubt = f"the category sent is not close to any of {', '.join(rules.CATEGORIES)}."
        return category or rules.OTHER, None if category else doubt

    def _existing(self, memory_id: str | int) -> int:
        """Return the id of an existing note. Raises NotFoundError."""
        number = validation.parse_id("memory_id", memory_id)
        with self._storage.read() as reader:
            origin = reader.memories.origins([number]).get(number)
            reader.memories.require_unexpired(number)
        if origin is None:
            raise errors.NotFoundError(f"Memory not found: there is no memory {number}. Check the id with a search.")
        if origin.memory_type != MemoryKind.TAGGED:
            kind = origin.memory_type
            raise errors.NotFoundError(
                f"Memory not found: {number} is a {kind}, not a note; read it with get_memory_by_id."
            )
        return number

    def _count(self, scope: Scope) -> int:
        with self._storage.read() as reader:
            return reader.memories.count(scope)

    def _require_room(self, reader: Reader) -> None:
        if reader.memories.count(rules.STORED_TAGGED) >= self._limit:
            raise errors.MemoryStorageError(
                f"Memory limit reached ({self._limit:,}). Run clear_old_memories with a smaller max_to_keep, or raise "
                "VECTOR_MEMORY_MEMORY_LIMIT. Nothing was stored."
            )


class TaggedFilters(NamedTuple):
    """The scope of a search, in canonical forms, and messages about other forms that the caller sent."""

    scope: Scope
    messages: Sequence[str]


def tag_list(tags: Sequence[str] | None) -> Sequence[str]:
    """Return the tags that a caller sent. Raises ValidationError if they are not a list of strings, or too many."""
    if tags is None:
        return ()
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise errors.ValidationError('tags must be a list of strings, for example ["laravel", "module:billing"].')
    if len(tags) > rules.MAX_TAGS_PER_NOTE:
        raise errors.ValidationError(
            f"tags has {len(tags):,} entries: send at most {rules.MAX_TAGS_PER_NOTE}; three to five are best."
        )
    return tags


# Results of the tagged family: notes, receipts, and the messages about them.


PREVIEW_LENGTH = 100

WARNING_USAGE, CRITICAL_USAGE = 80.0, 95.0
"""Percentages of the limit from which the health is "warning" and "critical"."""


def tagged_receipt(
    stored: StoredMemory,
    forms: Mapping[str, str],
    refused: Sequence[rules.RefusedTag],
    doubt: str | None,
    warnings: Sequence[str],
) -> answers.StoreTaggedResult:
    """Return what was stored, under which category and tags, and which tags were refused."""
    memory = stored.memory
    messages = [f"Stored memory {stored.id}: {counted(len(memory.content), 'character')}."]
    if memory.supersedes:
        messages.append(supersedes_message(memory))
    if doubt:
        messages.append(f"Stored as {rules.OTHER}: {doubt}")
    messages += tags_messages(forms, refused)
    if stored.problem:
        messages.append(f"Not yet searchable by meaning. {stored.problem}")
    about = {"memory_id": stored.id, "redacted": stored.redacted, "created_at": stored.created_at}
    return receipt_of(memory, memory.tags, refused, [*messages, *warnings], **about, expires_at=memory.expires_at)


def tagged_again(
    note: Memory, tags: Sequence[str], forms: Mapping[str, str], refused: Sequence[rules.RefusedTag]
) -> answers.StoreTaggedResult:
    """Return a note that was stored before, with the tags that it has now."""
    added = ", ".join(tag for tag in tags if tag not in note.tags)
    messages = [f"Memory {note.id} has this content already. Added tags: {added}.", *tags_messages(forms, refused)]
    return receipt_of(note, tags, refused, messages, memory_id=note.id, created_at=note.created_at)


def receipt_of(
    note: NewMemory | Memory,
    tags: Iterable[str],
    refused: Sequence[rules.RefusedTag],
    messages: Sequence[str],
    **facts: Any,
) -> answers.StoreTaggedResult:
    """Return the receipt of a note with these tags."""
    return answers.StoreTaggedResult(
        message=" ".join(messages),
        content_preview=note.content[:PREVIEW_LENGTH],
        category=shown_category(note.metadata.get("category")),
        tags=list(tags),
        rejected_tags=[tag for tag, _ in refused],
        **facts,
    )


def tags_messages(forms: Mapping[str, str], refused: Sequence[rules.RefusedTag]) -> list[str]:
    """Say which tags were replaced or refused, and why."""
    return merged_tags_messages(forms) + [f'The tag "{tag}" was not stored: {reason}.' for tag, reason in refused]


def merged_tags_messages(forms: Mapping[str, str]) -> list[str]:
    """Say which tags were replaced by their canonical form."""
    return [f'The tag "{tag}" counts as "{form}".' for tag, form in forms.items() if tag != form]


def tagged(memory: MemoryEntry) -> answers.TaggedMemory:
    """Return a memory as this family's results show it."""
    return answers.TaggedMemory(
        category=shown_category(memory.metadata.get("category")),
        **memory.model_dump(include=answers.TaggedMemory.model_fields.keys() - {"category"}),
    )


def shown_category(stored: object) -> str:
    """Return the category to show for a stored value, which may be anything in an imported memory."""
    return next((category for category in rules.CATEGORIES if category == stored), rules.OTHER)


def found_tagged(memory: FoundMemory) -> answers.FoundTagged:
    """Return a search result as this family's results show it."""
    distance = None if memory.similarity is None else 1 - memory.similarity
    known = answers.TaggedMemory.model_fields.keys() | {"score", "distance"}
    own = {name: getattr(memory, name) for name in answers.FoundTagged.model_fields.keys() - known}
    return answers.FoundTagged(**tagged(memory).model_dump(), **own, score=memory.score or 0.0, distance=distance)


def health_of(usage: float, unindexed: int) -> answers.Health:
    """Return the health for a usage in per cent of the limit and a number of notes without vectors."""
    if usage >= CRITICAL_USAGE:
        return "critical"
    return "warning" if usage >= WARNING_USAGE or unindexed else "healthy"


def health_message(health: answers.Health, usage: float, unindexed: int) -> str | None:
    """Say what to do about the health; None if nothing needs to be done."""
    messages = []
    if usage >= WARNING_USAGE:
        messages.append("Nearly full: run clear_old_memories, or raise VECTOR_MEMORY_MEMORY_LIMIT.")
    if unindexed:
        messages.append(f"{unindexed:,} without vectors can be found by words only: run `vector-memory backfill`.")
    return " ".join(messages) if health != "healthy" else None


def clearing_message(deleted: int, left: int, days_old: int, max_to_keep: int) -> str:
    """Say what a clean-up deleted, and why it did not delete more."""
    message = f"{deleted:,} deleted, {left:,} kept."
    if left > max_to_keep:
        return (
            f"{message} The others are newer than days_old ({days_old:,}), pinned, or supersede what stays: "
            "send a smaller days_old to delete more."
        )
    if not deleted:
        return f"{message} There are no more than max_to_keep: send a smaller max_to_keep to delete some."
    return message


# Lists the tags of tagged memories: those in use, and the canonical ones with their frequencies and weights.


A = TypeVar("A", bound=BaseModel)
T = TypeVar("T")

MAX_TAG_OFFSET = 100_000_000
"""Maximum number of tags: ten on each of ten million notes."""


class TagListing:
    """Lists as many tags as fit into an answer, after skipping `offset`."""

    def __init__(self, storage: Storage, budget: ResponseBudget) -> None:
        self._storage = storage
        self._budget = budget

    def unique(self, offset: int = 0) -> answers.UniqueTagsResult:
        """Return the tags in use, in alphabetical order."""
        with self._storage.read() as reader:
            tags = list(reader.memories.count_by(rules.ALL_TAGGED, "tag"))
        return self._fitting(tags, offset, lambda shown, rest: answers.UniqueTagsResult(tags=shown, **rest))

    def canonical(self, offset: int = 0) -> answers.CanonicalTagsResult:
        """Return the canonical tags, most frequent first."""
        tags = self._canonical()
        return self._fitting(tags, offset, lambda shown, rest: answers.CanonicalTagsResult(tags=shown, **rest))

    def frequencies(self, offset: int = 0) -> answers.TagFrequenciesResult:
        """Return how many memories were ever stored with each canonical tag, most frequent first."""
        tags = [(one.tag, one.frequency) for one in self._canonical()]
        return self._fitting(
            tags, offset, lambda shown, rest: answers.TagFrequenciesResult(frequencies=dict(shown), **rest)
        )

    def weights(self, offset: int = 0) -> answers.TagWeightsResult:
        """Return the weight of each canonical tag, lowest (most frequent) first."""
        tags = [(one.tag, rules.weight(one.frequency)) for one in self._canonical()]
        return self._fitting(tags, offset, lambda shown, rest: answers.TagWeightsResult(weights=dict(shown), **rest))

    def _canonical(self) -> list[answers.CanonicalTagEntry]:
        with self._storage.read() as reader:
            return [answers.CanonicalTagEntry(**asdict(tag)) for tag in reader.tags.canonical()]

    def _fitting(self, tags: list[T], offset: int, answer: Callable[[list[T], dict[str, Any]], A]) -> A:
        """Return `answer` for the tags after the first `offset` that fit, with which part of all tags it contains."""
        validation.check_range("offset", offset, 0, MAX_TAG_OFFSET)

        def build(budget: ResponseBudget) -> A:
            shown = fitting_values(tags[offset:], budget.room)
            end = offset + len(shown)
            message = f"{len(shown):,} of {counted(len(tags), 'tag')}."
            if end >= len(tags):
                return answer(shown, {"total": len(tags), "message": message})
            message += f" For more, repeat with offset={end}."
            return answer(shown, {"total": len(tags), "next_offset": end, "message": message})

        return self._budget.fit(build)
