"""What one call of a tool passes in the package: whoever wants to understand the call has to read it.

It is counted in a process of its own, in one thread: there what the server would hand to a worker runs at once, so that
no count depends on when a thread gets its turn.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import TypeVar

from fastmcp import Client
from fastmcp.utilities import async_utils

import vector_memory
from lattice import DIMENSIONS, LatticeEmbedder
from vector_memory.server import app, conversation, turns
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

T = TypeVar("T")

PACKAGE = str(Path(vector_memory.__file__).parent)
DOCUMENT = "\n\n".join(f"# Section {number}\n\nThe index idx_{number} is unused since March." for number in range(9))
STORE = {"agent_id": "a", "session_id": "s", "session_iter": 1}
SEARCH = {"query": "unused index", "session_id": "s"}
CALLS = 5


async def at_once(function: Callable[..., T], *arguments: object, **_options: object) -> T:
    """Run a function in place of `anyio.to_thread.run_sync`."""
    return function(*arguments)


class CallPath:
    """The functions of the package that every call passed, and the pairs of which one reached the other's file.

    The profiler follows the main thread only: others work in the background.
    """

    def __init__(self) -> None:
        self._is_counting = False
        self._functions: set[CodeType] = set()
        self._hand_overs: set[tuple[CodeType, CodeType]] = set()

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Take note of a call: a function for `sys.setprofile`."""
        if not self._is_counting or event != "call" or not is_ours(frame):
            return
        self._functions.add(frame.f_code)
        caller = frame.f_back
        while caller is not None and not is_ours(caller):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != frame.f_code.co_filename:
            self._hand_overs.add((caller.f_code, frame.f_code))

    async def counts(self, name: str, calls: Iterable[Callable[[], Awaitable[object]]]) -> dict[str, int]:
        """Make calls, and return what all of them passed: some also meet what happens to be due at that moment."""
        each = []
        for call in calls:
            self._functions, self._hand_overs, self._is_counting = set(), set(), True
            await call()
            self._is_counting = False
            each.append((self._functions, self._hand_overs))
        functions, hand_overs = (set.intersection(*found) for found in zip(*each, strict=True))
        return {
            f"files that a {name} passes": len({code.co_filename for code in functions}),
            f"functions that a {name} passes": len(functions),
            f"hand-overs between files in a {name}": len(hand_overs),
        }


def is_ours(frame: FrameType) -> bool:
    """Tell whether a frame is one of a function of the package."""
    return frame.f_code.co_filename.startswith(PACKAGE) and frame.f_code.co_name != "<module>"


async def count(path: CallPath, file: Path) -> dict[str, int]:
    """Store and search with the tools of a server, as a client does, and without its background work."""
    app.SECONDS_UNASKED = 3600
    turns.run_sync = conversation.run_sync = async_utils.run_sync_in_threadpool = at_once
    settings = Settings(embedding_model="toy", embedding_dim=DIMENSIONS, default_chunk_size=32, default_chunk_overlap=8)
    with SessionMemoryStore(file, settings, embedder=LatticeEmbedder()) as store:
        async with Client(app.create_server(lambda: nullcontext(store))) as client:

            def storing(number: int) -> Callable[[], Awaitable[object]]:
                report = STORE | {"content": f"{DOCUMENT}\n\nReport {number}."}
                return lambda: client.call_tool("store_report", report)

            counts = await path.counts("store", map(storing, range(CALLS)))
            searching = partial(client.call_tool, "search_reports_specific_chunks", SEARCH)
            return counts | await path.counts("search", [searching] * CALLS)


def of_calls() -> dict[str, int]:
    """Return the counts of a store and a search."""
    return dict(json.loads(subprocess.run([sys.executable, __file__], check=True, stdout=subprocess.PIPE).stdout))


if __name__ == "__main__":
    followed = CallPath()
    sys.setprofile(followed.note)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asyncio.run(count(followed, Path(folder) / "memory.db"))))
