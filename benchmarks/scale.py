"""Fills a memory file with many passages in a short time: copies of real documents, with vectors near the real ones.

    python -m benchmarks.scale FILE DOCUMENTS --sessions 2500 50000 --others 500 --passages 1000000

Real documents (Markdown files under DOCUMENTS) are chunked and embedded once. A stored report is a stretch of up to
CHUNKS_PER_REPORT chunks of one of them. The vector of each of its passages is a random convex combination of the real
one and that of another passage of the same document, with noise of length NOISE added, brought to unit length: as near
to its neighbours as parts of one text are. Rows are written by the functions of `vector_memory.storage.sqlite`.
--short: each report is one chunk with one passage, so there are as many memories as passages. --no-states: the states
of tokens, half of the file, are left out, as they are with VECTOR_MEMORY_LATE_INTERACTION=false.
"""

import argparse
import hashlib
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Chunk, Fingerprint, MemoryKind, NewMemory, utc_now
from vector_memory.domain.validation import MAX_CONTENT
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.settings import Settings
from vector_memory.storage.postings import indexed
from vector_memory.storage.records import Derived, Embedded, EmbeddedPassage, History
from vector_memory.storage.sqlite.database import Connection, Database
from vector_memory.storage.sqlite.transactions import SqliteWriter
from vector_memory.texts.terms import searchable_texts, terms
from vector_memory.writing.indexer import Indexer

CHUNKS_PER_REPORT = 12
REPORTS_PER_TRANSACTION = 200
NOISE = 0.3
AGENTS = 10
ITERATIONS = 5

TITLE = "Report"
"""Each title also has a number, or else the reports would be copies. It is not indexed: so equal texts are cached."""

SHARES = {"half": 0.5, "tenth": 0.1, "hundredth": 0.01, "thousandth": 0.001}
"""Task codes that so large shares of the reports have; the rest has none of them."""


@dataclass(frozen=True, slots=True)
class Document:
    """A real document: its chunks, and the passages of all of them with their vectors, shape (passages, dimensions).

    `states`: those of each passage's tokens.
    """

    chunks: list[Chunk]
    passages: list[EmbeddedPassage]
    vectors: NDArray[np.float32]
    states: list[bytes]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Real documents, and what made their vectors."""

    documents: list[Document]
    fingerprint: Fingerprint


def read_corpus(folder: Path, cache: Path, settings: Settings) -> Corpus:
    """Chunk and embed all Markdown files under a folder; what is computed is kept in the folder `cache`."""
    model = EmbeddingModel(lambda: load_embedder(settings))
    indexer = Indexer(model, settings)
    texts = [path.read_text(errors="replace")[:MAX_CONTENT] for path in sorted(folder.rglob("*.md"))]
    parts = [(text, indexer.chunk(MemoryKind.REPORT, text)) for text in texts if text.strip()]
    cache.mkdir(parents=True, exist_ok=True)
    documents = []
    for text, chunks in parts:
        kept = cache / f"{hashlib.sha256(text.encode()).hexdigest()}.npz"
        if not kept.exists():
            embedded = indexer.embed(indexer.unit_texts(MemoryKind.REPORT, None, text, chunks))
            states = embedded.states or [b""] * len(embedded.passages)
            lengths = [len(each) for each in states]
            joined = np.frombuffer(b"".join(states), np.uint8)
            np.savez(kept, passages=embedded.passages, vectors=embedded.vectors, states=joined, lengths=lengths)
        found = np.load(kept)
        states = np.split(found["states"], np.cumsum(found["lengths"].astype(int))[:-1])
        passages = [EmbeddedPassage(*place) for place in found["passages"].astype(int).tolist()]
        documents.append(Document(chunks, passages, found["vectors"], [each.tobytes() for each in states]))
    return Corpus([document for document in documents if document.passages], model.fingerprint)


def fill(
    database: Database,
    corpus: Corpus,
    sessions: Iterable[tuple[str, int]],
    settings: Settings,
    seed: int,
    *,
    short: bool = False,
    with_states: bool = True,
) -> int:
    """Store reports in sessions, given by name and number of passages; return how many passages there are.

    Sessions are written one after the other in transactions of many reports. `short`: reports of one passage.
    `with_states`: the states of tokens are stored too.
    """
    source, numbers = random.Random(seed), np.random.default_rng(seed)  # noqa: S311 - protects nothing
    indexer = Indexer(EmbeddingModel(lambda: load_embedder(settings)), settings)
    total, titles = 0, itertools.count()
    # The same real texts come again and again: their words need to be stemmed once.
    with mock.patch("vector_memory.storage.postings.terms", lru_cache(maxsize=1 << 16)(terms)):
        reports = (
            (name, report)
            for name, size in sessions
            for report in reports_of(corpus, size, source, numbers, short=short)
        )
        while batch := list(itertools.islice(reports, REPORTS_PER_TRANSACTION)):
            with database.write() as connection:
                for name, (chunks, embedded) in batch:
                    kept = embedded if with_states else replace(embedded, states=None)
                    write(connection, indexer, f"{TITLE} {next(titles)}", name, source, chunks, kept)
                    total += len(embedded.passages)
    return total


def reports_of(
    corpus: Corpus, size: int, source: random.Random, numbers: np.random.Generator, *, short: bool
) -> Iterator[tuple[list[Chunk], Embedded]]:
    """Yield reports with `size` passages in all."""
    chunks = 1 if short else CHUNKS_PER_REPORT
    while size > 0:
        document = source.choice(corpus.documents)
        first = source.randrange(max(1, len(document.chunks) - chunks + 1))
        report = stretch(document, range(first, first + chunks), 1 if short else size, numbers, corpus.fingerprint)
        if report[1].passages:
            size -= len(report[1].passages)
            yield report


def stretch(
    document: Document, wanted: range, most: int, numbers: np.random.Generator, fingerprint: Fingerprint
) -> tuple[list[Chunk], Embedded]:
    """Return some of a document's chunks, with at most `most` passages, as a document of its own."""
    first, end = wanted.start, min(wanted.stop, len(document.chunks))
    places = [i for i, passage in enumerate(document.passages) if first <= passage.unit < end][:most]
    chunks, passages, start = [], [], 0
    for index, chunk in enumerate(document.chunks[first:end]):
        shift = start - chunk.start
        chunks.append(replace(chunk, index=index, start=start, end=start + len(chunk.text)))
        passages += [
            EmbeddedPassage(index, document.passages[i].start + shift, document.passages[i].end + shift)
            for i in places
            if document.passages[i].unit == first + index
        ]
        start += len(chunk.text) + 1
    return chunks, Embedded(
        passages, similar(document.vectors, places, numbers), fingerprint, [document.states[i] for i in places]
    )


def similar(vectors: NDArray[np.float32], places: Sequence[int], numbers: np.random.Generator) -> NDArray[np.float32]:
    """Return new unit vectors near those at `places`, as described above."""
    count, dimensions = len(places), vectors.shape[1]
    others = vectors[numbers.integers(len(vectors), size=count)]
    share = numbers.random((count, 1), dtype=np.float32)
    mixed = unit(share * vectors[list(places)] + (1 - share) * others)
    noise = numbers.standard_normal((count, dimensions), dtype=np.float32) * np.float32(NOISE / dimensions**0.5)
    return unit(mixed + noise)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors at length 1."""
    lengths: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return lengths


def write(
    connection: Connection,
    indexer: Indexer,
    title: str,
    session_id: str,
    source: random.Random,
    chunks: list[Chunk],
    embedded: Embedded,
) -> None:
    """Store one report."""
    content = "\n".join(chunk.text for chunk in chunks)
    lot, task = source.random(), None
    for name, share in SHARES.items():
        if lot < share:
            task = name
            break
        lot -= share
    memory = NewMemory(
        kind=MemoryKind.REPORT,
        agent_id=f"agent {source.randrange(AGENTS)}",
        session_id=session_id,
        session_iter=source.randrange(ITERATIONS) + 1,
        task_code=task,
        title=title,
        content=content,
    )
    now = utc_now()
    content_hash = hashlib.sha256(content.encode()).hexdigest()
    words = indexed(searchable_texts(TITLE, content, chunks, chunked=True))
    derived = Derived(chunks=chunks, words=words, enriched=indexer.enriches(memory.kind), embedded=embedded)
    SqliteWriter(connection).add_memory(memory, derived, content_hash=content_hash, history=History(now, now, now))


def session_sizes(first: Sequence[int], others: int, passages: int) -> list[tuple[str, int]]:
    """Return names and sizes: a session of each size of `first`, then such of `others` until there are `passages`."""
    sizes = [*first]
    while sum(sizes) < passages:
        sizes.append(min(others, passages - sum(sizes)))
    return [(f"s{number}", size) for number, size in enumerate(sizes)]


def main() -> None:
    """Fill a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("/tmp/vector-memory-scale"))  # noqa: S108
    parser.add_argument("--sessions", type=int, nargs="*", default=[2_500, 50_000])
    parser.add_argument("--others", type=int, default=500)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--short", action="store_true", help="reports of one passage")
    parser.add_argument("--no-states", action="store_true", help="leave out the states of tokens")
    arguments = parser.parse_args()
    settings = Settings()
    corpus = read_corpus(arguments.documents, arguments.cache, settings)
    database = Database(arguments.file, dimensions=settings.embedding_dim, synchronous="NORMAL")
    sizes = session_sizes(arguments.sessions, arguments.others, arguments.passages)
    kept = not arguments.no_states
    print(fill(database, corpus, sizes, settings, seed=1, short=arguments.short, with_states=kept), "passages")
    database.close()


if __name__ == "__main__":
    main()
