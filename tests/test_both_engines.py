"""Maintenance of a memory in PostgreSQL is that of a file, and memories move between the two without any difference."""

import io
import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from uuid import uuid4

import pytest

from clusters import schema_url
from lattice import LatticeEmbedder
from vector_memory.domain import MemoryKind, Scope
from vector_memory.embedding.embedder import Embedder, Vectors
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DatabaseError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

DOCUMENT = "# Title\n\n" + "\n\n".join(f"## Part {number}\n\n" + f"naïve{number} 数据 " * 15 for number in range(3))
METADATA = {"né": [1, None, {"a": 1.5}], "zero\0": "\0", "big": 2**63, "parent_report_id": "1", "\u2028": True}
BY_WORDS = "Found by words only"
OLD, NEW = LatticeEmbedder(), ToyEngine(2)
ENGINES = ("sqlite", "postgres")


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path | str]:
    """The address of an empty memory of each engine."""
    return {"sqlite": tmp_path / "memory.db", "postgres": schema_url(f"test_{uuid4().hex}")}


@pytest.fixture(params=ENGINES)
def place(request: pytest.FixtureRequest, places: dict[str, Path | str]) -> Path | str:
    return places[request.param]


def opened(place: Path | str, embedder: Embedder = OLD) -> SessionMemoryStore:
    dimensions = embedder.fingerprint.dimensions
    settings = Settings(embedding_model="toy", embedding_dim=dimensions, default_chunk_size=32, default_chunk_overlap=8)
    return SessionMemoryStore(place, settings, embedder=embedder)


def fill(store: SessionMemoryStore) -> None:
    """Store memories of all kinds with any metadata; read some, delete one."""
    for number in range(4):
        report = store.store_memory(
            "report", f"{DOCUMENT} report{number}", session_id=f"s{number % 2}", metadata=METADATA, tags=["a"]
        )
        store.store_memory(
            "report_observation", f"Wrong {number}.", session_id="s0", parent_report_id=report.memory_id, agent_id="b"
        )
        store.store_memory("input_prompt", f"Why {number}?", session_id="s1", session_iter=number, task_code="t")
    store.store_memory("knowledge_base", "A lease ends.", title="Leases", category="db")
    store.tagged.store("Redis needs a password.", tags=["redis", "ops"], category="decision")
    last = store.store_memory("system_memory", "Forget this.", session_id="s0")
    store.get_memory_by_id(1)
    store.delete_memory(last.memory_id or 0)


def exported(place: Path | str) -> bytes:
    with opened(place) as store:
        store.export_memories(target := io.BytesIO(), with_vectors=True)
    return target.getvalue()


@pytest.mark.parametrize(("first", "second"), list(permutations(ENGINES, 2)))
def test_export_and_import_and_export_give_the_same_lines(
    first: str, second: str, places: dict[str, Path | str]
) -> None:
    with opened(places[first]) as store:
        fill(store)
    lines = exported(places[first])
    with opened(places[second]) as store:
        assert store.import_memories(io.BytesIO(lines)).added == 14
        assert store.import_memories(io.BytesIO(lines)).skipped == 14
    assert exported(places[second]) == lines
    assert len(lines.splitlines()) == 15


def interrupted_at(call: int) -> Embedder:
    """Return an engine of the new model that is interrupted at one of its calls."""

    class Interrupted(ToyEngine):
        calls = 0

        def embed(self, texts: Sequence[str]) -> Vectors:
            self.calls += 1
            if self.calls == call:
                raise KeyboardInterrupt
            return super().embed(texts)

    return Interrupted(NEW.fingerprint.dimensions)


def test_the_model_is_changed_while_a_server_goes_on(place: Path | str) -> None:
    with opened(place) as server:
        fill(server)
        with pytest.raises(KeyboardInterrupt), opened(place, interrupted_at(4)) as store:
            store.reembed()
        scope = Scope(kind=MemoryKind.REPORT)
        assert BY_WORDS not in (server.search_chunks("naïve1", scope).message or "")
        server.store_memory("report", f"{DOCUMENT} later", session_id="s1")
        server.delete_memory(1)
        with opened(place, NEW) as store:
            assert "12 memories, 0 remaining" in store.reembed().message
            assert "nothing to do" in store.reembed().message
            assert BY_WORDS not in (store.search_chunks("naïve1", scope).message or "")
        assert BY_WORDS in (server.search_chunks("naïve1", scope).message or "")
    for line in exported(place).splitlines()[1:]:
        assert all(len(passage["vector"]) == 12 for passage in json.loads(line)["passages"])


def test_another_model_discards_the_progress_of_the_first(place: Path | str) -> None:
    with opened(place) as store:
        fill(store)

    class Overtaken(ToyEngine):
        def embed(self, texts: Sequence[str]) -> Vectors:
            with pytest.raises(KeyboardInterrupt), opened(place, interrupted_at(2)) as other:
                other.reembed()
            return super().embed(texts)

    with pytest.raises(DatabaseError, match="with another model has started"), opened(place, Overtaken(3)) as store:
        store.reembed()
