"""The tables of the keyword index (`storage.postings`): one memory's words added or removed, and blocks made anew."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from vector_memory.storage.connection import Connection, Query
from vector_memory.storage.damaged import texts_in
from vector_memory.storage.postings import (
    BUCKETS,
    ID,
    LENGTH,
    UNITS_PER_BLOCK,
    Block,
    Contents,
    Words,
    indexed,
    row_id,
    rows_to_add,
    without,
    words_at,
)
from vector_memory.texts.terms import RULES, searchable_text

CONTENTS = ", ".join(Contents._fields)

BLOCK = f"select id, kind, units, rules, {CONTENTS} from keyword_blocks"

NEW_BLOCK = f"""
insert into keyword_blocks (kind, units, rules, {CONTENTS})
values (%(kind)s, 0, %(rules)s, {{no_bytes}}, {{no_bytes}}, {{no_bytes}}, {{no_bytes}}) returning id
"""

FOLLOWED = ", ".join(f"{column} = {{followed:{column}}}" for column in Contents._fields)
ADD_TO_BLOCK = f"update keyword_blocks set units = %(units)s, {FOLLOWED} where id = %(id)s"

REPLACED = ", ".join(f"{column} = %({column})s" for column in Contents._fields)
SET_CONTENTS = f"update keyword_blocks set {REPLACED} where id = %(id)s"

KNOWN_ROW = "on conflict (id) do update set postings ="

OWN_BLOCK = "(select block_id from keyword_memories where memory_id = %(id)s)"

# A document that should be chunked but has no chunks yet has no units.
UNIT_TEXTS = """
select u.id, {bytes:m.title} as title, {bytes:u.headings} as headings, {bytes:u.content} as content
from session_memories m join (
    select id, content, section_hierarchy as headings, parent_id as memory_id, chunk_index from memory_chunks
    where parent_id = %(id)s
    union all select id, content, '[]', id, 0 from session_memories where id = %(id)s and not auto_chunk
) u on u.memory_id = m.id order by u.chunk_index
"""


class PostingsRow(NamedTuple):
    """A row of postings: those of a block in one bucket."""

    id: int
    postings: bytes


class IndexedUnit(NamedTuple):
    """A unit, and its searchable text."""

    id: int
    text: str


class WordBlock(NamedTuple):
    """A block of the keyword index (`storage.postings`). `postings`: arrays of postings by bucket.

    `rules`: those by which its terms were made.
    """

    id: int
    kind: str
    units: int
    rules: int
    contents: Contents
    postings: dict[int, bytes]


@dataclass
class KeywordIndex:
    """The keyword index. What changes anything needs a writer.

    `open`: the blocks for the next memories of kinds, as this transaction has left them.
    """

    connection: Connection
    open: dict[str, Block] = field(default_factory=dict)

    def open_block(self, kind: str) -> Query:
        """Return the query for the block that takes the words of the next memory of a kind, if it has room."""
        sql = """
            select id, units from keyword_blocks where kind = %(kind)s and rules = %(rules)s order by id desc limit 1
            {exempt:where the next words go}
        """
        return Query(Block, sql, {"kind": kind, "rules": RULES})

    def keep_open(self, kind: str, blocks: Sequence[Block]) -> None:
        """Keep the query's result, so that `add` does not read it."""
        self.open[kind] = next(iter(blocks), Block(0, UNITS_PER_BLOCK))

    def add(self, memory_id: int, kind: str, unit_ids: Sequence[int], words: Words) -> None:
        """Add a memory with its units. In its words they are numbered from 0."""
        if kind not in self.open:
            self.keep_open(kind, self.connection.fetch(*self.open_block(kind)))
        block = self.open[kind]
        if block.units >= UNITS_PER_BLOCK:
            block = Block(int(self.connection.fetch_value(NEW_BLOCK, {"kind": kind, "rules": RULES})), 0)
        self.open[kind] = Block(block.id, block.units + words.units)
        ids, sizes = np.array([memory_id], ID), np.array([words.units], LENGTH)
        added = Contents(ids.tobytes(), sizes.tobytes(), np.array(unit_ids, ID).tobytes(), words.lengths)
        self.connection.later(ADD_TO_BLOCK, {**self.open[kind]._asdict(), **added._asdict()})
        self.connection.insert("keyword_memories", [{"memory_id": memory_id, "block_id": block.id}])
        self.connection.insert("keyword_postings", rows_to_add(words, block), f"{KNOWN_ROW} {{appended:postings}}")

    def remove(self, memory_id: int) -> None:
        """Remove a memory, if it is there. This must happen before the memory is deleted.

        The rest of an almost empty block moves to the open one, so that searches read few blocks.
        """
        self.open.clear()
        blocks, rows = self.connection.batch(
            Query(word_block, f"{BLOCK} where id = {OWN_BLOCK}", {"id": memory_id}),
            Query(
                PostingsRow,
                f"""
                select id, postings from keyword_postings
                where id >= {BUCKETS} * {OWN_BLOCK} and id < {BUCKETS} * {OWN_BLOCK} + {BUCKETS}
                """,
                {"id": memory_id},
            ),
        )
        later = self.connection.later
        later("delete from keyword_memories where memory_id = %(id)s", {"id": memory_id})
        span = blocks[0].contents.spans().get(memory_id) if blocks else None
        if span is None:
            return
        block_id, kind, _, rules, contents, _ = blocks[0]
        left = contents.without(memory_id, span)
        postings = {row.id: row.postings for row in rows}
        others, kept_spans = without(postings, span), left.spans()
        if not kept_spans or (left.is_sparse and rules == RULES):
            self._delete_block(block_id)
            for number, own in kept_spans.items():
                self.add(number, kind, left.units_at(own), words_at(own, left, postings))
            return
        later(SET_CONTENTS, {"id": block_id, **left._asdict()})
        kept = [{"id": number, "postings": postings} for number, postings in others.items() if postings]
        self.connection.insert("keyword_postings", kept, f"{KNOWN_ROW} excluded.postings")
        empty = [number for number, postings in others.items() if not postings]
        later("delete from keyword_postings where id {among:ids}", {"ids": empty})

    def clear(self) -> None:
        """Empty the index."""
        self.open.clear()
        for table in ("memories", "postings", "blocks"):
            self.connection.later(f"delete from keyword_{table}")

    def fill(self) -> None:
        """Index all memories; none may be indexed yet. One memory is in RAM at a time."""
        sql = "select id as memory_id, memory_type as kind from session_memories order by id"
        memories: list[dict[str, Any]] = self.connection.fetch(dict, sql)
        for memory in memories:
            if units := self.units_of(memory["memory_id"]):
                self.add(**memory, unit_ids=[unit.id for unit in units], words=indexed([one.text for one in units]))

    def units_of(self, memory_id: int) -> list[IndexedUnit]:
        """Return the units of a memory; none if it should be chunked but has no chunks yet."""
        return self.connection.fetch(indexed_unit, UNIT_TEXTS, {"id": memory_id})

    def memories_in(self, block_id: int) -> list[int]:
        """Return the ids of the memories that are filed in a block of their kind, ascending."""
        sql = """
            select k.memory_id from keyword_memories k join keyword_blocks b on b.id = k.block_id
            join session_memories m on m.id = k.memory_id and m.memory_type = b.kind
            where k.block_id = %(id)s order by k.memory_id
        """
        return self.connection.fetch_column(sql, {"id": block_id})

    def index_again(self) -> bool:
        """Reindex the first block whose terms come from earlier rules; False: there is none.

        This takes about 0.1 s. A unit keeps its place. A damaged block stays as it is: `vector-memory doctor` finds it.
        """
        sql = f"{BLOCK} where rules < %(rules)s order by id limit 1"
        block = self.connection.fetch_one(word_block, sql, {"rules": RULES})
        if block is None:
            return False
        contents = block.contents
        spans = contents.spans() if contents.is_sound else {}
        words = {memory_id: indexed([unit.text for unit in self.units_of(memory_id)]) for memory_id in spans}
        if contents.is_sound and all(words[memory_id].units == len(span) for memory_id, span in spans.items()):
            rows, lengths = defaultdict[int, bytes](bytes), np.frombuffer(contents.lengths, LENGTH).copy()
            for memory_id, span in spans.items():
                lengths[span.start : span.stop] = np.frombuffer(words[memory_id].lengths, LENGTH)
                for row in rows_to_add(words[memory_id], Block(block.id, span.start)):
                    rows[row["id"]] += row["postings"]
            self._delete_postings(block.id)
            new = [{"id": number, "postings": postings} for number, postings in sorted(rows.items())]
            self.connection.insert("keyword_postings", new)
            self.connection.later(SET_CONTENTS, {"id": block.id, **contents._asdict(), "lengths": lengths.tobytes()})
        sql = "update keyword_blocks set rules = %(rules)s where id = %(id)s"
        self.connection.later(sql, {"rules": RULES, "id": block.id})
        return True

    def _delete_block(self, block_id: int) -> None:
        self._delete_postings(block_id)
        self.connection.later("delete from keyword_memories where block_id = %(id)s", {"id": block_id})
        self.connection.later("delete from keyword_blocks where id = %(id)s", {"id": block_id})

    def _delete_postings(self, block_id: int) -> None:
        ids = {"first": row_id(block_id, 0), "end": row_id(block_id + 1, 0)}
        self.connection.later("delete from keyword_postings where id >= %(first)s and id < %(end)s", ids)


def word_block(*, id: int, kind: str, units: int, rules: int, **contents: bytes) -> WordBlock:  # noqa: A002
    """Return a block for a row, without postings."""
    return WordBlock(id, kind, units, rules, Contents(**contents), {})


def indexed_unit(id: int, title: Any, headings: Any, content: Any) -> IndexedUnit:  # noqa: A002 - the name of a column
    """Return a unit whose texts may be damaged."""
    return IndexedUnit(id, searchable_text(decoded(title or ""), texts_in(decoded(headings)), decoded(content)))


def decoded(text: bytes | str) -> str:
    """Return a text that may be damaged, and that an engine may return as bytes."""
    return text if isinstance(text, str) else text.decode(errors="replace")
