"""Finds what is wrong inside a file: damage, orphans, and partly stored memories."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import apsw
import sqlite_vec

from lattice import LatticeEmbedder
from memory_files import are_words_of_texts
from vector_memory.embedding.embedder import Embedder

ORPHANS = {
    "a chunk without its memory": """
        select id from memory_chunks where parent_id not in (select id from session_memories)
    """,
    "a passage without its memory": """
        select id from memory_passages where memory_id not in (select id from session_memories)
    """,
    "a passage without its chunk": """
        select p.id from memory_passages p left join memory_chunks c on c.id = p.chunk_id and c.parent_id = p.memory_id
        where p.chunk_id is not null and c.id is null
    """,
    "a chunk's vector without a passage": """
        select passage_id from vec_chunk_search
        except select id from memory_passages where chunk_id is not null
    """,
    "a memory's vector without a passage": """
        select passage_id from vec_session_search
        except select id from memory_passages where chunk_id is null
    """,
    "keywords without a block": """
        select id from keyword_postings where id / 256 not in (select id from keyword_blocks)
    """,
    "keywords without a memory": """
        select id from keyword_blocks where id not in (select block_id from keyword_memories)
    """,
}
HALVES = {
    "a memory that lacks chunks": """
        select id from session_memories m
        where chunk_count <> (select count(*) from memory_chunks where parent_id = m.id)
            or chunk_count <> (select coalesce(max(chunk_index), -1) + 1 from memory_chunks where parent_id = m.id)
    """,
    "a memory with vectors that lacks passages": """
        select id from session_memories m where embedding_model_id is not null and (
            not exists (select 1 from memory_passages where memory_id = m.id)
            or exists (
                select 1 from memory_chunks c where parent_id = m.id
                    and not exists (select 1 from memory_passages where chunk_id = c.id)))
    """,
    "a memory whose pieces are not in the keyword index": """
        select m.id from session_memories m left join keyword_memories k on k.memory_id = m.id
        where coalesce(length(k.lengths) / 4, 0) <> iif(m.auto_chunk, m.chunk_count, 1)
    """,
    "a chunk with a wrong neighbour": """
        select c.id from memory_chunks c
        left join memory_chunks before on before.parent_id = c.parent_id and before.chunk_index = c.chunk_index - 1
        left join memory_chunks after on after.parent_id = c.parent_id and after.chunk_index = c.chunk_index + 1
        where c.prev_chunk_id is not before.id or c.next_chunk_id is not after.id
    """,
    "a chunk that is not in its document": """
        select c.id from memory_chunks c join session_memories m on m.id = c.parent_id
        where substr(m.content, c.start_char + 1, c.end_char - c.start_char) <> c.content
    """,
}
UNINDEXED = {"a memory without vectors": "select id from session_memories where embedding_model_id is null"}
PASSAGES = """
    select p.id, p.start_char, p.end_char, m.content, coalesce(v.embedding, w.embedding) as vector
    from memory_passages p join session_memories m on m.id = p.memory_id
    left join vec_chunk_search v on p.chunk_id is not null and v.passage_id = p.id
    left join vec_session_search w on p.chunk_id is null and w.passage_id = p.id
"""


def faults_of(path: Path, embedder: Embedder | None = None, *, indexed: bool = True) -> list[str]:
    """Return what is wrong with a file; empty if nothing is.

    `embedder` is what made its vectors; `indexed`: every memory has to have some.
    """
    queries = ORPHANS | HALVES | (UNINDEXED if indexed else {})
    with connected(path) as connection:
        return [
            *integrity(connection),
            *(f"{what}: {row[0]}" for what, sql in queries.items() for row in connection.execute(sql)),
            *wrong_hashes(connection),
            *wrong_vectors(connection, embedder or LatticeEmbedder()),
        ]


@contextlib.contextmanager
def connected(path: Path) -> Iterator[apsw.Connection]:
    """Give a connection that is not the store's own."""
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(30_000)
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        # A connection that has read nothing does not know of the log, and its checkpoints do nothing.
        connection.execute("pragma schema_version").fetchall()
        yield connection
    finally:
        connection.close()


def integrity(connection: apsw.Connection) -> list[str]:
    """Return what SQLite says about the file, and whether the keyword index is that of the text."""
    found = [row[0] for row in connection.execute("pragma integrity_check") if row[0] != "ok"]
    found += [f"a foreign key of {row[0]}" for row in connection.execute("pragma foreign_key_check")]
    if not are_words_of_texts(connection):
        found.append("the keyword index says something else than the text")
    return found


def wrong_hashes(connection: apsw.Connection) -> list[str]:
    """Name the memories whose text is not the one that was hashed."""
    rows = connection.execute("select id, content, content_hash from session_memories")
    return [
        f"the hash of {memory_id}"
        for memory_id, text, hashed in rows
        if hashlib.sha256(text.encode()).hexdigest() != hashed
    ]


def wrong_vectors(connection: apsw.Connection, embedder: Embedder) -> list[str]:
    """Name the passages whose vector is not there, or is not that of their text."""
    rows = connection.execute(PASSAGES).fetchall()
    vectors = embedder.embed([text[start:end] for _, start, end, text, _ in rows])
    return [
        f"the vector of passage {row[0]}"
        for row, vector in zip(rows, vectors, strict=True)
        if row[4] != vector.tobytes()
    ]
