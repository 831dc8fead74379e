"""Finding the newest memories of a scope."""

from pathlib import Path
from typing import Any

import pytest

from vector_memory.domain import MemoryKind, Scope
from vector_memory.storage.records import ListPosition
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.transactions import SqliteReader

SCOPES = {
    "kind": Scope(kind=MemoryKind.REPORT),
    "agent": Scope(kind=MemoryKind.REPORT, agent_id="a"),
    "session": Scope(kind=MemoryKind.REPORT, session_id="s"),
    "task": Scope(kind=MemoryKind.REPORT, task_code="t"),
}


@pytest.mark.parametrize("name", SCOPES)
def test_the_newest_of_a_scope_are_found_without_sorting_it(name: str, tmp_path: Path) -> None:
    asked: list[tuple[str, Any]] = []

    def note(_cursor: object, statement: str, bindings: Any) -> bool:
        asked.append((statement, bindings))
        return True

    database = Database(tmp_path / "memory.db", dimensions=16)
    with database.read() as connection:
        connection.exec_trace = note
        for after in (None, ListPosition(2, 40, "2026-01-01T00:00:00+00:00", 42)):
            SqliteReader(connection).memories.page(SCOPES[name], 10, after=after)
        connection.exec_trace = None
        plan = [row[3] for sql, values in asked for row in connection.execute(f"explain query plan {sql}", values)]
    database.close()
    assert plan
    assert not [step for step in plan if "TEMP B-TREE" in step or step.startswith("SCAN")]
