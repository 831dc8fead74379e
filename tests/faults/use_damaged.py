"""Uses files with damaged bytes in every way, as a process of its own: `python use_damaged.py folder first end step`.

Writes a line before each file, so that whoever started it knows at which one it ended, and `ok` after it.
"""

import random
import shutil
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import apsw

from memory_files import SETTINGS, doctor, found
from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.errors import DuplicateMemoryError, NotFoundError, VectorMemoryError
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor.report import Report

REPORT = "# Title\n\n" + "\n\n".join(f"## Part {number}\n\n" + f"word{number} Ünïcode 数据 " * 9 for number in range(3))


def store_few(path: Path) -> None:
    """Store memories: 1 and 4 are chunked, 2 is pinned, 3 has tags and supersedes 1."""
    with SessionMemoryStore(path, SETTINGS) as store:
        store.store_memory("report", REPORT, session_id="s", agent_id="a")
        store.store_memory("system_memory", "make database", session_id="s", agent_id="a")
        store.tagged.store("Redis needs a password.", tags=["redis", "ops"], category="decision")
        store.store_memory("knowledge_base", REPORT.replace("word", "other"), title="Lasting")
        store.store_memory("report", "# Short\n\nThe report of another agent.", session_id="s", agent_id="b")
        store.pin(2)
        store.supersede(5, 1)


def reads(store: SessionMemoryStore) -> dict[str, Callable[[], object]]:
    """Return calls whose answers depend on texts, words, vectors and chunks. A repair may give chunks other ids."""
    named: dict[str, Callable[[], object]] = {}
    page = Page(limit=5)
    for kind in (MemoryKind.REPORT, MemoryKind.KNOWLEDGE_BASE):
        scope = Scope(kind)
        for mode in ("vector", "keyword", "hybrid"):
            named[f"chunks {kind} {mode}"] = lambda scope=scope, mode=mode: [
                (hit.memory_id, hit.chunk_content)
                for hit in store.search_chunks("word1", scope, page, mode=mode).results
            ]
        named[f"sections {kind}"] = lambda scope=scope: [
            (hit.memory_id, hit.section_content) for hit in store.search_sections("word1", scope, page).results
        ]
        named[f"newest {kind}"] = lambda scope=scope: [
            hit.memory_id for hit in store.search_documents(None, scope, page).results
        ]
    return named | {
        "texts": lambda: [store.get_memory_by_id(number).memory.content for number in range(1, 6)],
        "document": lambda: store.reconstruct_document(4).content,
        "tagged": lambda: [hit.content for hit in store.tagged.search("password").results],
    }


def uses(store: SessionMemoryStore) -> dict[str, Callable[[], object]]:
    """Return calls that have to end with an answer or an error of this package."""
    return {
        "sessions": store.list_sessions,
        "stats": store.get_memory_stats,
        "timeline": lambda: store.get_timeline(Scope()),
        "changes": lambda: store.search_changes(Scope(session_id="s")),
        "context": lambda: store.load_session_context_for_task("s", 1),
        "expand": lambda: store.expand_chunk_context(2),
        "tags": lambda: [store.tags.unique(), store.tags.canonical(), store.tags.frequencies(), store.tags.weights()],
        "names": lambda: [store.find_names(column, "a") for column in ("session_id", "agent_id", "task_code")],
        "export": lambda: store.export_memories(BytesIO(), with_vectors=True),
        "dry run": lambda: store.cleanup_old_memories(1),
        "store": lambda: store.store_memory("report", "# New\n\nSome words.", session_id="s"),
        "delete": lambda: store.delete_memory(5),
        "backfill": store.backfill_embeddings,
    }


def answer(call: Callable[[], object]) -> object:
    """Return what a call returns, or the error it ends with; any other exception ends this process."""
    try:
        return call()
    except (NotFoundError, DuplicateMemoryError) as error:
        return type(error).__name__
    except VectorMemoryError as error:
        return str(error)


def answers(path: Path, calls: Callable[[SessionMemoryStore], dict[str, Callable[[], object]]]) -> dict[str, object]:
    """Return the answers of all calls."""
    try:
        store = SessionMemoryStore(path, SETTINGS)
    except VectorMemoryError as error:
        return {"open": str(error)}
    with store:
        return {name: answer(call) for name, call in calls(store).items()}


def readable(path: Path) -> dict[int, str]:
    """Return the texts that SQLite can read by their ids."""
    texts: dict[int, str] = {}
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    for number in range(1, 6):
        try:
            texts |= connection.execute("select id, content from session_memories where id = ?", (number,)).fetchall()
        except (apsw.Error, UnicodeDecodeError):
            continue
    connection.close()
    return texts


def wrong_with(path: Path, right: dict[str, Any], texts: dict[int, str]) -> list[str]:
    """Return what must not be: a healthy file with wrong answers, before or after a repair that loses no text."""
    wrong = []
    report = doctor(path).examine(deep=True)
    copies = {name: Path(shutil.copy(path, path.with_name(name))) for name in ("read.db", "used.db")}
    if report.healthy and answers(copies["read.db"], reads) != right:
        wrong.append(f"healthy, but {differing(answers(copies['read.db'], reads), right)}")
    answers(copies["used.db"], uses)
    if not report.fixable():
        return wrong
    kept = {number: text for number, text in readable(path).items() if texts[number] == text}
    report, done = doctor(path).repair_all(report)
    left = readable(path)
    if lost := {number for number, text in kept.items() if left.get(number) != text}:
        wrong.append(f"lost {lost}: {done}")
    if is_whole(report, left, texts) and answers(path, reads) != right:
        wrong.append(f"repaired, but {differing(answers(path, reads), right)}")
    if report.fixable():
        wrong.append(f"still to be repaired: {found(report)} after {done}")
    return wrong


def is_whole(report: Report, left: dict[int, str], texts: dict[int, str]) -> bool:
    """Return whether a repaired file is said to be healthy, and has all texts."""
    return report.healthy and left == texts


def differing(found: dict[str, object], right: dict[str, object]) -> dict[str, object]:
    """Return the answers that are others."""
    return {name: one for name, one in found.items() if right.get(name) != one}


def main(folder: Path, first: int, end: int, step: int) -> None:
    """Change one byte after another of a small file, and look at each."""
    template = folder.with_name("template.db")
    store_few(template)
    right, texts = answers(Path(shutil.copy(template, folder / "right.db")), reads), readable(template)
    original = template.read_bytes()
    for place in range(first, min(end, len(original)), step):
        for old in folder.iterdir():
            old.unlink()
        damaged = bytearray(original)
        damaged[place] ^= random.Random(place).choice((1, 2, 4, 8, 16, 32, 64, 128, 255))
        path = folder / "memory.db"
        path.write_bytes(damaged)
        path.chmod(0o600)
        print(f"byte {place}: {original[place]} -> {damaged[place]}", flush=True)
        wrong = wrong_with(path, right, texts)
        print("ok" if not wrong else f"WRONG {wrong}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
