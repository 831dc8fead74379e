"""An empty memory of each engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_memories import ENGINES, Engine
from vector_memory.storage.base import Storage


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(request.param, tmp_path, [])
    engine.open()
    yield engine
    for storage in engine.opened:
        storage.close()


@pytest.fixture
def storage(engine: Engine) -> Storage:
    return engine.storage
