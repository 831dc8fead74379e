"""Canonical tags: the vocabulary of the tagged memories, one row per tag with its vector and frequency."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Fingerprint
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postgres.rows import fetch
from vector_memory.storage.postgres.vectors import adopt_fingerprint
from vector_memory.storage.records import CanonicalTag, TagVectors, VectorsByTag

BYTES_PER_NUMBER = 4


def known_tags(connection: Connection, dimensions: int) -> TagVectors:
    """Return the canonical tags and their vectors. Vectors of another length count as missing."""
    rows = connection.execute("select tag, embedding from canonical_tags order by id", binary=True).fetchall()
    length = dimensions * BYTES_PER_NUMBER
    stored = [vector if vector is not None and len(vector) == length else bytes(length) for _, vector in rows]
    vectors = np.frombuffer(b"".join(stored), np.float32).reshape(len(rows), dimensions)
    return TagVectors([tag for tag, _ in rows], vectors)


def set_vectors(connection: Connection, vectors: VectorsByTag, fingerprint: Fingerprint) -> None:
    """Set the vectors of the tags that are canonical. Raises EmbeddingUnavailableError."""
    adopt_fingerprint(connection, fingerprint)
    connection.later(
        """
        update canonical_tags t set embedding = new.embedding
        from unnest(%s::text[], %s::bytea[]) as new(tag, embedding) where t.tag = new.tag
        """,
        (list(vectors), [vector.tobytes() for vector in vectors.values()]),
    )


def clear_vectors(connection: Connection) -> None:
    """Clear the vectors of all tags, because the memory now has another model."""
    connection.later("update canonical_tags set embedding = null")


def count_use(connection: Connection, tag: str, vector: NDArray[np.float32] | None, now: str) -> None:
    """Count one more memory with a tag. The tag becomes canonical if it is not."""
    connection.later(
        """
        insert into canonical_tags (tag, embedding, frequency, created_at) values (%s, %s, 1, %s)
        on conflict (tag) do update set frequency = canonical_tags.frequency + 1
        """,
        (tag, None if vector is None else vector.tobytes(), now),
    )


def canonical_tags(connection: Connection, among: Collection[str] | None) -> list[CanonicalTag]:
    """Return all canonical tags, or those in `among`: most frequent first, then alphabetically."""
    sql = """
        select tag, frequency, created_at from canonical_tags
        where %(among)s::text[] is null or tag = any(%(among)s::text[]) order by frequency desc, tag
    """
    return fetch(connection, CanonicalTag, sql, {"among": None if among is None else list(among)})
