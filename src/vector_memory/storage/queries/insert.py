"""Adds and deletes memories together with their derived data: chunks, words, passages and vectors."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from vector_memory.domain import SENT, TRAITS, Chunk, Fingerprint, NewMemory, Trust
from vector_memory.domain.fields import MEMORY_COLUMNS
from vector_memory.storage.connection import Queries, Query, value_of
from vector_memory.storage.damaged import as_json
from vector_memory.storage.queries.deletions import Deleted, DeletionChanges
from vector_memory.storage.queries.evidence import EvidenceChanges
from vector_memory.storage.queries.filters import CURRENT, DELETED, HELD, UNDELETED, UNEXPIRED
from vector_memory.storage.queries.lifecycle import PENDING, QUARANTINED, LaterChanges, LifecycleChanges
from vector_memory.storage.queries.passages import Passage
from vector_memory.storage.queries.pending import PendingChanges
from vector_memory.storage.records import Derived, Embedded, History, LastIds, Memory

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    import numpy as np
    from numpy.typing import NDArray

    from vector_memory.storage.postings import Words
    from vector_memory.storage.queries.keywords import KeywordIndex

Numbered = Literal["memory", "chunk", "passage"]
"""What has ids of its own."""

LONGEST_INDEXED = 200
"""Characters of a value in an index of PostgreSQL."""


class SameText(NamedTuple):
    """How many memories with a text were taken out of use, and the lowest trust of all; the highest if none has it."""

    taken_out: int = 0
    trust: int = Trust.HIGH.level


# A memory's place is its kind, agent, session, iteration, task and parent report; for knowledge also its category.
DUPLICATES = f"""
from session_memories m
where {{visible:m}} and m.content_hash = %(content_hash)s and m.memory_type = %(kind)s and m.agent_id = %(agent_id)s
    and m.session_id is not distinct from %(session_id)s and m.session_iter = %(session_iter)s
    and m.task_code is not distinct from %(task_code)s and {{same_place}} and {UNDELETED}
"""

TURN = """
case when %(is_dated)s then coalesce((
    select turn from session_memories where created_at <= %(created_at)s order by created_at desc, id desc limit 1
), 0) else %(turn)s end
"""

STORED_AS = {one.name: f"%({one.name})s" for one in MEMORY_COLUMNS} | {"auto_chunk": "%(chunked)s", "turn": TURN}
"""What is stored in each column."""

INSERT_ROW = f"""
insert into session_memories (id, embedding_model_id, {", ".join(STORED_AS)}{{copied_columns}})
values (%(id)s, %(model_id)s, {", ".join(STORED_AS.values())}{{copied_values}})
"""

REWRITE_ROW = f"""
update session_memories set (embedding_model_id, {", ".join(STORED_AS)}{{copied_columns}})
= (null, {", ".join((STORED_AS | {"turn": "%(turn)s"}).values())}{{copied_values}}) where id = %(id)s
"""

AS_SENT = attrgetter(*SENT)

# Of a memory that does not have all its vectors.
UNINDEXED = """
select (select count(*) from memory_passages p where p.memory_id = m.id and {read}) as passages,
    not exists (
        select 1 from memory_chunks where parent_id = m.id and is_contextually_enriched <> %(enriched)s
    ) as is_enriched_alike, m.title is not distinct from %(title)s and m.content_hash = %(text)s as is_unchanged,
    (select coalesce({json_array:id}, '[]') from (
        select id from memory_chunks where parent_id = m.id order by chunk_index
    ) parts) as chunk_ids
from session_memories m where m.id = %(id)s and {lacking}
"""


class Unindexed(NamedTuple):
    """How many passages have vectors, whether the chunks are enriched alike, and the ids of these, as JSON.

    `is_unchanged`: neither the title was amended in the meantime, nor were secrets removed from the text.
    """

    passages: int
    is_enriched_alike: bool
    is_unchanged: bool
    chunk_ids: str


class DuplicateQueries(Queries):
    """Finds the memory with the same content in the same place. A writer also reads where its words would go."""

    @cached_property
    def keywords(self) -> "KeywordIndex":
        """The keyword index, in the same transaction."""
        from vector_memory.storage.queries.keywords import KeywordIndex  # noqa: PLC0415 - imports numpy

        return KeywordIndex(self.connection)

    def find_duplicate(self, new: NewMemory, content_hash: str, at: str | None = None) -> int | None:
        """Return the id of the current memory with the same text, kind, session, iteration, agent and task, or None.

        `at`: the one created at this time instead.
        """
        self.connection.require(new.session_id)
        return next(iter(self.connection.fetch(*duplicate_of(new, content_hash, at))), None)

    def times_of_duplicates(self, new: NewMemory, content_hash: str) -> list[str]:
        """Return when the memories with the same text, kind, session, iteration, agent and task were created.

        Also those that have expired, or were superseded.
        """
        self.connection.require(new.session_id)
        sql = f"select m.created_at {DUPLICATES}"
        return self.connection.fetch_column(sql, place_of(new, content_hash))


class MemoryInserts(DuplicateQueries, PendingChanges, LifecycleChanges, LaterChanges, DeletionChanges, EvidenceChanges):
    """Adds and deletes memories. Each engine implements the abstract methods."""

    _same_text: tuple[str, SameText] = "", SameText()
    """The hash of the text that was last looked for anywhere in the memory, and what was found."""

    def find_duplicate(self, new: NewMemory, content_hash: str, at: str | None = None) -> int | None:
        """Return what a reader returns; the same round trip reads what `same_text` and `add_memory` need."""
        self.connection.require(new.session_id)
        asked = duplicate_of(new, content_hash, at), text_with(content_hash), self.keywords.open_block(str(new.kind))
        found, [same], blocks = self.connection.batch(*asked)
        self._same_text = content_hash, same
        self.keywords.keep_open(str(new.kind), blocks)
        return next(iter(found), None)

    def same_text(self, content_hash: str) -> SameText:
        """Return how memories stand whose text has this hash, wherever they are."""
        if self._same_text[0] != content_hash:
            self._same_text = content_hash, self.connection.fetch(*text_with(content_hash))[0]
        return self._same_text[1]

    def add_memory(self, new: NewMemory, derived: Derived, *, content_hash: str, history: History) -> int:
        """Add a memory with everything derived from it; return its id, which is the largest so far.

        Raises EmbeddingUnavailableError, without adding anything, if its vectors are not comparable with the stored
        ones.
        """
        embedded = derived.embedded
        model_id = None if embedded is None else self.adopt_fingerprint(embedded.fingerprint)
        (memory_id,) = self.next_ids("memory", 1)
        memory = as_stored(memory_id, new, content_hash, history, len(derived.chunks))
        self.insert_row(memory, model_id, is_dated=history.is_dated)
        self.keep(memory_id, new.expires_at, pinned=False)
        self.add_evidence(memory_id, new.evidence)
        if new.supersedes:
            self.supersede(memory_id, new.supersedes)
        if new.awaits is not None:
            self.hold([memory_id], PENDING, new.awaits)
        chunk_ids = self._insert_chunks(memory, derived)
        self.keywords.add(memory.id, memory.memory_type, chunk_ids or [memory.id], derived.words)
        if embedded is not None and model_id is not None:
            self._add_embedded(memory, chunk_ids, embedded, model_id)
        self.link(memory_id, derived.links)
        return memory_id

    def add_vectors(self, memory: Memory, derived: Derived, *, after: int, is_last: bool) -> bool:
        """Add vectors of a stored memory after its first `after` passages, and chunks if it has none.

        `is_last`: it then has all its vectors. Returns False, having added nothing, if another process was faster or
        the memory is gone. Raises EmbeddingUnavailableError like `add_memory`.
        """
        embedded = derived.embedded
        known = {"id": memory.id, "enriched": derived.enriched, "title": memory.title, "text": memory.content_hash}
        sql = UNINDEXED.replace("{read}", self.vectors.passages_read).replace(
            "{lacking}", self.vectors.lacking.condition
        )
        found = self.connection.fetch_one(Unindexed, sql, known)
        if embedded is None or found is None:
            self.settle(memory.id)
            return False
        if found.passages != after or not found.is_unchanged or not (found.is_enriched_alike or after == 0):
            return False
        if not found.is_enriched_alike:
            sql = "update memory_chunks set is_contextually_enriched = %(enriched)s where parent_id = %(id)s"
            self.connection.later(sql, {"enriched": derived.enriched, "id": memory.id})
        model_id = self.adopt_fingerprint(embedded.fingerprint)
        chunk_ids = json.loads(found.chunk_ids) or self.add_chunks(memory, derived)
        self._add_embedded(memory, chunk_ids, embedded, model_id)
        if is_last:
            self.settle(memory.id)
            sql = "update session_memories set embedding_model_id = %(model)s where id = %(id)s"
            self.connection.later(sql, {"model": model_id, "id": memory.id})
            self.link(memory.id, derived.links)
        else:
            self.note_progress(memory.id)
        return True

    def replace_vectors(self, memory: Memory, embedded: Embedded) -> None:
        """Replace the vectors of a memory that has all of them, unless it is gone or was amended."""
        sql = f"""
            select m.title is not distinct from %(title)s and m.content_hash = %(text)s as is_unchanged,
                not ({self.vectors.lacking.condition}) as complete
            from session_memories m where m.id = %(id)s
        """
        known = {"id": memory.id, "title": memory.title, "text": memory.content_hash}
        found: dict[str, Any] | None = self.connection.fetch_one(dict, sql, known)
        if not found or not all(found.values()):
            return
        model_id = self.adopt_fingerprint(embedded.fingerprint)
        sql = "select id from memory_chunks where parent_id = %(id)s order by chunk_index"
        chunk_ids = self.connection.fetch_column(sql, {"id": memory.id})
        sql = "delete from memory_passages where memory_id = %(id)s and model_id = %(model)s"
        self.connection.later(sql, {"id": memory.id, "model": model_id})
        self._add_embedded(memory, chunk_ids, embedded, model_id)

    def _add_embedded(self, memory: Memory, chunk_ids: Sequence[int], embedded: Embedded, model_id: int) -> None:
        """Add passages with their vectors. `chunk_ids`: of all chunks of the memory."""
        passages = [
            Passage(chunk_ids[passage.unit] if memory.chunked else None, passage.start, passage.end)
            for passage in embedded.passages
        ]
        self.add_passages(memory, passages, embedded.vectors, embedded.states, model_id)

    def add_chunks(self, memory: Memory, derived: Derived) -> list[int]:
        """Give a stored document its chunks and index their words; return the ids of the chunks in order."""
        if not derived.chunks:
            return []
        chunk_ids = self._insert_chunks(memory, derived)
        self.keywords.add(memory.id, memory.memory_type, chunk_ids, derived.words)
        sql = "update session_memories set chunk_count = %(count)s where id = %(id)s"
        self.connection.later(sql, {"count": len(chunk_ids), "id": memory.id})
        return chunk_ids

    def amend(self, memory: Memory, words: "Words | None", now: str) -> bool:
        """Store a memory's new title, description, tags, metadata, origin and trust.

        `words`: those of all its units, if its title has changed. Returns whether its vectors embedded the title: then
        they are removed.
        """
        sql = """
            update session_memories set title = %(title)s, description = %(description)s, tags = %(tags)s,
                metadata = %(metadata)s, came_from = %(came_from)s, trust = %(trust)s, updated_at = %(now)s
            where id = %(id)s
        """
        values = {name: getattr(memory, name) for name in ("id", "title", "description", "tags", "trust")}
        stored = {name: as_json(getattr(memory, name)) for name in ("metadata", "came_from")}
        self.connection.later(sql, values | stored | {"now": now})
        if words is None:
            return False
        sql = """
            select id, is_contextually_enriched as enriched from memory_chunks
            where parent_id = %(id)s order by chunk_index
        """
        chunks: list[dict[str, Any]] = self.connection.fetch(dict, sql, {"id": memory.id})
        self.keywords.remove(memory.id)
        if words.units:
            unit_ids = [chunk["id"] for chunk in chunks] or [memory.id]
            self.keywords.add(memory.id, memory.memory_type, unit_ids, words)
        if not any(chunk["enriched"] for chunk in chunks):
            return False
        sql = "update session_memories set embedding_model_id = null where id = %(id)s"
        self.connection.later(sql, {"id": memory.id})
        self.connection.later("delete from memory_passages where memory_id = %(id)s", {"id": memory.id})
        return True

    def delete(self, memory_id: int, *, for_good: bool = True) -> int | None:
        """Delete a memory with everything derived from it; return its number of chunks, or None if it did not exist.

        `for_good`: record the deletion, so that its text stays gone when its source is read again.
        """
        found = self._deleted(memory_id)
        if found is None:
            return None
        if for_good and found.held != DELETED:
            self.note_deletion(found)
        self.bypass(memory_id)
        self.keywords.remove(memory_id)
        self.connection.later("delete from session_memories where id = %(id)s", {"id": memory_id})
        return found.chunk_count

    def set_aside(self, memory_id: int, by: str, until: str) -> int | None:
        """Hold a memory as deleted by an agent until a time; return what `delete` does. Its text stays gone."""
        found = self._deleted(memory_id, UNEXPIRED)
        if found is None:
            return None
        self.note_deletion(found)
        self.hold([memory_id], DELETED, by, until)
        return found.chunk_count

    def bring_back(self, memory_ids: Sequence[int]) -> None:
        """Release memories that are held back, and forget that they were deleted. Cursors so far return them again."""
        for number in memory_ids:
            if (found := self._deleted(number)) is not None and found.held == DELETED:
                self.forget_deletion(found)
        self.hold(memory_ids, None, None)
        for number, given_at in zip(memory_ids, self.next_ids("memory", len(memory_ids)), strict=True):
            self._set(number, given_at=given_at)
            self.raise_last_ids(LastIds(given_at, 0))

    def _deleted(self, memory_id: int, condition: str = "true") -> Deleted | None:
        sql = f"""
            select memory_type, session_id, metadata, content_hash, created_at,
                (select count(*) from memory_chunks where parent_id = m.id) as chunk_count,
                (select l.held from memory_lifecycle l where l.memory_id = m.id) as held
            from session_memories m where m.id = %(id)s and {condition}
        """
        return self.connection.fetch_one(Deleted, sql, {"id": memory_id})

    def insert_row(self, memory: Memory, model_id: int | None, *, is_dated: bool = False) -> None:
        """Insert the row of a memory. `is_dated`: with the turn of the latest one written before it."""
        self.connection.later(INSERT_ROW, row_of(memory) | {"model_id": model_id, "is_dated": is_dated})

    def rewrite(self, memory: Memory, derived: Derived) -> None:
        """Replace what is stored of a memory, texts too, and all that is derived from it. It then lacks vectors."""
        self.keywords.remove(memory.id)
        self.connection.later("delete from memory_passages where memory_id = %(id)s", {"id": memory.id})
        self.connection.later("delete from memory_chunks where parent_id = %(id)s", {"id": memory.id})
        self.connection.later(REWRITE_ROW, row_of(memory))
        chunk_ids = self._insert_chunks(memory, derived)
        self.keywords.add(memory.id, memory.memory_type, chunk_ids or [memory.id], derived.words)

    def _insert_chunks(self, memory: Memory, derived: Derived) -> list[int]:
        """Insert the rows of a document's chunks, and return their ids in order."""
        if not derived.chunks:
            return []
        ids = self.next_ids("chunk", len(derived.chunks))
        rows = rows_of_chunks(memory, derived.chunks, ids, enriched=derived.enriched)
        self.connection.insert("memory_chunks", rows)
        return ids

    @abstractmethod
    def raise_last_ids(self, last: LastIds) -> None:
        """Give only ids above these from now on."""

    @abstractmethod
    def next_ids(self, of: Numbered, count: int) -> list[int]:
        """Return the ids of the next memories, chunks or passages. They are valid only in this write transaction."""

    def set_tag_vectors(self, vectors: "Mapping[str, NDArray[np.float32]]", fingerprint: Fingerprint) -> None:
        """Set the vectors of the tags that are canonical. Raises EmbeddingUnavailableError like `add_memory`."""
        model_id = self.adopt_fingerprint(fingerprint)
        for tag, vector in vectors.items():
            sql = "update canonical_tags set embedding = %(vector)s, model_id = %(model)s where tag = %(tag)s"
            self.connection.later(sql, {"tag": tag, "vector": vector.tobytes(), "model": model_id})


def duplicate_of(memory: NewMemory, content_hash: str, at: str | None) -> Query:
    """Return the query for the id of the memory with the same content in the same place: of a time, or the current."""
    condition = f"({CURRENT} or {HELD})" if at is None else "m.created_at = %(at)s"
    sql = f"select m.id {DUPLICATES} and {condition} order by m.id limit 1"
    return Query(value_of, sql, place_of(memory, content_hash) | {"at": at})


def text_with(content_hash: str) -> Query:
    """Return the query for how memories stand whose text has this hash."""
    sql = f"""
        select count(case when l.held = '{QUARANTINED}' then 1 end) as taken_out, coalesce(min(m.trust), 1) as trust
        from session_memories m left join memory_lifecycle l on l.memory_id = m.id
        where {{visible:m}} and m.content_hash = %(content_hash)s
    """
    return Query(SameText, sql, {"content_hash": content_hash})


def place_of(memory: NewMemory, content_hash: str) -> dict[str, Any]:
    """Return where a memory belongs, and the hash of its text: the same text in the same place is a duplicate."""
    metadata = memory.metadata
    return copied_from(metadata) | {
        "content_hash": content_hash,
        "kind": str(memory.kind),
        "agent_id": memory.agent_id,
        "session_id": memory.session_id,
        "session_iter": memory.session_iter,
        "task_code": memory.task_code,
        # All as JSON: SQLite has no type for some JSON values. PostgreSQL rejects JSON with NUL in a name.
        "metadata": as_json(metadata),
        "root": as_json({"root": metadata["root"]})[1:-1] if "root" in metadata else None,
    }


def copied_from(metadata: dict[str, Any]) -> dict[str, str | None]:
    """Return the metadata values that have their own columns in PostgreSQL."""
    about = metadata.get("parent_report_id")
    return {
        "about_report": None if about is None else as_json(about)[:LONGEST_INDEXED],
        "category": text_of(metadata.get("category")),
        "project": text_of(metadata.get("project")),
    }


def row_of(memory: Memory) -> dict[str, Any]:
    """Return the values of a memory's row."""
    values = {field.name: getattr(memory, field.name) for field in fields(memory)}
    sizes = {"content_length": len(memory.content), "content_bytes": len(memory.content.encode())}
    stored = {name: as_json(values[name]) for name in ("metadata", "came_from")}
    return values | copied_from(memory.metadata) | sizes | stored


def text_of(value: object) -> str | None:
    """Return a text that PostgreSQL can store, or None."""
    return value if isinstance(value, str) and "\0" not in value else None


def as_stored(memory_id: int, new: NewMemory, content_hash: str, history: History, chunk_count: int) -> Memory:
    """Return a new memory as it will be stored, except the turn of a dated one, which only the database knows."""
    return Memory(
        id=memory_id,
        memory_type=str(new.kind),
        content=new.content,
        metadata=new.metadata,
        came_from=new.came_from,
        trust=new.trust,
        content_hash=content_hash,
        chunked=TRAITS[new.kind].chunked,
        chunk_count=chunk_count,
        created_at=history.created_at,
        updated_at=history.updated_at,
        accessed_at=history.accessed_at,
        access_count=history.access_count,
        turn=memory_id,
        **dict(zip(SENT, AS_SENT(new), strict=True)) | {"tags": list(new.tags)},
    )


def rows_of_chunks(
    memory: Memory, chunks: Sequence[Chunk], ids: Sequence[int], *, enriched: bool
) -> list[dict[str, Any]]:
    """Return the rows of a document's chunks, which have these ids."""
    return [
        {
            "id": chunk_id,
            "parent_id": memory.id,
            "chunk_index": chunk.index,
            "content": chunk.text,
            "chunk_type": chunk.kind,
            "start_char": chunk.start,
            "end_char": chunk.end,
            "token_count": chunk.token_count,
            "section_hierarchy": as_json(chunk.headings),
            "level": chunk.level,
            "contains_code": chunk.contains_code,
            "contains_table": chunk.contains_table,
            "is_oversized": chunk.oversized,
            "is_contextually_enriched": enriched,
        }
        for chunk, chunk_id in zip(chunks, ids, strict=True)
    ]
