"""Canonical tags: the vocabulary of the tagged memories, one row per tag with its vector and frequency."""

import json
from collections.abc import Collection
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Fingerprint
from vector_memory.storage.records import CanonicalTag, TagVectors, VectorsByTag
from vector_memory.storage.sqlite.rows import fetch
from vector_memory.storage.sqlite.vectors import adopt_fingerprint

BYTES_PER_NUMBER = 4


class KnownTag(NamedTuple):
    """A canonical tag and the bytes of its vector."""

    tag: str
    vector: bytes


def known_tags(connection: apsw.Connection, dimensions: int) -> TagVectors:
    """Return the canonical tags and their vectors. Vectors of another length count as missing."""
    length = dimensions * BYTES_PER_NUMBER
    sql = """
        select tag, case length(embedding) when :length then embedding else zeroblob(:length) end as vector
        from canonical_tags order by id
    """
    rows = list(map(KnownTag._make, connection.execute(sql, {"length": length})))
    vectors = np.frombuffer(b"".join(row.vector for row in rows), np.float32).reshape(len(rows), dimensions)
    return TagVectors([row.tag for row in rows], vectors)


def set_vectors(connection: apsw.Connection, vectors: VectorsByTag, fingerprint: Fingerprint) -> None:
    """Set the vectors of the tags that are canonical. Raises EmbeddingUnavailableError."""
    adopt_fingerprint(connection, fingerprint)
    connection.executemany(
        "update canonical_tags set embedding = ? where tag = ?",
        [(vector.tobytes(), tag) for tag, vector in vectors.items()],
    )


def clear_vectors(connection: apsw.Connection) -> None:
    """Clear the vectors of all tags, because the file now has another model."""
    connection.execute("update canonical_tags set embedding = null")


def count_use(connection: apsw.Connection, tag: str, vector: NDArray[np.float32] | None, now: str) -> None:
    """Count one more memory with a tag. The tag becomes canonical if it is not."""
    connection.execute(
        """
        insert into canonical_tags (tag, embedding, frequency, created_at) values (?, ?, 1, ?)
        on conflict (tag) do update set frequency = frequency + 1
        """,
        (tag, None if vector is None else vector.tobytes(), now),
    )


def canonical_tags(connection: apsw.Connection, among: Collection[str] | None) -> list[CanonicalTag]:
    """Return all canonical tags, or those in `among`: most frequent first, then alphabetically."""
    sql = """
        select tag, frequency, created_at from canonical_tags
        where :among is null or tag in (select value from json_each(:among)) order by frequency desc, tag
    """
    return fetch(connection, CanonicalTag, sql, {"among": None if among is None else json.dumps(list(among))})
