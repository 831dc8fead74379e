"""What a page shows of a session, or of the memories that filters name: their texts, and their places on a map."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope, utc_now
from vector_memory.domain.validation import MAX_IDENTIFIER, check_label
from vector_memory.errors import NotFoundError
from vector_memory.extras.window.page import render
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.records import Memory, Moment
from vector_memory.upkeep.backfill import Progress

MAX_MEMORIES = 10_000
"""Maximum number of memories in a session's page, newest first: with more dots a browser becomes slow."""

MAX_TEXT = 40_000_000
"""Maximum bytes of text in a page, newest memories first; the others are shown without text."""

MAX_SELECTED = 50_000
"""Maximum number of memories in the charts of a live memory, newest first: they come without texts."""

NEIGHBOURS = 3

AT_ONCE = 1_000
"""Memories whose vectors are read at a time."""

TEXTS_AT_ONCE = 100
"""Memories read at a time, so that only the texts for the page stay in memory."""

BEGINNING = 200
"""Characters of the beginning of a text."""

WITHOUT_TEXT = {"content": None, "html": None}


def session_data(storage: Storage, session_id: str, progress: Progress = lambda _done, _total: None) -> dict[str, Any]:
    """Return the newest memories of a session, oldest first. Raises NotFoundError if nothing is stored in it.

    `total` counts all its memories, `texts` those that come with their text.
    """
    check_label("session_id", session_id, MAX_IDENTIFIER)
    with storage.read() as reader:
        moments = reader.sessions.timeline(Scope(session_id=session_id), MAX_MEMORIES, BEGINNING)
        if not moments:
            raise NotFoundError("Nothing is stored in this session: `vector-memory sessions` lists the sessions.")
        newest = moments[::-1]
        ends = accumulate(moment.content_bytes for moment in newest)
        texts = {moment.memory_id for moment, end in zip(newest, ends, strict=True) if end <= MAX_TEXT}
        memories = list(memories_of(reader, moments, texts))
        total = reader.sessions.counts(session_id).total_memories
        ids, vectors = mean_vectors(reader, moments)
    shown, near = on_map(moments, ids, vectors), dict(zip(ids, nearest_neighbours(vectors, NEIGHBOURS), strict=True))
    for done, (mark, memory) in enumerate(zip(shown["memories"], memories, strict=True), start=1):
        mark.update(details_of(memory) | ({} if memory.id in texts else WITHOUT_TEXT))
        if memory.id in texts:
            del mark["beginning"]  # the text has it
        mark["near"] = [[ids[other], round(cosine, 3)] for other, cosine in near.get(memory.id, [])]
        progress(done, len(memories))
    return {"session": session_id, "written": utc_now(), "total": total, "texts": len(texts), **shown}


def chart_data(storage: Storage, scope: Scope) -> dict[str, Any]:
    """Return the newest memories of a scope, oldest first, without their texts. `total` counts all in the scope."""
    with storage.read() as reader:
        moments = reader.sessions.timeline(scope, MAX_SELECTED, BEGINNING)
        total = reader.memories.count(scope)
        ids, vectors = mean_vectors(reader, moments)
    return {"total": total, **on_map(moments, ids, vectors)}


def memories_of(reader: Reader, moments: Sequence[Moment], texts: set[int]) -> Iterator[Memory]:
    """Yield memories; those that are not in `texts`, without their text."""
    for start in range(0, len(moments), TEXTS_AT_ONCE):
        for one in reader.memories.get_all(
            [moment.memory_id for moment in moments[start : start + TEXTS_AT_ONCE]]
        ).values():
            yield one if one.id in texts else replace(one, content="")


def mean_vectors(reader: Reader, moments: Sequence[Moment]) -> tuple[list[int], NDArray[np.float32]]:
    """Return the ids of the memories that have vectors, and the mean of those of each, shape (ids, dimensions)."""
    ids = [moment.memory_id for moment in moments]
    parts = [reader.vectors.mean_vectors(ids[start : start + AT_ONCE]) for start in range(0, max(1, len(ids)), AT_ONCE)]
    return np.concatenate([found for found, _ in parts]).tolist(), np.concatenate([means for _, means in parts])


def on_map(moments: Sequence[Moment], ids: Sequence[int], vectors: NDArray[np.float32]) -> dict[str, Any]:
    """Return memories with their points on the map. `share`: how much of their differences the map shows, 0 to 1."""
    points, share = project(vectors)
    places = dict(zip(ids, points.round(4).tolist(), strict=True))
    names = [field.name for field in fields(Moment)]
    marks = [{name: getattr(one, name) for name in names} | {"point": places.get(one.memory_id)} for one in moments]
    return {"share": round(share, 4), "memories": marks}


def details_of(memory: Memory) -> dict[str, Any]:
    """Return what lists do not show of a memory, with its text as stored and as HTML."""
    names = ("description", "tags", "metadata", "accessed_at", "expires_at", "content")
    return {name: getattr(memory, name) for name in names} | {"html": render(memory.content)}


# Projects memories onto a plane by meaning, and finds nearest neighbours. Pure functions over arrays.

ROWS_AT_ONCE = 1_000
"""Number of rows compared with all others at a time."""

SAMPLE = 10_000
"""Number of rows, spread over all, that determine the plane: more hardly turn it."""

SAME = 1e-6
"""Smaller differences between directions, per row, are rounding errors."""


def project(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float64], float]:
    """Project the directions of vectors, shape (rows, dimensions >= 2), onto the plane where they differ most.

    Returns points on the plane, shape (rows, 2), from -1 to 1, and the share of the variance on it, from 0 to 1.

    The axes are the first two principal components (Hotelling 1933), on the same scale. The sign of an axis is
    arbitrary; it is chosen so that the largest entry is positive, so equal vectors always give equal points.
    """
    centred = directions(vectors)
    centred -= centred.sum(axis=0) / max(1, len(centred))
    sample = centred[:: -(-len(centred) // SAMPLE) or 1]
    variances, axes = np.linalg.eigh(sample.T @ sample)  # ascending
    if variances.sum() <= SAME**2 * len(vectors):
        return np.zeros((len(vectors), 2)), 1.0
    points = centred @ upright(axes.T[:-3:-1]).T
    return points / np.abs(points).max(), float(variances[-2:].sum() / variances.sum())


def upright(axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Flip axes, the rows, so that the entry with the largest absolute value is positive."""
    largest = axes[range(len(axes)), np.abs(axes).argmax(axis=1)]
    return axes * np.where(largest < 0, -1.0, 1.0)[:, np.newaxis]


def nearest_neighbours(vectors: NDArray[np.float32], count: int) -> list[list[tuple[int, float]]]:
    """Return the `count` nearest other rows of each row with their cosines, nearest first; ties go to the first row."""
    units = directions(vectors)
    found: list[list[tuple[int, float]]] = [[] for _ in units]
    for start in range(0, len(units), ROWS_AT_ONCE):
        cosines = units[start : start + ROWS_AT_ONCE] @ units.T
        here = range(len(cosines))
        cosines[here, range(start, start + len(cosines))] = -np.inf
        for _ in range(min(count, len(units) - 1)):
            best = cosines.argmax(axis=1)
            for row, other in enumerate(best.tolist()):
                found[start + row].append((other, float(cosines[row, other])))
            cosines[here, best] = -np.inf
    return found


def directions(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return vectors of length 1 with the same directions. The mean of several unit vectors is shorter than 1."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    exact /= np.where(lengths > 0, lengths, 1)
    return exact
