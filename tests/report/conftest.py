"""A session that several agents stored, and its page."""

from pathlib import Path

import pytest

from engines import column, execute
from inside import storage_of
from report_page import HOSTILE, WORD
from vector_memory.extras.window.page import page_html
from vector_memory.extras.window.session_report import session_data
from vector_memory.store import SessionMemoryStore


@pytest.fixture
def session(store: SessionMemoryStore) -> SessionMemoryStore:
    """A session of five memories, one of them hostile in every field."""
    report = store.store_memory(
        "report", "# Locks\n\nThe writer waits for **readers**.", agent_id="alice", session_id="s", task_code="T1"
    )
    store.store_memory(
        "report_observation",
        "It waits a second.",
        agent_id="bob",
        session_id="s",
        task_code="T1",
        parent_report_id=report.memory_id,
    )
    store.store_memory("working_memory", "Reading on.", agent_id="alice", session_id="s", session_iter=2)
    store.store_memory("input_prompt", "Find out why it waits.", session_id="s", session_iter=2)
    store.store_memory(
        "report",
        HOSTILE + WORD,
        agent_id="<img src=x onerror=window.ran=8>",
        session_id="s",
        session_iter=2,
        task_code='"><script>window.ran=9</script>',
        title="</title><script>window.ran=10</script>" + WORD[:400],
        tags=["<i>", "</script>"],
        metadata={"__proto__": "<b>", "note": "</script>"},
    )
    store.store_memory("report", "Of another session.", agent_id="alice", session_id="other")
    return store


@pytest.fixture
def page(session: SessionMemoryStore, tmp_path: Path) -> Path:
    """The page of that session, which took twenty seconds."""
    for memory_id in column(session, "select id from session_memories"):
        created_at = f"2026-11-22T10:00:{memory_id * 5:02}.000000+00:00"
        execute(session, "update session_memories set created_at = ? where id = ?", created_at, memory_id)
    file = tmp_path / "session.html"
    file.write_text(page_html(session_data(storage_of(session), "s")), encoding="utf-8")
    return file
