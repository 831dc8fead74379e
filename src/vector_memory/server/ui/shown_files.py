"""Memory files on the page: passages of them among the results of a search, and the text of a file."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from vector_memory.files import FileMemory
from vector_memory.maintenance.report.rendering import render

FILE = "memory_file"
"""What the page calls them, beside the kinds of memory."""


class ShownFiles:
    """The files of a memory folder; None: there is none."""

    def __init__(self, memory: FileMemory | None) -> None:
        self._memory = memory

    def __bool__(self) -> bool:
        return self._memory is not None

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
