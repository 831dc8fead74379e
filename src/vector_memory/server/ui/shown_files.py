"""Memory files on the page: in lists, passages of them among the results of a search, and the text of a file."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from vector_memory.domain import Scope
from vector_memory.errors import VectorMemoryError
from vector_memory.files import FileMemory
from vector_memory.files.memory import ListedFile
from vector_memory.maintenance.report.rendering import render

FILE = "memory_file"
"""What the page calls them, beside the kinds of memory."""

LINES, BEGINNING = 20, 200
"""Lines of a file that are read for a list, and characters that are shown."""

END = "9999"
"""After every time."""


class ShownFiles:
    """The files of a memory folder; None: there is none."""

    def __init__(self, memory: FileMemory | None) -> None:
        self._memory = memory

    def __bool__(self) -> bool:
        return self._memory is not None

    def version(self) -> int:
        """Return a number that changes with the files, a moment later."""
        if self._memory is not None:
            with suppress(VectorMemoryError):  # memories are shown without an index, too
                return self._memory.version()
        return 0

    def listed(self, scope: Scope) -> list[ListedFile]:
        """Return the files in a scope, the last changed first. `containing` is compared with their paths.

        Files have no agent, session or tags: a scope that names one has no files.
        """
        others = replace(scope, created_after=None, created_before=None, containing=None, as_of=None)
        if self._memory is None or others != Scope():
            return []
        first, last, part = scope.created_after or "", scope.created_before or END, (scope.containing or "").casefold()
        files = self._memory.listed()
        return [file for file in files if first <= file.changed_at <= last and part in file.path.casefold()]

    def entry(self, file: ListedFile) -> dict[str, Any]:
        """Return a file as an entry of a list of memories."""
        beginning = ""
        if self._memory is not None:
            with suppress(VectorMemoryError):  # it may be gone by now
                beginning = self._memory.get(file.path, 1, LINES).content[:BEGINNING]
        shown = {"title": file.path, "created_at": file.changed_at, "content_length": file.size}
        return {"memory_type": FILE, "path": file.path, "beginning": beginning, **shown}

    def found(self, query: str, limit: int) -> list[dict[str, Any]]:
        """Return the passages that match a query best, with the names of other results."""
        if self._memory is None:
            return []
        return [
            {
                **one.model_dump(mode="json", by_alias=False),
                "memory_type": FILE,
                "unit": f"{one.path}:{one.start_line}",
                "title": one.path,
            }
            for one in self._memory.search(query, limit).results
        ]

    def file(self, request: Request) -> Response:
        """Return the text of a file, as far as it fits, also as HTML. Raises NotFoundError, ValidationError."""
        path = request.query_params.get("path", "")
        if self._memory is None:
            return JSONResponse({"error": "NotFound", "message": "There is no folder of memory files."}, 404)
        found = self._memory.get(path)
        return JSONResponse({**found.model_dump(mode="json", by_alias=False), "html": render(found.content, outer=1)})
