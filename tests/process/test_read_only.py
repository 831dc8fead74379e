"""A real server that was told to read only."""

import hashlib
from pathlib import Path

from servers import Server
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

PLACE = {"agent_id": "a", "session_id": "s", "session_iter": 1}


def test_a_reading_server_answers_and_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    """Searching, reading and whatever it does beside that changes no byte, and a store is refused as unknown."""
    with SessionMemoryStore(tmp_path / "memory.db", Settings(embedding_model="toy")) as writing:
        memory_id = writing.store_memory("report", "The cache is cold.", **PLACE).memory_id
    before = hashlib.sha256((tmp_path / "memory.db").read_bytes()).hexdigest()
    with Server(tmp_path, VECTOR_MEMORY_READ_ONLY="true") as reading:
        found = reading.hello().call("search_reports_specific_chunks", query="cold cache")
        content = reading.call("get_memory_by_id", memory_id=memory_id)
        refused = reading.call("store_report", content="Another one.", **PLACE)
        reading.end("SIGTERM")
    assert found["total_results"] == 1
    assert content["success"]
    assert not refused["success"]
    assert hashlib.sha256((tmp_path / "memory.db").read_bytes()).hexdigest() == before
