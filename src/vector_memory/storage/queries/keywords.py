"""The tables of the keyword index (`storage.postings`): one memory's words added or removed, and blocks made anew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vector_memory.storage.connection import Asked, Connection
from vector_memory.storage.json_columns import texts_in
from vector_memory.storage.postings import (
    BUCKETS,
    UNITS_PER_BLOCK,
    Block,
    PlacedWords,
    Words,
    indexed,
    row_id,
    rows_to_add,
    without,
)
from vector_memory.storage.terms import OLD_WORDS, RULES
from vector_memory.storage.unit_text import searchable_text

PLACED = "select memory_id, block_id, first_unit, lengths from keyword_memories"

NEW_BLOCK = "insert into keyword_blocks (session_id, units, rules) values (%(session)s, 0, %(rules)s) returning id"

KNOWN_ROW = "on conflict (id) do update set postings ="

OWN_BLOCK = "(select block_id from keyword_memories where memory_id = %(id)s)"

# A document that should be chunked but has no chunks yet has no units.
UNIT_TEXTS = """
select {bytes:m.title} as title, {bytes:u.headings} as headings, {bytes:u.content} as content
from session_memories m join (
    select content, section_hierarchy as headings, parent_id as memory_id, chunk_index from memory_chunks
    where parent_id = %(id)s
    union all select content, '[]', id, 0 from session_memories where id = %(id)s and not auto_chunk
) u on u.memory_id = m.id order by u.chunk_index
"""


class PostingsRow(NamedTuple):
    """A row of postings: those of a block in one bucket."""

    id: int
    postings: bytes


class Owner(NamedTuple):
    """A memory, and the session whose blocks have its words."""

    id: int
    session_id: str | None


@dataclass
class KeywordIndex:
    """The keyword index. What changes anything needs a writer.

    `open`: the blocks for the next memories of sessions, as this transaction has left them.
    """

    connection: Connection
    open: dict[str | None, Block] = field(default_factory=dict)

    def open_block(self, session_id: str | None) -> Asked:
        """Return the query for the block that takes the words of a session's next memory, if it has room."""
        own = "session_id is null" if session_id is None else "session_id = %(session)s"
        # In the order of the index, also of memories without a session.
        sql = f"""
            select id, units from keyword_blocks where {own} and rules = %(rules)s
            order by session_id desc, id desc limit 1
        """
        return Asked(Block, sql, {"session": session_id, "rules": RULES})

    def keep_open(self, session_id: str | None, blocks: Sequence[Block]) -> None:
        """Keep what the query has found, so that `add` does not ask."""
        self.open[session_id] = next(iter(blocks), Block(0, UNITS_PER_BLOCK))

    def add(self, memory_id: int, session_id: str | None, words: Words) -> None:
        """Add a memory. The units of its words are numbered from 0."""
        if session_id not in self.open:
            self.keep_open(session_id, self.connection.fetch(*self.open_block(session_id)))
        block = self.open[session_id]
        if block.units >= UNITS_PER_BLOCK:
            values = {"session": session_id, "rules": RULES}
            block = Block(int(self.connection.fetch_value(NEW_BLOCK, values)), 0)
        self.open[session_id] = Block(block.id, block.units + words.units)
        later = self.connection.later
        later("update keyword_blocks set units = %(units)s where id = %(id)s", self.open[session_id]._asdict())
        placed = PlacedWords(memory_id, block.id, block.units, words.lengths)
        self.connection.insert("keyword_memories", [placed._asdict()])
        self.connection.insert("keyword_postings", rows_to_add(words, block), f"{KNOWN_ROW} {{appended:postings}}")

    def remove(self, memory_id: int) -> None:
        """Remove a memory, if it is there. This must happen before the memory is deleted."""
        self.open.clear()
        placed, rows = self.connection.batch(
            Asked(PlacedWords, f"{PLACED} where block_id = {OWN_BLOCK}", {"id": memory_id}),
            Asked(
                PostingsRow,
                f"""
                select id, postings from keyword_postings
                where id >= {BUCKETS} * {OWN_BLOCK} and id < {BUCKETS} * {OWN_BLOCK} + {BUCKETS}
                """,
                {"id": memory_id},
            ),
        )
        memory = next((one for one in placed if one.memory_id == memory_id), None)
        if memory is None:
            return
        later = self.connection.later
        later("delete from keyword_memories where memory_id = %(id)s", {"id": memory_id})
        later("update {revision} set removals = removals + 1")
        if len(placed) == 1:
            self._delete_postings(memory.block_id)
            later("delete from keyword_blocks where id = %(id)s", {"id": memory.block_id})
            return
        others = without({row.id: row.postings for row in rows}, memory)
        kept = [{"id": number, "postings": postings} for number, postings in others.items() if postings]
        self.connection.insert("keyword_postings", kept, f"{KNOWN_ROW} excluded.postings")
        empty = [number for number, postings in others.items() if not postings]
        later("delete from keyword_postings where id {among:ids}", {"ids": empty})

    def rebuild(self) -> None:
        """Rebuild the whole index from the text."""
        self.clear()
        self.fill()
        self.connection.later("{begin_epoch}")

    def clear(self) -> None:
        """Empty the index."""
        self.open.clear()
        for table in ("memories", "postings", "blocks"):
            self.connection.later(f"delete from keyword_{table}")

    def fill(self) -> None:
        """Index all memories; none may be indexed yet. One memory is in RAM at a time."""
        for memory in self.connection.fetch(Owner, "select id, session_id from session_memories order by id"):
            if texts := self.texts_of(memory.id):
                self.add(memory.id, memory.session_id, indexed(texts))

    def texts_of(self, memory_id: int) -> list[str]:
        """Return the searchable texts of a memory's units; none if it should be chunked but has no chunks yet."""
        return self.connection.fetch(unit_text, UNIT_TEXTS, {"id": memory_id})

    def placed_in(self, block_id: int) -> list[PlacedWords]:
        """Return where the memories of a block are."""
        sql = f"{PLACED} where block_id = %(id)s order by memory_id"
        return self.connection.fetch(PlacedWords, sql, {"id": block_id})

    def old_blocks(self, limit: int) -> list[int]:
        """Return the ids of the first blocks whose terms were made by earlier rules."""
        sql = "select id from keyword_blocks where rules < %(rules)s order by id limit %(limit)s"
        return self.connection.fetch_column(sql, {"rules": RULES, "limit": limit})

    def is_old(self, block_id: int) -> bool:
        """Return whether a block is still there and its terms were made by earlier rules."""
        sql = "select 1 from keyword_blocks where id = %(id)s and rules < %(rules)s"
        return self.connection.fetch_value(sql, {"id": block_id, "rules": RULES}) is not None

    def replace_block(self, block_id: int, memories: Sequence[PlacedWords], rows: Mapping[int, bytes]) -> None:
        """Replace the lengths of a block's units and its rows of postings; they are by the rules of this release."""
        self._delete_postings(block_id)
        new = [{"id": number, "postings": postings} for number, postings in sorted(rows.items())]
        self.connection.insert("keyword_postings", new)
        for memory in memories:
            sql = "update keyword_memories set lengths = %(lengths)s where memory_id = %(memory_id)s"
            self.connection.later(sql, {"lengths": memory.lengths, "memory_id": memory.memory_id})
        self.keep_block(block_id)

    def keep_block(self, block_id: int) -> None:
        """Count a block as one of this release, as it is."""
        later = self.connection.later
        later("update keyword_blocks set rules = %(rules)s where id = %(id)s", {"rules": RULES, "id": block_id})
        later(f"update {{revision}} set epoch = epoch + 1 where not exists ({OLD_WORDS})")

    def _delete_postings(self, block_id: int) -> None:
        ids = {"first": row_id(block_id, 0), "end": row_id(block_id + 1, 0)}
        self.connection.later("delete from keyword_postings where id >= %(first)s and id < %(end)s", ids)


def unit_text(title: Any, headings: Any, content: Any) -> str:
    """Return the searchable text of a unit whose texts may be damaged."""
    return searchable_text(readable(title or ""), texts_in(readable(headings)), readable(content))


def readable(text: bytes | str) -> str:
    """Return a text that may be damaged, and that an engine may return as bytes."""
    return text if isinstance(text, str) else text.decode(errors="replace")
