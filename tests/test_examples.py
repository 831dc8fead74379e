"""The examples run, and do what their first lines say."""

import os
import subprocess
import sys
from pathlib import Path

from vector_memory.domain import Scope
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

EXAMPLES = Path(__file__).parents[1] / "examples"
QUIET = {"LOG_LEVEL": "WARNING", "LOG_SLOW_QUERY_THRESHOLD": "600"}
AGENTS = ("main-orchestrator", "researcher", "writer", "reviewer")


def test_three_agents_with_separate_servers_hand_over_a_task(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "three_agents.py", tmp_path / "memory.db"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **QUIET, "VECTOR_MEMORY_EMBEDDING_MODEL": "toy"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = {agent: [line for line in done.stdout.splitlines() if line.strip().startswith(agent)] for agent in AGENTS}
    assert sum(map(len, said.values())) == len(done.stdout.splitlines())
    assert any("sees report_observation 5 by reviewer" in line for line in said["main-orchestrator"])
    assert any("sees report 3 by researcher" in line for line in said["writer"])
    assert any("sees report 4 by writer" in line for line in said["reviewer"])
    with SessionMemoryStore(tmp_path / "memory.db", Settings(embedding_model="toy")) as store:
        stored = store.search_changes(Scope(session_id="slow-checkout")).results
    assert [(memory.agent_id, memory.memory_type) for memory in stored] == [
        ("main-orchestrator", "input_prompt"),
        ("main-orchestrator", "session_context"),
        ("researcher", "report"),
        ("writer", "report"),
        ("reviewer", "report_observation"),
        ("main-orchestrator", "session_context"),
    ]
    assert stored[4].report_id == stored[3].id
