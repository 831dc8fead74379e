"""The real server process, spoken to over standard input and output as clients do."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tool_calls import ADDED_TOOLS
from waiting import PATIENCE

pytestmark = pytest.mark.anyio

MAIN = Path(__file__).parent.parent.parent / "main.py"
CONTRACT = json.loads((MAIN.parent / "tests" / "contract" / "session_tools.json").read_text())["tools"]

IN_SESSION = {"session_id": "s", "session_iter": "v1"}
BY_AGENT = {"agent_id": "a", "session_id": "s"}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "store_session_context": IN_SESSION | {"content": "The state."},
    "store_input_prompt": IN_SESSION | {"content": "The prompt."},
    "store_system_memory": BY_AGENT | {"content": "make database"},
    "store_report": BY_AGENT | {"content": "# Storage\n\nThe database is one file: naïve, 数据, 🙂."},
    "store_report_observation": BY_AGENT | {"content": "It is true."},
    "store_working_memory": BY_AGENT | {"content": "Working on the database."},
    "store_knowledge_base": {"agent_id": "a", "title": "T", "content": "A database."},
    "search_session_context": {"session_id": "s"},
    "search_input_prompts": {"session_id": "s"},
    "load_session_context_for_task": IN_SESSION,
    "expand_chunk_context": {"chunk_id": 1},
    "reconstruct_document": {"memory_id": 4},
    "get_memory_by_id": {"memory_id": 4},
    "write_document_to_file": {"memory_id": 4, "output_path": "report.md"},
    "get_session_stats": {"session_id": "s"},
    "list_sessions": {},
    "delete_memory": {"memory_id": 5},
    "cleanup_old_memories": {"days_old": 0, "dry_run": False},
}
"""Every other tool is a search and takes a query."""

DISCOVER = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
HELLOS = {"2025-11-25": INITIALIZE, "2026-07-28": DISCOVER}


def command(tmp_path: Path) -> list[str]:
    """Return the command line of a server on a database of its own."""
    return [sys.executable, str(MAIN), "serve", "--database-path", str(tmp_path / "memory.db")]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a server with the toy engine."""
    return {**os.environ, "VECTOR_MEMORY_EMBEDDING_MODEL": "toy", "VECTOR_MEMORY_LOG_LEVEL": "WARNING", **more}


def started(tmp_path: Path, **more: str) -> subprocess.Popen[bytes]:
    """Start a server in `tmp_path`."""
    return subprocess.Popen(
        command(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**more),
        cwd=tmp_path,
    )


def send(server: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    """Write one message to a server."""
    server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()


def receive(server: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Read one message of a server."""
    message: dict[str, Any] = json.loads(server.stdout.readline())
    return message


async def test_every_tool_works_over_stdio(tmp_path: Path, era: str) -> None:
    """Every tool can be called in a real server process, in both eras, and answers what the contract says."""
    first, *arguments = command(tmp_path)
    transport = StdioTransport(first, arguments, env=environment(), keep_alive=False, log_file=tmp_path / "log")
    async with Client(transport, mode=era) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert set(names) == {*CONTRACT, *ADDED_TOOLS}
        for name in CONTRACT:
            answer = await client.call_tool(name, ARGUMENTS.get(name, {"query": "database"}))
            assert answer.structured_content["success"] is True, name
            assert set(answer.structured_content) >= set(CONTRACT[name]["result_keys"]), name
    assert "🙂" in (tmp_path / "exports" / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("hello", HELLOS.values(), ids=HELLOS)
def test_stdout_carries_protocol_only(tmp_path: Path, hello: dict[str, Any]) -> None:
    """Standard output holds only JSON-RPC, one answer a line; at end of input the server ends well."""
    with started(tmp_path) as server:
        send(server, hello)
        answer = receive(server)
        rest, errors = server.communicate(timeout=PATIENCE)
    assert (answer["id"], answer["jsonrpc"]) == (1, "2.0")
    assert "instructions" in answer["result"]
    assert (rest, server.returncode) == (b"", 0)
    assert errors == b""
