"""Deleted data is erased from every byte of the memory's files, whatever it was and whoever stored it."""

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eras import Call
from faults.soundness import connected
from inside import database_of
from lattice import DIMENSIONS, LatticeEmbedder
from tool_calls import SESSION_TOOLS, good_arguments
from vector_memory.server.tools.memory_tool import MemoryTool
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from waiting import eventually

pytestmark = pytest.mark.anyio

STORING = [tool for tool in SESSION_TOOLS if tool.name.startswith("store_")]
NOT_TEXT = {"supersedes", "corrects", "session_iter", "parent_report_id", "ttl_days"}


class DenseEmbedder(LatticeEmbedder):
    """Makes vectors whose bytes are found again: no zeros, and short enough to stand on one page."""

    @staticmethod
    def vector(text: str) -> list[float]:
        """Return a vector that no other text has."""
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest())
        vector = np.random.default_rng(seed).normal(size=DIMENSIONS)
        return [float(number) for number in vector / np.linalg.norm(vector)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionMemoryStore]:
    own = {"embedding_dim": DIMENSIONS, "default_chunk_size": 32, "default_chunk_overlap": 8, "undo_hours": 0}
    settings = Settings(embedding_model="toy", **own)
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=DenseEmbedder()) as store:
        yield store


def marker(parameter: str) -> str:
    """Return a word that nothing else begins like: of a word the full-text index keeps what the last one has not."""
    return f"zq{parameter.replace('_', '')}qz"


def marked_arguments(tool: MemoryTool) -> dict[str, Any]:
    """Return arguments with a marker in every text that can be stored; the content makes several chunks."""
    arguments = good_arguments(tool)
    for name, schema in tool.parameters["properties"].items():
        if name in NOT_TEXT:
            continue
        types = schema["type"]
        word = marker(name)
        arguments[name] = [word] if "array" in types else {word: {word: [word]}} if "object" in types else word
    sections = [f"## {marker('content')} {number}\n\n{'Some more words. ' * 20}" for number in range(8)]
    return {**arguments, "content": "\n\n".join(sections)}


def remains(folder: Path, wanted: list[bytes]) -> set[bytes]:
    """Return which of these bytes are still in the memory's files.

    Another process reads them: this one would drop SQLite's locks by closing a file that it has open.
    """
    content = subprocess.run(["cat", *folder.glob("memory.db*")], capture_output=True, check=False).stdout
    return {part for part in wanted if part in content}


def vectors(folder: Path) -> list[bytes]:
    """Return every stored vector."""
    with connected(folder / "memory.db") as connection:
        return [
            vector
            for table in ("vec_chunk_search", "vec_session_search")
            for (vector,) in connection.execute(f"select embedding from {table}").fetchall()
        ]


def make_old(store: SessionMemoryStore, memory_id: int) -> None:
    with database_of(store).write() as connection:  # another connection would leave bytes behind
        connection.execute("update session_memories set created_at = '2020' where id = ?", (memory_id,))


@pytest.mark.sqlite("PostgreSQL erases with VACUUM")
@pytest.mark.parametrize("way", ["delete_memory", "cleanup_old_memories"])
@pytest.mark.parametrize("tool", STORING, ids=[tool.name for tool in STORING])
async def test_deleted_text_names_and_vectors_are_erased_from_the_files(
    answered: Call, store: SessionMemoryStore, tmp_path: Path, tool: MemoryTool, way: str
) -> None:
    await answered("store_report", agent_id="a", session_id="s", content="It stays.")
    staying = vectors(tmp_path)
    arguments = marked_arguments(tool)
    memory_id = (await answered(tool.name, **arguments))["memory_id"]
    # Of a word in the full-text index the first letters may be those of the word before.
    going = [marker(name).encode()[2:] for name in arguments if name not in NOT_TEXT]
    going += [vector for vector in vectors(tmp_path) if vector not in staying]
    assert remains(tmp_path, going) == set(going)
    if way == "delete_memory":
        await answered(way, memory_id=memory_id)
    else:
        make_old(store, memory_id)
        assert (await answered(way, days_old=1000, dry_run=False))["memories_deleted"] == 1
    eventually(lambda: remains(tmp_path, going) == set())  # at once, unless something still reads
    assert remains(tmp_path, staying) == set(staying)
