"""An empty memory of each engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from distributable import problem_of
from engine_memories import ENGINES, Engine
from vector_memory.storage.base import Storage


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(request.param, tmp_path, [])
    engine.open()
    yield engine
    for storage in engine.opened:
        storage.close()


@pytest.fixture(autouse=True)
def statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test send a statement that Citus would refuse."""
    execute = psycopg.Cursor.execute

    def checked(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        sql = query.decode() if isinstance(query, bytes) else query if isinstance(query, str) else query.as_string()
        assert problem_of(sql) is None, sql
        return execute(cursor, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", checked)


@pytest.fixture
def storage(engine: Engine) -> Storage:
    return engine.storage
