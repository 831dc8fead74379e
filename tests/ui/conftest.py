"""A page over a store, on a port of its own, and a browser's requests to it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx2
import pytest
import uvicorn

from forked import COPIES, process_to_copy
from vector_memory.extras.window import page_state, routes
from vector_memory.extras.window.guard import Guard
from vector_memory.extras.window.page_state import Checkup, Deletions
from vector_memory.files import FileMemory
from vector_memory.server.http.asgi_guard import Gate, TimedConnection
from vector_memory.server.http.serving import listen
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.report import Report
from waiting import eventually


@dataclass
class Ui:
    """A running page: the link that opens it once, and the address after that."""

    link: str
    end: Any
    client: httpx2.Client = field(default_factory=partial(httpx2.Client, timeout=600))

    @property
    def base(self) -> str:
        return self.link.partition("?")[0]

    def enter(self) -> "Ui":
        """Open the link, as a browser does first."""
        assert self.client.get(self.link).status_code == 200
        return self

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> httpx2.Response:
        return self.client.request(method, self.base + path, headers=headers, json=body)

    def change(self, path: str, method: str = "PUT", body: Any = None) -> httpx2.Response:
        """Send a request that changes the memory, as the page does."""
        return self.ask(f"api/{path}", method, body, **{"x-vector-memory": "page"})

    def get(self, path: str) -> Any:
        """Return the answer to a request of the page."""
        answer = self.ask(f"api/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()


NOTHING_FOUND = Report("memory.db", {})


@pytest.fixture(autouse=True, scope="session")
def copied_processes() -> Iterator[None]:
    """Let the doctor examine in a copy of a process: a new one, as tests/doctor starts it, imports for seconds."""
    process_to_copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_state, "get_context", lambda _: COPIES)
        yield


@contextmanager
def serving(
    store: SessionMemoryStore,
    files: FileMemory | None = None,
    *,
    examine: Callable[[], Report] = lambda: NOTHING_FOUND,
    read_only: bool = False,
) -> Iterator[Ui]:
    """Run the page in a thread. `examine`: what the doctor does."""
    guard = Guard(routes.page_app(store, "memory.db", Checkup(examine), files, read_only=read_only))
    listening = listen("127.0.0.1", 0)
    gate = Gate(guard)
    server = uvicorn.Server(uvicorn.Config(gate, http=TimedConnection, log_config=None, lifespan="on", ws="none"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    eventually(lambda: server.started)

    def end() -> None:
        server.should_exit = True
        thread.join()

    ui = Ui(guard.link(listening.getsockname()[1]), end)
    yield ui
    ui.client.close()
    end()


@pytest.fixture
def undo_seconds() -> float:
    """How long a deletion can be taken back."""
    return 3_600.0


@pytest.fixture
def ui(store: SessionMemoryStore, undo_seconds: float, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ui]:
    """The page of the store, which nobody has opened."""
    monkeypatch.setattr(routes, "Deletions", partial(Deletions, seconds=undo_seconds))
    with serving(store) as served:
        yield served
