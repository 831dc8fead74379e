"""Records what the tools answer, so that a change of the search can be compared with the build before it.

    uv run benchmarks/retrieval/recorded.py make memory.db          # once, a varied memory out of this project's docs
    uv run benchmarks/retrieval/recorded.py record memory.db before.json
    uv run benchmarks/retrieval/recorded.py compare before.json after.json

`record` runs in the build that is compared. It works on a copy, and answers in the full and in the lean form, and to a
token that is limited to two of the four sessions. It takes about two minutes; `compare` exits with 1 on a difference.
"""

import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fastmcp import Client

from vector_memory.server.app import create_server
from vector_memory.settings import ServerOptions
from vector_memory.store import SessionMemoryStore

DOCS = Path(__file__).parents[2] / "docs"
TEXTS = json.loads((Path(__file__).parent / "questions/recorded.json").read_text())
CHUNKS, SECTIONS = "search_reports_specific_chunks", "search_reports_section_context"
DOCUMENTS = "search_reports_full_documents"
VARIANTS: tuple[tuple[str, dict[str, Any]], ...] = (
    *((tool, given) for tool in (CHUNKS, SECTIONS, DOCUMENTS) for given in ({}, {"session_id": "s1", "limit": 4})),
    (CHUNKS, {"limit": 3, "offset": 3}),
    *((tool, {"prefer": "latest"}) for tool in (CHUNKS, SECTIONS, DOCUMENTS)),
    (DOCUMENTS, {"detail": "lines", "limit": 20}),
    *((CHUNKS, {"search_mode": mode}) for mode in ("keyword", "vector")),
    (CHUNKS, {"agent_id": "a1", "as_of": "2026-01-20"}),
    (CHUNKS, {"task_code": "T1", "as_of": "any"}),
    (CHUNKS, {"created_after": "2026-01-05", "max_tokens": 900}),
    *((f"search_working_memory_{grain}", {}) for grain in ("specific_chunks", "full_documents")),
    *(("search_knowledge_base_section_context", {"category": "guide"}), ("search_input_prompts", {"session_id": "s1"})),
    *((CHUNKS, {"explain": explained}) for explained in ("all", 5)),
)
COUNTED = {"access_count", "accessed_at"}
"""What a search itself changes."""


def make(path: Path) -> None:
    """Store pages with near copies and observations, facts and their corrections, prompts, notes and knowledge."""
    day = (f"2026-{month:02}-{day:02}T08:00:00Z" for month in range(1, 13) for day in range(1, 29))
    with SessionMemoryStore(path) as store:
        for number, page in enumerate(sorted(DOCS.glob("*.md"))[:14]):
            text, who = page.read_text(), {"session_id": f"s{number % 4}", "agent_id": f"a{number % 3}"}
            about = {**who, "title": page.stem, "task_code": f"T{number % 5}"}
            report = store.store_memory("report", text, **about, created_at=next(day))
            if number % 4 == 0:
                store.store_memory("report", f"{text}\n\nOne more sentence at the end.", **about, created_at=next(day))
            note = f"Checked {page.stem}: the section on defaults is out of date."
            corrected = {"parent_report_id": report.memory_id, "corrects": bool(number % 2)}
            store.store_memory("report_observation", note, **who, **corrected, created_at=next(day))
            store.store_memory("knowledge_base", text[:3_000], title=page.stem, category=("ops", "guide")[number % 2])
        for value, change in ((8081, ""), (8083, " It moved and is different now.")):
            for number, fact in enumerate(TEXTS["facts"]):
                who = {"session_id": f"s{number % 3}", "agent_id": f"a{number % 2}"}
                store.store_memory("working_memory", fact.format(value) + change, **who, created_at=next(day))
                finding = f"# Finding {number}\n\n{fact.format(value)}{change or ' This was checked.'}"
                older = [report.memory_id] if change and number == len(TEXTS["facts"]) - 1 else None
                store.store_memory("report", finding, **who, supersedes=older, created_at=next(day))
        for number in range(40):
            what, who = ("proxy", "queue")[number % 2], {"session_id": f"s{number % 4}", "agent_id": f"a{number % 3}"}
            store.store_memory("input_prompt", f"#{number}: why does the {what} fail?", **who, created_at=next(day))
            note = f"The {what} restarted at {number * 7919:07x}abc, see src/{number}.py, getUserById()."
            store.store_memory("working_memory", note, **who, metadata={"project": "p"}, created_at=next(day))
        store.store_memory("report", "# Gone\n\nThe temporary token must be renewed.", session_id="s1", ttl_days=0.0001)
        store.pin(4)
    time.sleep(10)  # until it has expired


def calls() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tools and arguments of all calls."""
    questions = TEXTS["questions"]
    for number, question in enumerate(questions):
        for tool, given in VARIANTS:
            yield tool, {"query": question, **given}
        several = [question, questions[number - 3], questions[number - 7]]
        for tool in (CHUNKS, SECTIONS, DOCUMENTS):
            yield tool, {"queries": several, "limit": 5}
        yield "load_session_context_for_task", {"session_id": "s1", "task_description": question}
    yield "search_changes", {"session_id": "s1"}


async def record(memory: Path) -> list[Any]:
    """Return each call with its answer."""
    answers: list[Any] = []
    for form, sessions in (("full", None), ("lean", None), ("full", ["s0", "s1"])):
        with SessionMemoryStore(memory) as store:
            seen = store.limited_to(sessions) if sessions else store
            server = create_server(lambda seen=seen: nullcontext(seen), ServerOptions(answers=form))
            async with Client(server) as client:
                for tool, given in calls():
                    answer = await client.call_tool(tool, given, raise_on_error=False)
                    answers.append([form, sessions, tool, given, answer.structured_content])
    return answers


def told(value: Any) -> Any:
    """Return a part of an answer without what a search itself changes."""
    if isinstance(value, dict):
        return {name: told(inner) for name, inner in value.items() if name not in COUNTED}
    return [told(inner) for inner in value] if isinstance(value, list) else value


def main(command: str, first: Path, second: Path | None = None) -> int:
    """Run a command; return what to exit with."""
    if command == "make":
        make(first)
    elif command == "record" and second is not None:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(shutil.copy(first, folder))
            second.write_text(json.dumps(asyncio.run(record(copy))))
    elif command == "compare" and second is not None:
        pairs = list(zip(*(json.loads(path.read_text()) for path in (first, second)), strict=True))
        different = [before[:4] for before, after in pairs if told(before) != told(after)]
        print(*different, f"{len(different)} of {len(pairs)} answers differ.", sep="\n")
        return bool(different)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(Path, sys.argv[2:])))
