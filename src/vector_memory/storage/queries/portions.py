"""Everything that is stored in large portions: whole memories, and blocks of the keyword index."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from vector_memory.domain import Fingerprint
from vector_memory.storage.connection import Queries
from vector_memory.storage.maintenance_api import LastIds, PlacedLengths, WholeMemory, WordBlock
from vector_memory.storage.postings import BUCKETS
from vector_memory.storage.queries import chunks, memories
from vector_memory.storage.records import CanonicalTag, StoredChunk, StoredPassage
from vector_memory.storage.terms import RULES


def as_tuple(**columns: Any) -> tuple[Any, ...]:
    """Return a row as a tuple."""
    return tuple(columns.values())


def empty_block(**columns: Any) -> WordBlock:
    """Return a block without memories and postings."""
    return WordBlock(**columns, memories=[], postings={})


class Portions(Queries, ABC):
    """Everything that is stored, to be read from one memory and written to another, of any engine.

    What changes anything needs a writer. What is abstract, each engine does in its own way.
    """

    def memories(self, after_id: int, limit: int) -> list[WholeMemory]:
        """Return the first `limit` memories with ids above `after_id`, sorted by id."""
        sql = f"""
            select {memories.COLUMNS} from session_memories m where m.id > %(after)s order by m.id limit %(limit)s
        """
        found = self.connection.fetch(memories.memory_from_row, sql, {"after": after_id, "limit": limit})
        ids = [memory.id for memory in found]
        parts, passages = self._chunks(ids), self.passages(ids)
        return [WholeMemory(memory, parts[memory.id], passages.get(memory.id)) for memory in found]

    def _chunks(self, memory_ids: list[int]) -> dict[int, list[StoredChunk]]:
        sql = f"""
            select {chunks.COLUMNS} from memory_chunks c
            where c.parent_id {{among:ids}} order by c.parent_id, c.chunk_index
        """
        found = defaultdict[int, list[StoredChunk]](list)
        for chunk in self.connection.fetch(chunks.chunk_from_row, sql, {"ids": memory_ids}):
            found[chunk.memory_id].append(chunk)
        return found

    def blocks(self, after_id: int, limit: int) -> list[WordBlock]:
        """Return the first `limit` blocks of the keyword index with ids above `after_id`, sorted by id."""
        sql = """
            select id, session_id, units, rules from keyword_blocks
            where id > %(after)s order by id limit %(limit)s
        """
        found = self.connection.fetch(empty_block, sql, {"after": after_id, "limit": limit})
        blocks = {block.id: block for block in found}
        sql = """
            select block_id, memory_id, first_unit, lengths from keyword_memories
            where block_id {among:ids} order by memory_id
        """
        for block_id, *placed in self.connection.fetch(as_tuple, sql, {"ids": list(blocks)}):
            blocks[block_id].memories.append(PlacedLengths._make(placed))
        sql = "select id, postings from keyword_postings where id >= %(first)s and id < %(end)s order by id"
        bounds = {"first": min(blocks, default=0) * BUCKETS, "end": (max(blocks, default=-1) + 1) * BUCKETS}
        for number, postings in self.connection.fetch(as_tuple, sql, bounds):
            if number // BUCKETS in blocks:
                blocks[number // BUCKETS].postings[number % BUCKETS] = postings
        return found

    def count_outdated(self) -> int:
        """Return the number of memories whose words were indexed by earlier rules."""
        sql = """
            select count(*) from keyword_memories k join keyword_blocks b on b.id = k.block_id where b.rules < %(rules)s
        """
        return int(self.connection.fetch_value(sql, {"rules": RULES}))

    def clear_blocks(self) -> None:
        """Empty the keyword index."""
        for table in ("memories", "postings", "blocks"):
            self.connection.later(f"delete from keyword_{table}")

    @abstractmethod
    def last_ids(self) -> LastIds:
        """Return the highest ids that were ever given."""

    @abstractmethod
    def passages(self, memory_ids: list[int]) -> dict[int, list[StoredPassage]]:
        """Return the passages of those memories that have all their vectors, in order."""

    @abstractmethod
    def add_memories(self, memories: Sequence[WholeMemory], fingerprint: Fingerprint | None) -> None:
        """Add memories with the ids that they and their chunks have. Their words are not indexed yet.

        Raises EmbeddingUnavailableError if their vectors are not comparable with the stored ones.
        """

    @abstractmethod
    def add_blocks(self, blocks: Sequence[WordBlock]) -> None:
        """Add blocks with their ids to the keyword index."""

    @abstractmethod
    def finish(self, last_ids: LastIds, tags: Sequence[CanonicalTag]) -> None:
        """Replace the canonical tags, give only higher ids from now on, and begin a new epoch."""
