"""Serve a memory in the way that PrecisionMemBench asks for, so that its own harness can score it.

    git clone the benchmark (tenurehq/precisionMemBench, MIT), run `npm ci` there, and add to providers.config.json:
    "vector-memory": {"envVar": "VM", "defaultUrl": "http://localhost:8080", "seedDelayMs": 0, "supportsUpdate": true}
    uv run benchmarks/retrieval/precisionmembench.py [--port 8080] [--lean] [--by-scope]
    MEMORY_PROVIDER=vector-memory RESEED=true npx ava src/retrieval.external.eval.test.ts
    MEMORY_PROVIDER=vector-memory RESEED=true npx ava src/session-retrieval.external.eval.test.ts

A belief is one memory of the agent that has the name of its user. A search has no parameter but the question and the
limit that the harness gives. `--lean`: answers end as those of the core profile do. `--by-scope`: a belief is in the
session that has the name of its scope, and a search looks only there.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from vector_memory.domain import Page, Scope
from vector_memory.results.lean import IS_LEAN
from vector_memory.store import SessionMemoryStore

KIND = "working_memory"


class Service:
    """The endpoints of a provider, over a memory in a folder."""

    def __init__(self, folder: Path, *, lean: bool, by_scope: bool) -> None:
        self._folder, self._lean, self._by_scope = folder, lean, by_scope
        self._beliefs: dict[int, str] = {}
        self._store = SessionMemoryStore(folder / "0.db")

    async def add(self, request: Request) -> JSONResponse:
        """Store a belief."""
        self._add(await request.json())
        return JSONResponse({"ok": True})

    async def update(self, request: Request) -> JSONResponse:
        """Store a belief in place of the one that has its id."""
        body = await request.json()
        for number in [number for number, belief in self._beliefs.items() if belief == body["beliefId"]]:
            self._store.delete_memory(number)
            del self._beliefs[number]
        self._add(body)
        return JSONResponse({"ok": True})

    async def search(self, request: Request) -> JSONResponse:
        """Return the beliefs that answer a question, the best first."""
        body = await request.json()
        session = body.get("scope") if self._by_scope else None
        scope = Scope(KIND, agent_id=body["user_id"], session_id=session)
        IS_LEAN.set(self._lean)
        found = self._store.search_chunks(body["query"], scope, Page(limit=body["limit"])).results
        return JSONResponse({"results": [{"id": self._beliefs[each.memory_id], "memory": ""} for each in found]})

    async def reset(self, _request: Request) -> JSONResponse:
        """Begin with an empty memory."""
        self._store.close()
        self._beliefs.clear()
        self._store = SessionMemoryStore(self._folder / f"{len(list(self._folder.glob('*.db')))}.db")
        return JSONResponse({"ok": True})

    def _add(self, body: dict[str, Any]) -> None:
        session = body["metadata"]["scope"] if self._by_scope else "all"
        receipt = self._store.store_memory(KIND, body["text"], agent_id=body["user_id"], session_id=session)
        self._beliefs[receipt.memory_id] = body["metadata"]["beliefId"]


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--lean", action="store_true", help="answer as the core profile does")
    parser.add_argument("--by-scope", action="store_true", help="a scope is a session")
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        service = Service(Path(folder), lean=options.lean, by_scope=options.by_scope)
        routes = [
            Route("/add", service.add, methods=["POST"]),
            Route("/update", service.update, methods=["PUT"]),
            Route("/search", service.search, methods=["POST"]),
            Route("/reset", service.reset, methods=["DELETE"]),
        ]
        uvicorn.run(Starlette(routes=routes), port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
