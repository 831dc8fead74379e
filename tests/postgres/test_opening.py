"""A memory by its URL: for the library, for commands and for a server, as a memory by its path."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from clusters import Cluster
from forked import finished
from over_http.calling import answer_in, post
from over_http.conftest import ALL_TOOLS, SETTINGS, running
from vector_memory import SessionMemoryStore
from vector_memory.server.http.serving import application
from vector_memory.settings import DatabaseUrl, HttpOptions

REPORT = "# Outage\n\nThe ledger was locked.\n\n## Cause\n\nThe nightly job waited for a lock that a migration held.\n"

Run = Callable[..., str]


@pytest.fixture
def run(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Run:
    """Return what runs a command on a new schema and returns its output."""
    (tmp_path / "outage.md").write_text(REPORT)
    monkeypatch.setenv("VECTOR_MEMORY_DATABASE_URL", f"{cluster.url()}&schema={request.node.name[:40].lower()}")
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL", "toy")

    def run_command(*words: object, code: int = 0) -> str:
        ended = finished(*words, cwd=tmp_path)
        assert ended.returncode == code, ended.stderr
        return ended.stderr if code else ended.stdout

    return run_command


def test_commands_work_on_a_database_as_on_a_file(run: Run, tmp_path: Path) -> None:
    run("ingest", "outage.md", "--session", "s")
    assert "ledger was locked" in run("search", "ledger lock")
    listed = json.loads(run("list", "--json"))["entries"]
    assert [memory["title"] for memory in listed] == ["Outage"]
    assert REPORT.strip() in run("show", listed[0]["memory_id"])
    for command in (["sessions"], ["timeline", "s"], ["backfill"], ["report", "s", "-o", tmp_path / "page.html"]):
        run(*command)
    run("export", "-o", "all.jsonl")
    assert "0 memories; 1 already existed" in run("import", "all.jsonl")
    assert "Deleted report" in run("delete", listed[0]["memory_id"], "--yes")
    assert json.loads(run("stats", "--json"))["total_memories"] == 0


def test_what_only_a_file_can_do_is_refused_with_what_to_do_instead(run: Run) -> None:
    assert "pg_dump --format=custom --schema=test_what_only_a_file" in run("backup", "copy.db", code=2)
    assert "pg_restore" in run("restore", "copy.db", code=2)


def test_a_command_that_looks_creates_no_memory(run: Run) -> None:
    for _ in range(2):
        assert "vector-memory database prepare" in run("stats", code=1)


def test_documents_are_written_in_the_folder_of_the_project(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))
    with SessionMemoryStore(f"{cluster.url()}&schema=documents", SETTINGS) as store:
        stored = store.store_memory("report", REPORT, agent_id="a", session_id="s")
        assert stored.memory_id is not None
        written = store.write_document_to_file(stored.memory_id, "outage.md")
    assert written.file_path == str(tmp_path / "memory" / "exports" / "outage.md")


def test_one_memory_is_served_over_http_without_tokens(cluster: Cluster, tmp_path: Path) -> None:
    address = DatabaseUrl.parse(f"{cluster.url()}&schema=http")
    with running(application(address, SETTINGS, [tmp_path], ALL_TOOLS, HttpOptions(http=True))) as url:
        report = {"agent_id": "a", "session_id": "s", "content": REPORT}
        assert answer_in(post(url, tool="store_report", arguments=report))["success"]
        assert answer_in(post(url))["total_sessions"] == 1
        assert httpx2.get(url.replace("/mcp", "/healthz")).status_code == 200
