"""What is wrong inside a file, in the eyes of the doctor: damage, orphans, and partly stored memories."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import sqlite_vec

from lattice import LatticeEmbedder
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.embedder import Embedder
from vector_memory.settings import Settings
from vector_memory.storage.base import WholeMemory
from vector_memory.storage.sqlite.inspection import inspect
from vector_memory.storage.sqlite.schema import tables_of
from vector_memory.storage.sqlite.transactions import SqliteReader, packed_signatures
from vector_memory.upkeep.doctor.report import Level
from vector_memory.upkeep.doctor.sqlite_memory import SqliteMemory

NO_FAULTS = {"erasure", "unindexed", "reembedding", "fingerprint"}
"""Findings that say that something is not complete, or that the model is another: the vectors are compared anyway."""


def faults_of(path: Path, embedder: Embedder | None = None, *, indexed: bool = True) -> list[str]:
    """Return what is wrong with a file; empty if nothing is.

    `embedder` is what made its vectors; `indexed`: every memory has to have some.
    """
    made_by = embedder or LatticeEmbedder()
    settings = Settings(embedding_model="toy", embedding_dim=made_by.fingerprint.dimensions)
    findings = SqliteMemory(path, settings, EmbeddingModel(lambda: made_by)).contents(deep=True)
    return [
        *(f"{one.name}: {one.message}" for one in findings if one.state != Level.OK and one.name not in NO_FAULTS),
        *(fault for memory in memories_in(path) for fault in wrong_vectors(memory, made_by, indexed=indexed)),
        *inspect(path, wrong_signatures),
    ]


def memories_in(path: Path) -> list[WholeMemory]:
    """Return all memories with what is derived from them."""
    return inspect(path, lambda connection: list(SqliteReader(connection).upkeep.portions.memories(0, 100_000)))


def wrong_vectors(whole: WholeMemory, embedder: Embedder, *, indexed: bool) -> list[str]:
    """Name the passages with another vector than their text, and the memory if it lacks vectors that it has to have."""
    if whole.passages is None:
        return [f"memory {whole.memory.id} without vectors"] if indexed else []
    vectors = embedder.embed([whole.memory.content[passage.start : passage.end] for passage in whole.passages])
    return [
        f"the vector at {passage.start} of memory {whole.memory.id}"
        for passage, vector in zip(whole.passages, vectors, strict=True)
        if passage.vector.tobytes() != vector.tobytes()
    ]


def wrong_signatures(connection: apsw.Connection) -> list[str]:
    """Name the passages whose signature is missing, or is not that of their vector."""
    sql = """
        select v.passage_id, v.embedding, s.signature from (
            select passage_id, embedding from {0.chunks} union all select passage_id, embedding from {0.memories}
        ) v left join {0.signatures} s on s.passage_id = v.passage_id
    """
    return [
        f"the signature of passage {passage}"
        for model in SqliteReader(connection).vectors.models()
        for passage, vector, signature in connection.execute(sql.format(tables_of(model.id)))
        if signature != packed_signatures(np.frombuffer(vector, np.float32).reshape(1, -1)).tobytes()
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
