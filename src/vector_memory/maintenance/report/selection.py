"""Builds the page of a selection of a live memory: timeline and map as in a session's report, without texts.

The page that links to it shows the texts, so a selection may be larger than a session in a report.
"""

from typing import Any

import numpy as np

from vector_memory.domain import Scope, utc_now
from vector_memory.errors import NotFoundError
from vector_memory.maintenance.report.session_report import build_page, milliseconds, project
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Moment

MAX_MEMORIES = 50_000
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
            moments = reader.timeline(scope, MAX_MEMORIES, NAME)
            if not moments:
                raise NotFoundError("No memory matches: use fewer filters.")
            total, ids = reader.count(scope), [moment.memory_id for moment in moments]
            parts = [reader.mean_vectors(ids[start : start + AT_ONCE]) for start in range(0, len(ids), AT_ONCE)]
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
