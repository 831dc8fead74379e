"""Canonical tags: the vocabulary of the tagged memories, one row for each tag with its vector; and what they count."""

import json
from collections.abc import Collection
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import MemoryKind
from vector_memory.storage.records import CanonicalTag, TagVectors, VectorsByTag
from vector_memory.storage.sqlite.rows import fetch, fetch_column

BYTES_PER_NUMBER = 4

TAGGED = f"memory_type = '{MemoryKind.TAGGED}'"


class KnownTag(NamedTuple):
    """A canonical tag and the bytes of its vector."""

    tag: str
    vector: bytes


def among(connection: apsw.Connection, tags: Collection[str]) -> set[str]:
    """Return which of the texts are canonical tags."""
    sql = "select tag from canonical_tags where tag in (select value from json_each(?))"
    return set(fetch_column(connection, sql, (json.dumps(list(tags)),)))


def known_tags(connection: apsw.Connection, dimensions: int) -> TagVectors:
    """Return what a tag is compared with; vectors of another length count as missing."""
    length = dimensions * BYTES_PER_NUMBER
    sql = """
        select tag, case length(embedding) when :length then embedding else zeroblob(:length) end as vector
        from canonical_tags order by id
    """
    rows = list(map(KnownTag._make, connection.execute(sql, {"length": length})))
    vectors = np.frombuffer(b"".join(row.vector for row in rows), np.float32).reshape(len(rows), dimensions)
    return TagVectors([row.tag for row in rows], vectors)


def set_vectors(connection: apsw.Connection, vectors: VectorsByTag) -> None:
    """Give those of the tags that are canonical their vectors."""
    connection.executemany(
        "update canonical_tags set embedding = ? where tag = ?",
        [(vector.tobytes(), tag) for tag, vector in vectors.items()],
    )


def forget_vectors(connection: apsw.Connection) -> None:
    """Take all tags' vectors away: those of the file are of another model from now on."""
    connection.execute("update canonical_tags set embedding = null")


def count_use(connection: apsw.Connection, tag: str, vector: NDArray[np.float32] | None, now: str) -> None:
    """Note that one more memory has a tag, which becomes canonical if it was not."""
    connection.execute(
        """
        insert into canonical_tags (tag, embedding, frequency, created_at) values (?, ?, 1, ?)
        on conflict (tag) do update set frequency = frequency + 1
        """,
        (tag, None if vector is None else vector.tobytes(), now),
    )


def canonical_tags(connection: apsw.Connection, among: Collection[str] | None) -> list[CanonicalTag]:
    """Return the canonical tags, or those among some: the most frequent first, then in alphabetical order."""
    sql = """
        select tag, frequency, created_at from canonical_tags
        where :among is null or tag in (select value from json_each(:among)) order by frequency desc, tag
    """
    return fetch(connection, CanonicalTag, sql, {"among": None if among is None else json.dumps(list(among))})


def tags_in_use(connection: apsw.Connection) -> list[str]:
    """Return the tags that stand on a tagged memory now, each once, in the order of the alphabet."""
    sql = f"""
        select distinct tag.value from session_memories m, json_each(m.tags) tag
        where m.{TAGGED} and tag.type = 'text' order by tag.value
    """
    return fetch_column(connection, sql)


def unknown_tags(connection: apsw.Connection) -> list[str]:
    """Return the tags in use that are not canonical: a fault."""
    used = tags_in_use(connection)
    return sorted(set(used) - among(connection, used))


def restore_tags(connection: apsw.Connection, now: str) -> int:
    """Make the tags in use that are not canonical so, as frequent as they are now; return how many there were."""
    connection.execute(
        f"""
        insert into canonical_tags (tag, frequency, created_at)
            select tag.value, count(*), ? from session_memories m, json_each(m.tags) tag
            where m.{TAGGED} and tag.type = 'text' and tag.value not in (select tag from canonical_tags)
            group by tag.value order by min(m.id), min(tag.key)
        """,
        (now,),
    )
    return connection.changes()
