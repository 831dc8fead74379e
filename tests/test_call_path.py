"""How many files of the package one call passes: whoever follows it has to open them."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import vector_memory
from vector_memory.domain import Page, Scope
from vector_memory.store import SessionMemoryStore

PACKAGE = Path(vector_memory.__file__).parent
DOCUMENT = "\n\n".join(f"# Section {number}\n\nThe index idx_{number} is unused since March." for number in range(9))
REPORTS = Scope("report", session_id="s")


def passed(call: Callable[[], object]) -> set[str]:
    """Return the files of the package that have a function which the call runs in this thread."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {Path(name).relative_to(PACKAGE).as_posix() for name in files if Path(name).is_relative_to(PACKAGE)}


@pytest.mark.parametrize("in_memory", [False, True], ids=["tables", "in-memory index"])
def test_a_search_passes_few_files(store: SessionMemoryStore, *, in_memory: bool) -> None:
    store.store_memory("report", DOCUMENT, session_id="s")
    if in_memory:
        store.start_background_work()
        store._index.wait_for_loading()
    store.search_chunks("unused index", REPORTS, Page(limit=5))
    files = passed(lambda: store.search_chunks("unused index", REPORTS, Page(limit=5)))
    assert len(files) <= (52 if in_memory else 46), sorted(files)


def test_a_store_passes_few_files(store: SessionMemoryStore) -> None:
    store.store_memory("report", DOCUMENT, session_id="s")
    files = passed(lambda: store.store_memory("report", DOCUMENT + "More.", session_id="s"))
    assert len(files) <= 36, sorted(files)
