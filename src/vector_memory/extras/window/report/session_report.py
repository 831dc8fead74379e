"""Reads a session and builds its page, from the files in `web/`. The page loads nothing from the network."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from itertools import accumulate
from string import Template
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope, utc_now
from vector_memory.domain.validation import MAX_IDENTIFIER, check_label
from vector_memory.errors import NotFoundError
from vector_memory.extras.window.report.rendering import render
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.records import Memory, Moment
from vector_memory.upkeep.backfill import Progress

MAX_MEMORIES = 10_000
"""Maximum number of memories shown, newest first: with more dots a browser becomes slow."""

MAX_TEXT = 40_000_000
"""Maximum bytes of text in a page, newest memories first; the others are shown without text."""

NEIGHBOURS = 3
MEMORIES_AT_ONCE = 100
"""Memories read at a time, so that only the texts for the page stay in memory."""


class SessionPage(NamedTuple):
    """A page. It shows `shown` of the session's `memories`, `texts` of them with text."""

    html: str
    memories: int
    shown: int
    texts: int


class SessionContents(NamedTuple):
    """A session's newest memories, oldest first, and the mean vectors of those that have any.

    `total` counts all its memories. `lengths` are the lengths of the texts, in characters, by id. `texts` are the ids
    of the memories whose text was kept; the text of others is empty. `means` has the shape (located, dimensions).
    """

    total: int
    memories: list[Memory]
    lengths: dict[int, int]
    texts: set[int]
    located: list[int]
    means: NDArray[np.float32]


class SessionReports:
    """Builds pages of sessions."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def page(self, session_id: str, on_progress: Progress | None = None) -> SessionPage:
        """Return a session as one HTML page. Raises NotFoundError if nothing is stored in it."""
        check_label("session_id", session_id, MAX_IDENTIFIER)
        with self._storage.read() as reader:
            reading = read_session(reader, session_id)
        if not reading.memories:
            raise NotFoundError("Nothing is stored in this session: `vector-memory sessions` lists the sessions.")
        data = page_data(session_id, reading, on_progress or (lambda _done, _total: None))
        return SessionPage(build_page(data), reading.total, len(reading.memories), len(reading.texts))


def read_session(reader: Reader, session_id: str) -> SessionContents:
    """Read the newest memories of a session, as many as a page shows."""
    listed = reader.sessions.timeline(Scope(session_id=session_id), MAX_MEMORIES, 0)[::-1]
    texts = within_budget(listed)
    memories: list[Memory] = []
    lengths: dict[int, int] = {}
    ids: list[int] = []
    means: list[NDArray[np.float32]] = []
    for batch in (listed[start : start + MEMORIES_AT_ONCE] for start in range(0, len(listed), MEMORIES_AT_ONCE)):
        found = reader.memories.get_all([moment.memory_id for moment in batch])
        for memory in (found[moment.memory_id] for moment in batch):
            lengths[memory.id] = len(memory.content)
            memories.append(memory if memory.id in texts else replace(memory, content=""))
        located, vectors = reader.vectors.mean_vectors(list(found))
        ids += located.tolist()
        means.append(vectors)
    total = reader.sessions.counts(session_id).total_memories
    return SessionContents(
        total, memories[::-1], lengths, texts, ids, np.concatenate(means or [np.zeros((0, 2), np.float32)])
    )


def within_budget(listed: Sequence[Moment]) -> set[int]:
    """Return the ids of the first memories whose texts fit into a page together."""
    ends = accumulate(moment.content_bytes for moment in listed)
    return {moment.memory_id for moment, end in zip(listed, ends, strict=True) if end <= MAX_TEXT}


def page_data(session_id: str, reading: SessionContents, on_progress: Progress) -> dict[str, Any]:
    """Return the data for the page's script; `web/model.js` reads it."""
    projection = project(reading.means)
    points = dict(zip(reading.located, projection.points.round(4).tolist(), strict=True))
    neighbours = dict(zip(reading.located, nearest_neighbours(reading.means, NEIGHBOURS), strict=True))
    memories = []
    for done, memory in enumerate(reading.memories, start=1):
        near = [[reading.located[other], round(cosine, 3)] for other, cosine in neighbours.get(memory.id, [])]
        memories.append(
            {
                **fields_without_text(memory),
                **text_fields(memory, reading.texts),
                "size": reading.lengths[memory.id],
                "point": points.get(memory.id),
                "near": near,
            }
        )
        on_progress(done, len(reading.memories))
    return {
        "session": session_id,
        "written": milliseconds(utc_now()),
        "total": reading.total,
        "share": round(projection.share, 4),
        "memories": memories,
    }


def fields_without_text(memory: Memory) -> dict[str, Any]:
    """Return a memory's fields except its text."""
    return {
        "id": memory.id,
        "kind": memory.memory_type,
        "agent": memory.agent_id,
        "iteration": memory.session_iter,
        "task": memory.task_code,
        "title": memory.title,
        "description": memory.description,
        "tags": memory.tags,
        "metadata": memory.metadata,
        "created": milliseconds(memory.created_at),
        "reads": memory.access_count,
        "chunks": memory.chunk_count,
    }


def text_fields(memory: Memory, texts: set[int]) -> dict[str, Any]:
    """Return a memory's text as stored and as HTML; None if the page does not contain it."""
    if memory.id not in texts:
        return {"text": None, "html": None}
    return {"text": memory.content, "html": render(memory.content)}


def milliseconds(time: str) -> int:
    """Return an ISO 8601 time as JavaScript does: milliseconds since 1970."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


SCRIPTS = ("shared.js", "model.js", "charts.js", "documents.js", "main.js")
"""The parts of the page's script, in order. A live page has those that are shared, too."""

STYLES = ("shared.css", "style.css")

IN_SCRIPT = "<>&\u2028\u2029"
"""Characters that could end a script element, or a line of it in older browsers."""


def build_page(data: Mapping[str, Any]) -> str:
    """Return the page that shows `data`, as returned by `session_report.page_data`."""
    style, script = style_and_script()
    return Template(source("page.html")).substitute(
        policy=policy(style, script),
        session=escape(data["session"]),
        kind="Timeline and map" if "is_live" in data else "Session report",
        written=datetime.fromtimestamp(data["written"] / 1000, UTC).strftime("%d %B %Y, %H:%M UTC"),
        style=style,
        data=script_data(data),
        script=script,
    )


def style_and_script() -> tuple[str, str]:
    """Return the page's style and its script."""
    style, script = ("\n".join(map(source, names)) for names in (STYLES, SCRIPTS))
    return style, script


def page_policy() -> str:
    """Return the Content-Security-Policy of every page."""
    return policy(*style_and_script())


def source(name: str) -> str:
    """Return one of the page's source files."""
    return files(__package__).joinpath("web", name).read_text(encoding="utf-8")


def policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy: this style and this script, and nothing else."""
    return (
        f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(text: str) -> str:
    """Return the hash by which a policy allows an inline element: the SHA-256 of its content."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def script_data(data: Mapping[str, Any]) -> str:
    """Return data as JSON that cannot end the script element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for sign in IN_SCRIPT:
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


# Projects memories onto a plane by meaning, and finds nearest neighbours. Pure functions over arrays.

ROWS_AT_ONCE = 1_000
"""Number of rows compared with all others at a time."""

SAMPLE = 10_000
"""Number of rows that decide on the plane, spread over all: more of them hardly turn it."""

SAME = 1e-6
"""Smaller differences between directions, per row, are rounding errors."""


class Projection(NamedTuple):
    """Points on a plane, shape (rows, 2), from -1 to 1. `share`: the share of the variance on the plane, 0 to 1."""

    points: NDArray[np.float64]
    share: float


class NearRow(NamedTuple):
    """A neighbouring row and its cosine."""

    row: int
    cosine: float


def project(vectors: NDArray[np.float32]) -> Projection:
    """Project the directions of vectors, shape (rows, dimensions >= 2), onto the plane where they differ most.

    The axes are the first two principal components (Hotelling 1933), on the same scale. The sign of an axis is
    arbitrary; it is chosen so that the largest entry is positive, so equal vectors always give equal points.
    """
    centred = directions(vectors)
    centred -= centred.sum(axis=0) / max(1, len(centred))
    sample = centred[:: -(-len(centred) // SAMPLE) or 1]
    variances, axes = np.linalg.eigh(sample.T @ sample)  # ascending
    if variances.sum() <= SAME**2 * len(vectors):
        return Projection(np.zeros((len(vectors), 2)), 1.0)
    points = centred @ upright(axes.T[:-3:-1]).T
    return Projection(points / np.abs(points).max(), float(variances[-2:].sum() / variances.sum()))


def upright(axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Flip axes, the rows, so that the entry with the largest absolute value is positive."""
    largest = axes[range(len(axes)), np.abs(axes).argmax(axis=1)]
    return axes * np.where(largest < 0, -1.0, 1.0)[:, np.newaxis]


def nearest_neighbours(vectors: NDArray[np.float32], count: int) -> list[list[NearRow]]:
    """Return the `count` nearest other rows for each row, nearest first; ties go to the first row."""
    units = directions(vectors)
    found: list[list[NearRow]] = [[] for _ in units]
    for start in range(0, len(units), ROWS_AT_ONCE):
        cosines = units[start : start + ROWS_AT_ONCE] @ units.T
        here = range(len(cosines))
        cosines[here, range(start, start + len(cosines))] = -np.inf
        for _ in range(min(count, len(units) - 1)):
            best = cosines.argmax(axis=1)
            for row, other in enumerate(best.tolist()):
                found[start + row].append(NearRow(other, float(cosines[row, other])))
            cosines[here, best] = -np.inf
    return found


def directions(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return vectors of length 1 with the same directions. The mean of several unit vectors is shorter than 1."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    exact /= np.where(lengths > 0, lengths, 1)
    return exact


# Builds the page of a selection of a live memory: timeline and map as in a session's report, without texts.
#
# The page that links to it shows the texts, so a selection may be larger than a session in a report.

MAX_SELECTED = 50_000
"""Maximum number of memories on a page, newest first."""

AT_ONCE = 1_000
"""Memories whose vectors are read at a time."""

NAME = 120
"""Characters of a title, or of the beginning of a text without one."""


class SelectionPages:
    """Builds pages of selections."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def page(self, scope: Scope, title: str) -> str:
        """Return a selection as an HTML page. Raises NotFoundError if nothing is in it."""
        with self._storage.read() as reader:
            moments = reader.sessions.timeline(scope, MAX_SELECTED, NAME)
            if not moments:
                raise NotFoundError("No memory matches: use fewer filters.")
            total, ids = reader.memories.count(scope), [moment.memory_id for moment in moments]
            parts = [reader.vectors.mean_vectors(ids[start : start + AT_ONCE]) for start in range(0, len(ids), AT_ONCE)]
        projection = project(np.concatenate([means for _, means in parts]))
        located = np.concatenate([found for found, _ in parts]).tolist()
        points = dict(zip(located, projection.points.round(4).tolist(), strict=True))
        data = {
            "session": title,
            "is_live": True,
            "written": milliseconds(utc_now()),
            "total": total,
            "share": round(projection.share, 4),
            "memories": [mark_of(moment) | {"point": points.get(moment.memory_id)} for moment in moments],
        }
        return build_page(data)


def mark_of(moment: Moment) -> dict[str, Any]:
    """Return what the page's script reads of a memory; it fills in what is missing."""
    return {
        "id": moment.memory_id,
        "kind": moment.memory_type,
        "agent": moment.agent_id,
        "iteration": moment.session_iter,
        "task": moment.task_code,
        "title": (moment.title or moment.beginning)[:NAME],
        "created": milliseconds(moment.created_at),
        "reads": moment.access_count,
        "chunks": moment.chunk_count,
        "size": moment.content_length,
    }
