"""What the page asks, and the files that it consists of."""

from collections.abc import Awaitable, Callable
from importlib.resources import files
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from vector_memory.maintenance.report.session_report import source
from vector_memory.server.ui.api import Api, PageFacts
from vector_memory.server.ui.checkup import Checkup
from vector_memory.server.ui.deletions import Deletions
from vector_memory.server.ui.edits import Edits
from vector_memory.server.ui.shown_files import ShownFiles
from vector_memory.store import SessionMemoryStore

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}

SHARED = ("shared.css", "shared.js")
"""Files that the report of a session has, too."""


def request_routes(
    store: SessionMemoryStore, deletions: Deletions, facts: PageFacts, checkup: Checkup, shown: ShownFiles
) -> list[Route]:
    """Return the routes of what the page asks of a memory."""
    uncounted = store.uncounted()
    api = Api(uncounted, deletions, facts, shown, checkup)
    return [*api.routes(), *Edits(uncounted, deletions, read_only=facts.read_only).routes()]


def file_routes() -> list[Route]:
    """Return the routes of the page's files. They are read once."""
    folder = files(__package__) / "web"
    found = {name: source(name) for name in SHARED}
    for place in (folder, folder / "vendor"):
        found |= {
            one.name: one.read_text(encoding="utf-8") for one in place.iterdir() if Path(one.name).suffix in TYPES
        }
    return [Route("/", answering(found["index.html"], ".html"))] + [
        Route(f"/{name}", answering(text, Path(name).suffix)) for name, text in found.items()
    ]


def answering(text: str, suffix: str) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that answers with a file."""

    async def answer(_request: Request) -> Response:
        return Response(text, media_type=TYPES[suffix])

    return answer
