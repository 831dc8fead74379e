"""Lets PrecisionMemBench score a memory with its own harness.

The folder is a clone of the benchmark (tenurehq/precisionMemBench, MIT) in which `npm ci` has been run. An entry for
this memory is added to its providers.config.json. A belief is one memory of the agent that has the name of its user,
and a search has no parameter but the question and the limit that the harness gives. Four ways are scored: full answers,
lean ones, which end as those of the core profile do, and both with a session for each scope, in which alone is
searched.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from vector_memory.answers.forms import FORM, FULL
from vector_memory.domain import Page, Scope
from vector_memory.embedding import Embedder
from vector_memory.server.lean import LeanForm
from vector_memory.store import SessionMemoryStore

KIND = "working_memory"
PROVIDER, PORT = "vector-memory", 8080
ENTRY = {"envVar": "VM", "defaultUrl": f"http://localhost:{PORT}", "seedDelayMs": 0, "supportsUpdate": True}
WAYS = {
    "full": {"lean": False, "by_scope": False},
    "lean": {"lean": True, "by_scope": False},
    "full, a session for each scope": {"lean": False, "by_scope": True},
    "lean, a session for each scope": {"lean": True, "by_scope": True},
}


class Service:
    """The endpoints of a provider, over a memory in a folder."""

    def __init__(self, folder: Path, embedder: Embedder, *, lean: bool, by_scope: bool) -> None:
        self._folder, self._embedder, self._lean, self._by_scope = folder, embedder, lean, by_scope
        self._beliefs: dict[int, str] = {}
        self._store = self._opened()

    def _opened(self) -> SessionMemoryStore:
        number = len(list(self._folder.glob("*.db")))
        return SessionMemoryStore(self._folder / f"{number}.db", embedder=self._embedder)

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
        FORM.set(LeanForm() if self._lean else FULL)
        found = self._store.search_chunks(body["query"], scope, Page(limit=body["limit"])).results
        return JSONResponse({"results": [{"id": self._beliefs[each.memory_id], "memory": ""} for each in found]})

    async def reset(self, _request: Request) -> JSONResponse:
        """Begin with an empty memory."""
        self.close()
        self._beliefs.clear()
        self._store = self._opened()
        return JSONResponse({"ok": True})

    def close(self) -> None:
        """Close the memory."""
        self._store.close()

    def _add(self, body: dict[str, Any]) -> None:
        session = body["metadata"]["scope"] if self._by_scope else "all"
        receipt = self._store.store_memory(KIND, body["text"], agent_id=body["user_id"], session_id=session)
        self._beliefs[receipt.memory_id] = body["metadata"]["beliefId"]


def measure(clone: Path, embedder: Embedder) -> dict[str, Any]:
    """Run the harness for every way, and return its figures, beside those that the clone has of others."""
    config = clone / "providers.config.json"
    providers = json.loads(config.read_text("utf-8"))
    config.write_text(json.dumps(providers | {PROVIDER: ENTRY}, indent=2), encoding="utf-8")
    figures: dict[str, Any] = {"ways": {}, "published": {}}
    environment = {**os.environ, "MEMORY_PROVIDER": PROVIDER, "RESEED": "true"}
    for name, way in WAYS.items():
        with TemporaryDirectory() as folder, serving(Service(Path(folder), embedder, **way)):
            for part in ("retrieval", "session-retrieval"):
                command = [str(clone / "node_modules" / ".bin" / "ava"), f"src/{part}.external.eval.test.ts"]
                subprocess.run(command, cwd=clone, env=environment, check=False)  # fails where a case does
        figures["ways"][name] = scored(clone / "test-results", PROVIDER)
    for report in sorted((clone / "test-results" / "baseline").glob("retrieval-report-*.json")):
        name = report.stem.removeprefix("retrieval-report-")
        figures["published"][name] = scored(report.parent, name)
        del figures["published"][name]["failed"]
    return figures


@contextmanager
def serving(service: Service) -> Iterator[None]:
    """Serve the endpoints while the harness runs."""
    routes = [
        Route("/add", service.add, methods=["POST"]),
        Route("/update", service.update, methods=["PUT"]),
        Route("/search", service.search, methods=["POST"]),
        Route("/reset", service.reset, methods=["DELETE"]),
    ]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=PORT, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
        service.close()


def scored(folder: Path, provider: str) -> dict[str, Any]:
    """Return the figures of the harness's two reports: the whole, and the cases with something to find."""
    report = json.loads((folder / f"retrieval-report-{provider}.json").read_text("utf-8"))
    whole, cases = report["retrieval"], report["cases"]
    asked = [case for case in cases if case["retrievalRecall"] is not None]
    session = json.loads((folder / f"session-retrieval-report-{provider}.json").read_text("utf-8"))["retrieval"]
    return {
        "something to find": len(asked),
        "precision": round(mean(case["retrievalPrecision"] or 0.0 for case in asked), 4),
        "recall": round(mean(case["retrievalRecall"] for case in asked), 4),
        "exactly": whole["activeRetrievalPasses"],
        "mean precision": whole["meanPrecision"],
        "passed": whole["totalPassed"],
        "cases": whole["totalCases"],
        "session passed": session["totalPassed"],
        "session cases": session["totalCases"],
        "failed": [case["caseId"] for case in cases if not case["passed"]],
    }
