"""Draw a store and a search as they run, in docs/images: `uv run python scripts/draw_trace.py`.

Both tools are called through the real server, with a profiler that notes every call from one room of the package to
another. A room is a folder of `src/vector_memory/`. Calls of the rooms that hold only values are left out, and so is a
call that was drawn before; neighbouring calls between the same two rooms share an arrow.
"""

import asyncio
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from html import escape
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

from fastmcp import Client

import vector_memory
from vector_memory.server.app import create_server
from vector_memory.store import SessionMemoryStore

PACKAGE = Path(vector_memory.__file__).parent
ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
VALUES = {"settings", "domain", "errors"}
ROOMS = [room for layer in CONTRACTS[0]["layers"] for room in layer.split(" | ") if room not in VALUES]
"""The columns, in the order in which they may import each other. The others hold only values."""

SERVING = {"MainThread", "AnyIO worker thread"}
BACKGROUND = {"vectors"}
"""Names of the threads that answer a call, and of those that go on after the answer."""

DOCUMENT = "\n\n".join(f"# Section {number}\n\nThe index idx_{number} is unused since March." for number in range(3))
STORE = {"agent_id": "a", "session_id": "s", "content": DOCUMENT}
SEARCH = {"query": "which index is unused", "session_id": "s"}

COLUMN, LINE, TOP, MARGIN = 132, 30, 52, 66
SHOWN = 3
"""How many names of functions an arrow shows."""


class Call(NamedTuple):
    """A call from one room to another, and the function that was called."""

    thread: str
    caller: str
    room: str
    function: str


class Trace:
    """Notes the calls between rooms."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note a call: a function for `threading.setprofile`."""
        room, function = room_of(frame.f_code), frame.f_code.co_name
        if event != "call" or room is None or not function[0].isalpha() or "<l" in frame.f_code.co_qualname:
            return
        outer = frame.f_back
        while outer is not None and room_of(outer.f_code) is None:
            outer = outer.f_back
        caller = room_of(outer.f_code) if outer else "server"  # which starts the threads that answer
        if caller and ROOMS.index(caller) < ROOMS.index(room):  # otherwise it is called back
            self.calls.append(Call(threading.current_thread().name, caller, room, function))

    def of(self, threads: set[str]) -> list[Call]:
        """Return each call of some threads once, in the order of the first ones."""
        found = [call._replace(thread="") for call in self.calls if call.thread in threads]
        return list(dict.fromkeys(found))


def room_of(code: CodeType) -> str | None:
    """Return the room of a function, or None if it is not drawn."""
    path = Path(code.co_filename)
    room = path.relative_to(PACKAGE).parts[0].removesuffix(".py") if path.is_relative_to(PACKAGE) else ""
    return room if room in ROOMS else None


async def traced(trace: Trace, file: Path) -> tuple[list[Call], list[Call], list[Call]]:
    """Return the calls of a store, those in the background afterwards, and those of a search."""
    with SessionMemoryStore(file) as store:
        store.defer_vectors()
        store.start_background_work()
        async with Client(create_server(lambda: nullcontext(store))) as client:
            for number in range(2):  # the first call also loads the model
                trace.calls = []
                await client.call_tool("store_report", STORE | {"content": f"{DOCUMENT} {number}"})
                await client.call_tool("search_reports_specific_chunks", SEARCH)  # waits for the vectors
            stored, after = trace.of(SERVING), trace.of(BACKGROUND)
            trace.calls = []
            await client.call_tool("search_reports_specific_chunks", SEARCH)
            searched = trace.of(SERVING)
            first = next(number for number, call in enumerate(stored) if call.room == "search")
            return stored[:first], after, searched


def drawing(title: str, parts: Sequence[tuple[str, Sequence[Call]]]) -> str:
    """Return the calls as SVG: rooms are columns, time goes down."""
    rooms = [room for room in ROOMS if any(room in (call.caller, call.room) for _, calls in parts for call in calls)]
    place = {room: MARGIN + number * COLUMN for number, room in enumerate(rooms)}
    lines: list[str] = []
    y = TOP
    for heading, calls in parts:
        if heading:
            y += LINE
            lines.append(f'<text x="{MARGIN}" y="{y}" style="font-weight: bold">{escape(heading)}</text>')
        for (caller, room), group in groupby(calls, key=lambda call: (call.caller, call.room)):
            y += LINE
            lines += arrow(place[caller], place[room], y, [call.function for call in group])
    width, height = 2 * MARGIN + (len(rooms) - 1) * COLUMN, y + LINE
    columns = [
        f'<line x1="{x}" y1="{TOP - 12}" x2="{x}" y2="{height}" stroke="#ccc"/>'
        f'<rect x="{x - 46}" y="14" width="92" height="26" rx="4" fill="#e8f0f8" stroke="#7a9cc0"/>'
        f'<text x="{x}" y="32" text-anchor="middle">{room}</text>'
        for room, x in place.items()
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title><style>text {{ font: 13px sans-serif }}</style>",
            "<!-- Drawn by scripts/draw_trace.py from a trace: run it again instead of editing this. -->",
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *columns,
            *lines,
            "</svg>\n",
        ]
    )


def arrow(start: int, end: int, y: int, functions: Sequence[str]) -> Iterator[str]:
    """Yield an arrow, with the names of the functions that it stands for above it."""
    more = f" + {len(functions) - SHOWN}" if len(functions) > SHOWN else ""
    label = escape(", ".join(functions[:SHOWN]) + more)
    yield f'<path d="M{start} {y}H{end - 7}" stroke="#36648b"/><path d="M{end} {y}l-8 -4v8z" fill="#36648b"/>'
    yield f'<text x="{start + 6}" y="{y - 7}" stroke="white" stroke-width="4" paint-order="stroke">{label}</text>'


def main() -> None:
    """Trace and draw."""
    trace = Trace()
    threading.setprofile(trace.note)
    sys.setprofile(trace.note)
    with tempfile.TemporaryDirectory() as folder:
        stored, after, searched = asyncio.run(traced(trace, Path(folder) / "memory.db"))
    sys.setprofile(None)
    store = [("", stored), ("After the receipt, in the background", after)]
    (IMAGES / "store.svg").write_text(drawing("A report is stored", store), encoding="utf-8")
    (IMAGES / "search.svg").write_text(drawing("A search runs", [("", searched)]), encoding="utf-8")


if __name__ == "__main__":
    main()
