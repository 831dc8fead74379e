"""Compares derived data with the text. Faults are reported by memory id."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

import apsw
import numpy as np

from vector_memory.storage.postings import BUCKETS, LENGTH, MAX_UNITS, POSTING, indexed, numbers_of
from vector_memory.storage.sqlite import keywords
from vector_memory.storage.sqlite.rows import as_dict, fetch, fetch_column, fetch_value
from vector_memory.storage.sqlite.vec0.blocks import are_blocks_consistent
from vector_memory.storage.sqlite.vectors import CHUNK_TABLE, MEMORY_TABLE, vector_dimensions
from vector_memory.storage.terms import RULES

UNIT_LENGTH_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class TextFaults:
    """Memories with changed text, with chunks that do not match it, or with passages that do not cover it."""

    text: set[int] = field(default_factory=set)
    chunks: set[int] = field(default_factory=set)
    passages: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class VectorFaults:
    """Memories with passages whose vectors are missing, unusable or filed wrongly, and vectors without a passage.

    `unreadable`: tables that sqlite-vec itself can no longer read.
    """

    missing: set[int] = field(default_factory=set)
    misfiled: set[int] = field(default_factory=set)
    strays: list[tuple[str, int]] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


class StoredText(NamedTuple):
    """A memory as bytes, because damaged text may not be valid UTF-8."""

    id: int
    content: bytes
    content_hash: str
    chunked: bool
    chunk_count: int
    indexed: bool


class StoredRange(NamedTuple):
    """A chunk, or a passage of it; `text` is empty for passages."""

    chunk_id: int | None
    start: int
    end: int
    text: bytes


class IndexEntry(NamedTuple):
    """Where a memory is in the keyword index, and its session."""

    id: int
    first: int
    lengths: bytes
    is_gone: int
    session_id: str | None


def text_faults(connection: apsw.Connection) -> TextFaults:
    """Compare each memory with its checksum, its chunks and its passages. One memory is in RAM at a time."""
    faults = TextFaults()
    for memory in _memories(connection):
        if hashlib.sha256(memory.content).hexdigest() != memory.content_hash:
            faults.text.add(memory.id)
            continue
        content, chunks = memory.content.decode(errors="replace"), _chunks(connection, memory.id)
        if not _are_chunks_correct(memory, content, chunks):
            faults.chunks.add(memory.id)
        elif not _are_passages_correct(memory, content, chunks, _passages(connection, memory.id)):
            faults.passages.add(memory.id)
    return faults


def _are_chunks_correct(memory: StoredText, content: str, chunks: list[StoredRange]) -> bool:
    """Return whether a memory has the chunks that it should have, at their offsets in the text."""
    if not memory.chunked or (not chunks and not memory.indexed):
        return not chunks
    return len(chunks) == memory.chunk_count and all(
        0 <= chunk.start <= chunk.end <= len(content) and content[chunk.start : chunk.end].encode() == chunk.text
        for chunk in chunks
    )


def _are_passages_correct(
    memory: StoredText, content: str, chunks: list[StoredRange], passages: list[StoredRange]
) -> bool:
    """Return whether all passages are inside units, and an indexed memory has passages of all its units."""
    units = chunks if memory.chunked else [StoredRange(None, 0, len(content), b"")]
    spans = {unit.chunk_id: unit for unit in units}
    inside = all(
        (unit := spans.get(passage.chunk_id)) is not None and unit.start <= passage.start < passage.end <= unit.end
        for passage in passages
    )
    covered = {passage.chunk_id for passage in passages}
    lacking = [unit for unit in units if unit.chunk_id not in covered and content[unit.start : unit.end].strip()]
    return inside and not (memory.indexed and lacking)


def _memories(connection: apsw.Connection) -> Iterator[StoredText]:
    rows = connection.execute(
        """
        select id, cast(content as blob), content_hash, auto_chunk, chunk_count, embedding_model_id is not null
        from session_memories order by id
        """
    )
    return map(StoredText._make, rows)


def _chunks(connection: apsw.Connection, memory_id: int) -> list[StoredRange]:
    """Return the chunks in order, up to the first one whose index is wrong."""
    sql = """
        select id, start_char, end_char, cast(content as blob), chunk_index from memory_chunks
        where parent_id = ? order by chunk_index
    """
    rows = enumerate(connection.execute(sql, (memory_id,)))
    return [StoredRange(*row[:4]) for _, row in takewhile(lambda each: each[0] == each[1][4], rows)]


def _passages(connection: apsw.Connection, memory_id: int) -> list[StoredRange]:
    sql = "select chunk_id, start_char, end_char, x'' from memory_passages where memory_id = ?"
    return [StoredRange(*row) for row in connection.execute(sql, (memory_id,))]


def vector_faults(connection: apsw.Connection) -> VectorFaults:
    """Compare the vector tables with the passages, and with the fields of the memories."""
    faults = VectorFaults(unreadable=unreadable_tables(connection))
    for table, of_chunks in ((CHUNK_TABLE, True), (MEMORY_TABLE, False)):
        if table not in faults.unreadable:
            _compare(connection, table, faults, of_chunks=of_chunks)
    return faults


def unreadable_tables(connection: apsw.Connection) -> list[str]:
    """Return the vector tables that sqlite-vec cannot read completely."""
    dimensions = vector_dimensions(connection)
    return [table for table in (CHUNK_TABLE, MEMORY_TABLE) if not are_blocks_consistent(connection, table, dimensions)]


def _compare(connection: apsw.Connection, table: str, faults: VectorFaults, *, of_chunks: bool) -> None:
    faults.missing.update(_without_vector(connection, table, of_chunks=of_chunks))
    for passage_id, memory_id, usable, filed in _vector_states(connection, table, of_chunks=of_chunks):
        if memory_id is None:
            faults.strays.append((table, passage_id))
        elif not usable:
            faults.missing.add(memory_id)
        elif not filed:
            faults.misfiled.add(memory_id)


def _without_vector(connection: apsw.Connection, table: str, *, of_chunks: bool) -> list[int]:
    return fetch_column(
        connection,
        f"""
        select distinct memory_id from memory_passages
        where (chunk_id is not null) = ? and id not in (select passage_id from {table})
        """,
        (of_chunks,),
    )


def _vector_states(connection: apsw.Connection, table: str, *, of_chunks: bool) -> Iterator[tuple[Any, ...]]:
    """Yield for each vector: passage id, memory id (None: no passage), is it usable, is it filed correctly."""
    origin = bytes(4 * vector_dimensions(connection))
    return connection.execute(
        f"""
        select v.passage_id, p.memory_id,
            abs(coalesce(vec_distance_l2(v.embedding, :origin), 0) - 1) < :tolerance,
            m.id is null or (
                v.session_key = (select id from index_keys where name = coalesce(m.session_id, ''))
                and v.kind_key = (select id from index_keys where name = m.memory_type)
                and v.agent_key = (select id from index_keys where name = m.agent_id)
                and v.task_key = (select id from index_keys where name = coalesce(m.task_code, ''))
                and v.session_iter = m.session_iter
            )
        from {table} v
        left join memory_passages p on p.id = v.passage_id and (p.chunk_id is not null) = :of_chunks
        left join session_memories m on m.id = p.memory_id
        """,
        {"origin": origin, "tolerance": UNIT_LENGTH_TOLERANCE, "of_chunks": of_chunks},
    )


def is_keyword_index_correct(connection: apsw.Connection, damaged: Collection[int]) -> bool:
    """Return whether the keyword index matches the text, apart from blocks by earlier rules and damaged memories."""
    known = "select id as block_id, session_id, units from keyword_blocks where rules >= ?"
    blocks = fetch(connection, as_dict, known, (RULES,))
    strays = "select count(*) from keyword_postings where id / ? not in (select id from keyword_blocks)"
    lost = """
        select m.id from session_memories m
        where (m.auto_chunk = 0 or exists (select 1 from memory_chunks where parent_id = m.id))
            <> (m.id in (select memory_id from keyword_memories))
    """
    homeless = "select count(*) from keyword_memories where block_id not in (select id from keyword_blocks)"
    return (
        not fetch_value(connection, strays, (BUCKETS,))
        and not fetch_value(connection, homeless)
        and set(fetch_column(connection, lost)) <= set(damaged)
        and all(_is_block_correct(connection, **block, damaged=damaged) for block in blocks)
    )


def _is_block_correct(
    connection: apsw.Connection, *, block_id: int, session_id: str | None, units: int, damaged: Collection[int]
) -> bool:
    found = _entries(keywords.postings_of(connection, block_id))
    unknown = set[int]()
    memories = fetch(
        connection,
        IndexEntry,
        """
        select k.memory_id as id, k.first_unit as first, k.lengths, m.id is null as is_gone, m.session_id
        from keyword_memories k left join session_memories m on m.id = k.memory_id where k.block_id = ?
        """,
        (block_id,),
    )
    for memory in memories:
        end = memory.first + len(memory.lengths) // LENGTH.itemsize
        if not 0 <= memory.first <= end <= units <= MAX_UNITS:
            return False
        if memory.is_gone or memory.id in damaged:
            unknown.update(range(memory.first, end))
            continue
        lengths, postings = indexed(keywords.texts_of(connection, memory.id), memory.first)
        wanted = _entries(postings)
        if lengths != memory.lengths or memory.session_id != session_id or wanted - found:
            return False
        found -= wanted
    return bool(memories) and all(number in unknown for _, number, _ in found)


def _entries(postings: dict[int, bytes]) -> Counter[tuple[int, int, int]]:
    """Count the postings by bucket, unit number and value."""
    entries = Counter[tuple[int, int, int]]()
    for bucket, row in postings.items():
        whole = np.frombuffer(row[: len(row) // POSTING.itemsize * POSTING.itemsize], POSTING)
        numbers = numbers_of(whole).tolist()
        entries.update(zip([bucket] * len(numbers), numbers, whole.tolist(), strict=True))
    return entries
