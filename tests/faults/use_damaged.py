"""Uses damaged files in every way, as a process of its own: `python use_damaged.py folder seed count`.

Writes a line before each file, so that whoever started it knows at which one it ended, and `ok` after it.
"""

import random
import shutil
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import apsw

from faults.damages import damage
from memory_files import SETTINGS, doctor, found
from vector_memory.domain import MemoryKind, Page, Scope
from vector_memory.errors import DuplicateMemoryError, NotFoundError, VectorMemoryError
from vector_memory.store import SessionMemoryStore


def answers(call: Callable[[], object]) -> str:
    """Return the error a call ends with, or nothing; any other exception ends this process.

    What was deleted, stored twice or never is no error: that is not about damage.
    """
    try:
        call()
    except (NotFoundError, DuplicateMemoryError):
        return ""
    except VectorMemoryError as error:
        return str(error)
    return ""


def calls(store: SessionMemoryStore) -> dict[str, Callable[[], object]]:
    """Return calls of all that reads and of what writes."""
    named: dict[str, Callable[[], object]] = {}
    for kind in (MemoryKind.REPORT, MemoryKind.KNOWLEDGE_BASE):
        scope = Scope(kind)
        for mode in ("vector", "keyword", "hybrid"):
            named[f"chunks {kind} {mode}"] = lambda scope=scope, mode=mode: store.search_chunks(
                "word3", scope, Page(limit=5), mode=mode
            )
        named[f"sections {kind}"] = lambda scope=scope: store.search_sections("word3", scope, Page(limit=5))
        named[f"documents {kind}"] = lambda scope=scope: store.search_documents(
            "word3", scope, Page(limit=5), order="relevance"
        )
        named[f"newest {kind}"] = lambda scope=scope: store.search_documents(None, scope, Page(limit=5))
    return named | {
        "memories": lambda: store.search_memories("make", Scope("system_memory"), Page(limit=5)),
        "tagged": lambda: store.search_memories("make", Scope(MemoryKind.TAGGED), Page(limit=5)),
        "sessions": store.list_sessions,
        "stats": store.get_memory_stats,
        "session stats": lambda: store.get_session_stats("s"),
        "timeline": lambda: store.get_timeline(Scope()),
        "changes": lambda: store.search_changes(Scope(session_id="s")),
        "context": lambda: store.load_session_context_for_task("s", 1),
        "get": lambda: [store.get_memory_by_id(number) for number in (1, 2, 4)],
        "document": lambda: store.reconstruct_document(2),
        "expand": lambda: store.expand_chunk_context(2),
        "tagged by words": lambda: store.tagged.search("build"),
        "tagged newest": store.tagged.list_recent,
        "tagged stats": store.tagged.stats,
        "tags": lambda: [store.tags.unique(), store.tags.canonical(), store.tags.frequencies(), store.tags.weights()],
        "names": lambda: [store.find_names(column, "a") for column in ("session_id", "agent_id", "task_code")],
        "export": lambda: store.export_memories(BytesIO(), with_vectors=True),
        "dry run": lambda: store.cleanup_old_memories(1),
        "store": lambda: store.store_memory("report", "# New\n\nSome words.", session_id="s"),
        "delete": lambda: store.delete_memory(5),
        "backfill": store.backfill_embeddings,
    }


def failures(path: Path) -> dict[str, str]:
    """Return the errors of all calls."""
    try:
        store = SessionMemoryStore(path, SETTINGS)
    except VectorMemoryError as error:
        return {"open": str(error)}
    with store:
        return {name: error for name, call in calls(store).items() if (error := answers(call))}


def look_at(path: Path) -> list[str]:
    """Return what must not be: calls fail, and the doctor says that all is well, before or after mending."""
    copy = Path(shutil.copy(path, path.with_name("copy.db")))
    wrong = []
    for place, mend in ((path, False), (copy, True)):
        examiner = doctor(place)
        report = examiner.examine(deep=True)
        if mend:
            report, _ = examiner.repair_all(report)
        failed = failures(place)
        if failed and report.healthy:
            wrong.append(f"{'mended' if mend else 'not mended'}: said to be healthy, but {failed}")
        # Nothing is embedded where the file says that another model made its vectors.
        if mend and report.fixable() and "fingerprint" not in found(report):
            wrong.append(f"still to be mended: {found(report)}")
    return wrong


def main(template: Path, folder: Path, seed: int, count: int) -> None:
    """Damage copies of a file with one seed after another and look at each."""
    for number in range(seed, seed + count):
        path = folder / "memory.db"
        for old in folder.iterdir():
            old.unlink()
        shutil.copy(template, path)
        print(f"{number}: {damage(path, random.Random(number))}", flush=True)
        wrong = look_at(path)
        print("ok" if not wrong else f"WRONG {wrong}", flush=True)


if __name__ == "__main__":
    apsw.config  # noqa: B018 - fails early where SQLite cannot be loaded
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
