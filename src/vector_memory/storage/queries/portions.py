"""Everything that is stored in large portions: whole memories, and blocks of the keyword index."""

from collections import defaultdict
from collections.abc import Sequence
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from vector_memory.domain import Fingerprint
from vector_memory.storage.base import WholeMemory
from vector_memory.storage.connection import Parameters, Queries, Query
from vector_memory.storage.postings import BUCKETS, row_id
from vector_memory.storage.queries import memories
from vector_memory.storage.queries.insert import rows_of_chunks
from vector_memory.storage.queries.keywords import BLOCK, PostingsRow, WordBlock, word_block
from vector_memory.storage.queries.lifecycle import Supersession
from vector_memory.storage.queries.passages import Passage
from vector_memory.storage.records import CanonicalTag, LastIds, StoredChunk
from vector_memory.texts.terms import RULES

if TYPE_CHECKING:
    from vector_memory.storage.base import Reader, Writer


class StoredLifecycle(NamedTuple):
    """A row of `memory_lifecycle`."""

    memory_id: int
    expires_at: str | None
    superseded_at: str | None
    superseded_until: str | None
    pinned: bool
    held: str | None
    held_at: str | None
    held_for: str | None
    held_until: str | None
    given_at: int | None


class CopiedFrom(NamedTuple):
    """The random name of a memory, and that of the one it was copied from: all memories up to `last_copied` were."""

    memory: str = ""
    source: str | None = None
    last_copied: int = 0


class Lifetimes(NamedTuple):
    """How long memories are current, and which supersede others."""

    lifecycles: list[StoredLifecycle]
    links: list[Supersession]


def stored_lifecycle(*, pinned: int, **columns: Any) -> StoredLifecycle:
    """Return a StoredLifecycle for a row."""
    return StoredLifecycle(pinned=bool(pinned), **columns)


class Portions(Queries):
    """Everything that is stored, to be read from one memory and written to another, of any engine.

    What changes anything needs a writer.
    """

    def __init__(self, reader: "Reader") -> None:
        super().__init__(reader.connection)
        self._reader, self._writer = reader, cast("Writer", reader)

    def memories(self, after_id: int, limit: int) -> list[WholeMemory]:
        """Return the first `limit` memories with ids above `after_id`, sorted by id."""
        return self._whole("m.id > %(after)s order by m.id limit %(limit)s", {"after": after_id, "limit": limit})

    def whole(self, memory_ids: Sequence[int], *, bare: bool = False) -> list[WholeMemory]:
        """Return the memories that exist, expired ones too, sorted by id. `bare`: without derived data."""
        return self._whole("m.id {among:ids} order by m.id", {"ids": list(memory_ids)}, bare=bare)

    def _whole(self, which: str, parameters: Parameters, *, bare: bool = False) -> list[WholeMemory]:
        sql = f"select {memories.COLUMNS} from session_memories m where {which}"
        found = self.connection.fetch(memories.memory_from_row, sql, parameters)
        ids = [memory.id for memory in found]
        evidence = self._reader.evidence.of(ids)
        if bare:
            return [WholeMemory(memory, [], None, evidence.get(memory.id, ())) for memory in found]
        parts, passages = self._chunks(ids), self._reader.vectors.passages(ids)
        return [
            WholeMemory(memory, parts[memory.id], passages.get(memory.id), evidence.get(memory.id, ()))
            for memory in found
        ]

    def _chunks(self, memory_ids: list[int]) -> dict[int, list[StoredChunk]]:
        sql = f"""
            select {memories.CHUNK_COLUMNS} from memory_chunks c
            where c.parent_id {{among:ids}} order by c.parent_id, c.chunk_index
        """
        found = defaultdict[int, list[StoredChunk]](list)
        for chunk in self.connection.fetch(memories.chunk_from_row, sql, {"ids": memory_ids}):
            found[chunk.memory_id].append(chunk)
        return found

    def blocks(self, after_id: int, limit: int) -> list[WordBlock]:
        """Return the first `limit` blocks of the keyword index with ids above `after_id`, sorted by id."""
        sql = f"{BLOCK} where id > %(after)s order by id limit %(limit)s"
        found = self.connection.fetch(word_block, sql, {"after": after_id, "limit": limit})
        blocks = {block.id: block for block in found}
        sql = "select id, postings from keyword_postings where id >= %(first)s and id < %(end)s order by id"
        bounds = {"first": min(blocks, default=0) * BUCKETS, "end": (max(blocks, default=-1) + 1) * BUCKETS}
        for row in self.connection.fetch(PostingsRow, sql, bounds):
            if row.id // BUCKETS in blocks:
                blocks[row.id // BUCKETS].postings[row.id % BUCKETS] = row.postings
        return found

    def count_outdated(self) -> int:
        """Return the number of memories whose words were indexed by earlier rules."""
        sql = """
            select count(*) from keyword_memories k join keyword_blocks b on b.id = k.block_id where b.rules < %(rules)s
        """
        return int(self.connection.fetch_value(sql, {"rules": RULES}))

    def miscounted(self) -> list[int]:
        """Return the memories with a wrong number of chunks, or missing from the keyword index."""
        sql = """
            select m.id from session_memories m
            where m.chunk_count <> (select count(*) from memory_chunks where parent_id = m.id)
                or (not m.auto_chunk or m.chunk_count > 0)
                    <> exists (
                        select 1 from keyword_memories k join keyword_blocks b on b.id = k.block_id
                        where k.memory_id = m.id
                    )
            order by m.id
        """
        return self.connection.fetch_column(sql)

    def lifetimes(self) -> Lifetimes:
        """Return the lifetimes of memories that are not current for ever."""
        sql = """
            select memory_id, expires_at, superseded_at, superseded_until, pinned, held, held_at, held_for, held_until,
                given_at
            from memory_lifecycle
            order by memory_id
        """
        links = "select older_id, newer_id from supersessions order by older_id, newer_id"
        return Lifetimes(*self.connection.batch(Query(stored_lifecycle, sql), Query(Supersession, links)))

    def copied_from(self) -> CopiedFrom:
        """Return where this memory was copied from."""
        sql = "select memory, source, last_copied from provenance"
        return self.connection.fetch_one(CopiedFrom, sql) or CopiedFrom()

    def set_copied_from(self, source: str, last_copied: int) -> None:
        """Note that all memories of another one up to this id were copied from there."""
        sql = """
            insert into provenance (id, memory, source, last_copied) values (1, %(name)s, %(source)s, %(last)s)
            on conflict (id) do update set source = excluded.source, last_copied = excluded.last_copied
        """
        self.connection.later(sql, {"name": token_hex(16), "source": source, "last": last_copied})

    def set_lifetimes(self, lifetimes: Lifetimes) -> None:
        """Replace the lifetimes of memories."""
        self.connection.later("delete from supersessions")
        self.connection.later("delete from memory_lifecycle")
        self.connection.insert("memory_lifecycle", [row._asdict() for row in lifetimes.lifecycles])
        self.connection.insert("supersessions", [link._asdict() for link in lifetimes.links])

    def add_memories(self, memories: Sequence[WholeMemory], fingerprint: Fingerprint | None) -> None:
        """Add memories with the ids that they and their chunks have. Their words are not indexed yet.

        Raises EmbeddingUnavailableError if their vectors are not comparable with the stored ones.
        """
        writer = self._writer
        model_id = None if fingerprint is None else writer.adopt_fingerprint(fingerprint)
        for whole in memories:
            memory, chunk_ids = whole.memory, [chunk.id for chunk in whole.chunks]
            writer.insert_row(memory, None if whole.passages is None else model_id)
            writer.keep(memory.id, memory.expires_at, pinned=memory.pinned)
            writer.add_evidence(memory.id, whole.evidence)
            if whole.chunks:
                parts, enriched = [chunk.chunk for chunk in whole.chunks], whole.chunks[0].enriched
                self.connection.insert("memory_chunks", rows_of_chunks(memory, parts, chunk_ids, enriched=enriched))
            if whole.passages and model_id is not None:
                passages = [
                    Passage(None if place.chunk is None else chunk_ids[place.chunk], place.start, place.end)
                    for place in whole.passages
                ]
                vectors = np.stack([passage.vector for passage in whole.passages])
                states = [passage.states for passage in whole.passages]
                writer.add_passages(memory, passages, vectors, states, model_id)
        last_chunk = max((part.id for whole in memories for part in whole.chunks), default=0)
        writer.raise_last_ids(LastIds(max(whole.memory.id for whole in memories), last_chunk))

    def add_blocks(self, blocks: Sequence[WordBlock]) -> None:
        """Add blocks with their ids to the keyword index."""
        insert = self.connection.insert
        for one in blocks:
            block = {"id": one.id, "kind": one.kind, "units": one.units, "rules": one.rules}
            insert("keyword_blocks", [block | one.contents._asdict()])
            insert("keyword_memories", [{"memory_id": memory, "block_id": one.id} for memory in one.contents.spans()])
            rows = [{"id": row_id(one.id, bucket), "postings": postings} for bucket, postings in one.postings.items()]
            insert("keyword_postings", rows)

    def finish(self, last_ids: LastIds, tags: Sequence[CanonicalTag]) -> None:
        """Replace the canonical tags, and assign only higher ids from now on."""
        self.connection.later("delete from canonical_tags")
        rows = [{"tag": tag.tag, "frequency": tag.frequency, "created_at": tag.created_at} for tag in tags]
        self.connection.insert("canonical_tags", rows)
        self._writer.raise_last_ids(last_ids)
        self._writer.end_copy()
