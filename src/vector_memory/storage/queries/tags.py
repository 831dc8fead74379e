"""Canonical tags: the vocabulary of the tagged memories, one row per tag with its vector and frequency."""

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from vector_memory.storage.queries.passages import OverVectors, PassageChanges
from vector_memory.storage.records import CanonicalTag, TagVectors

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    import numpy as np
    from numpy.typing import NDArray

BYTES_PER_NUMBER = 4


class KnownTag(NamedTuple):
    """A canonical tag and the bytes of its vector, if it has one."""

    tag: str
    embedding: bytes | None


class TagQueries(OverVectors):
    """Reads the vocabulary."""

    def canonical(self, among: Collection[str] | None = None) -> list[CanonicalTag]:
        """Return the canonical tags, optionally only those in `among`: most frequent first, then alphabetically."""
        condition = "true" if among is None else "tag {among:among}"
        sql = f"select tag, frequency, created_at from canonical_tags where {condition} order by frequency desc, tag"
        return self.connection.fetch(CanonicalTag, sql, {"among": list(among or ())})

    def vectors_of(self, dimensions: int) -> TagVectors:
        """Return the canonical tags with their vectors of the model that is read; the others count as missing."""
        import numpy as np  # noqa: PLC0415

        is_read = self.vectors.passages_read.replace("p.", "")
        sql = f"select tag, case when {is_read} then embedding end as embedding from canonical_tags order by id"
        known = self.connection.fetch(KnownTag, sql)
        missing = bytes(dimensions * BYTES_PER_NUMBER)
        found = [one.embedding or missing for one in known]
        stored = [vector if len(vector) == len(missing) else missing for vector in found]
        vectors = np.frombuffer(b"".join(stored), np.float32).reshape(len(known), dimensions)
        return TagVectors([one.tag for one in known], vectors)


class TagChanges(PassageChanges):
    """Changes the vocabulary."""

    def count_tag(self, tag: str, vector: "NDArray[np.float32] | None", now: str) -> None:
        """Count one more memory with a tag, and make the tag canonical if it is new."""
        sql = """
            insert into canonical_tags (tag, embedding, model_id, frequency, created_at)
            values (%(tag)s, %(vector)s, %(model)s, 1, %(now)s)
            on conflict (tag) do update set frequency = canonical_tags.frequency + 1
        """
        stored = None if vector is None else vector.tobytes()
        model_id = None if vector is None or self.vectors.current is None else self.vectors.current.id
        self.connection.later(sql, {"tag": tag, "vector": stored, "model": model_id, "now": now})
