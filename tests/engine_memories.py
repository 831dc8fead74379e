"""Memories to be stored by any engine: deterministic, small, with chunks and vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusters import passing, server_url
from vector_memory.domain import TRAITS, Chunk, Fingerprint, MemoryKind, NewMemory, Scope
from vector_memory.extras.postgres.database import PostgresDatabase, PostgresStorage
from vector_memory.search.rank import WordScores, word_scores
from vector_memory.settings import DatabaseUrl
from vector_memory.storage.base import Storage
from vector_memory.storage.postings import Units, buckets_of, indexed
from vector_memory.storage.queries.candidates import Candidates
from vector_memory.storage.records import Derived, Embedded, EmbeddedPassage, History
from vector_memory.storage.sqlite.database import Database, SqliteStorage
from vector_memory.texts.terms import query_terms, searchable_texts

DIMENSIONS = 8
MODEL = Fingerprint("test", DIMENSIONS, "fp32", "test")
OTHER_MODEL = Fingerprint("other", DIMENSIONS, "fp32", "test")
CHUNK = 10
"""Characters of a chunk."""


def open_sqlite(place: Path) -> Storage:
    """Open the memory in a folder."""
    return SqliteStorage(Database(place / "memory.db", dimensions=DIMENSIONS))


def open_postgres(place: Path) -> Storage:
    """Open the memory in a schema named after a folder, on the server that the tests share."""
    schema = passing(f"test {sha256(bytes(place)).hexdigest()[:16]}")
    return opened(DatabaseUrl.parse(server_url()).conninfo(), schema)


def opened(url: str, schema: str = "memory") -> PostgresStorage:
    """Open the memory in a schema of a database."""
    return PostgresStorage(PostgresDatabase(url, schema=schema, dimensions=DIMENSIONS))


def ids(storage: Storage) -> list[int]:
    """Return the ids of all memories."""
    with storage.read() as reader:
        return reader.memories.ids(Scope())


ENGINES: dict[str, Callable[[Path], Storage]] = {"sqlite": open_sqlite, "postgres": open_postgres}
"""Each opens the memory at a place, which several handles may have open."""


@dataclass
class Engine:
    """An engine and a place for one memory; `opened` are the handles, the first of which is `storage`."""

    open_at: Callable[[Path], Storage]
    place: Path
    opened: list[Storage]

    @property
    def storage(self) -> Storage:
        return self.opened[0]

    def open(self) -> Storage:
        """Open the memory once more, as another process would."""
        self.opened.append(self.open_at(self.place))
        return self.opened[-1]


def new_memory(content: str = "x", kind: MemoryKind = MemoryKind.REPORT, **fields: Any) -> NewMemory:
    """Return a memory of the session `s` and the agent `a`, unless something else is said."""
    session_id = fields.pop("session_id", "s") if TRAITS[kind].session_scoped else None
    return NewMemory(kind=kind, content=content, **{"agent_id": "a", "session_id": session_id, **fields})


def unit_vector(seed: str) -> NDArray[np.float32]:
    numbers = np.frombuffer(sha256(seed.encode()).digest()[:DIMENSIONS], np.uint8).astype(np.float32) + 1
    vector: NDArray[np.float32] = (numbers / np.linalg.norm(numbers)).astype(np.float32)
    return vector


def chunks_in(content: str) -> list[Chunk]:
    starts = range(0, len(content), CHUNK)
    return [
        Chunk(
            index=index, text=content[start : start + CHUNK], start=start, end=min(start + CHUNK, len(content)),
            kind="text", token_count=index, headings=(f"# {index}",) * (index % 3), level=index % 3,
            contains_code=index % 2 == 0, contains_table=index % 5 == 0, oversized=index % 7 == 0,
        )
        for index, start in enumerate(starts)
    ]  # fmt: skip


def derived(new: NewMemory, model: Fingerprint | None = MODEL) -> Derived:
    """Return what is derived from a memory, one passage for each unit; without a model no vectors."""
    chunks = chunks_in(new.content) if TRAITS[new.kind].chunked else []
    texts = [chunk.text for chunk in chunks] or [new.content]
    spans = [(chunk.start, chunk.end) for chunk in chunks] or [(0, len(new.content))]
    embedded = None
    if model is not None:
        passages = [EmbeddedPassage(piece, *span) for piece, span in enumerate(spans)]
        states = [sha256(text.encode()).digest() for text in texts]
        embedded = Embedded(passages, np.stack(list(map(unit_vector, texts))), model, states)
    words = indexed(searchable_texts(new.title, new.content, chunks, chunked=bool(chunks)))
    return Derived(chunks=chunks, words=words, embedded=embedded)


def content_hash(new: NewMemory) -> str:
    return sha256(new.content.encode()).hexdigest()


def add(storage: Storage, new: NewMemory, *, model: Fingerprint | None = MODEL, at: str = "2026-01-01") -> int:
    """Store a memory in a transaction of its own, and return its id."""
    made = derived(new, model)
    with storage.write() as writer:
        return writer.add_memory(new, made, content_hash=content_hash(new), history=History(at, at, at, is_dated=True))


def found_by_words(storage: Storage, query: str, kind: MemoryKind) -> list[int]:
    """Return the ids of the memories of a kind that have one of the words."""
    with storage.read() as reader:
        units, words = scores_by_words(reader.vectors.candidates, query, Scope(kind))
        return sorted(set(units.owners_of(words.entries).tolist()))


def scores_by_words(source: Candidates, query: str, scope: Scope) -> tuple[Units, WordScores]:
    """Return the units of a scope, and how well their words match."""
    wanted = query_terms(query)
    units, rows = source.indexed(scope, buckets_of(wanted))
    return units, word_scores(units, rows, wanted)
