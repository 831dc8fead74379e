"""What a server does before its first answers."""

import json
import subprocess
import sys
from pathlib import Path

from tool_calls import SESSION_TOOLS

UNHURRIED = """
from vector_memory.server import app
from vector_memory.cli.main import main
app.SECONDS_UNASKED = 3600  # on a busy machine, what it opens unasked would come before the end of input
main()
"""
LINES = [
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
]


def test_the_first_list_of_tools_waits_for_no_import_that_it_does_not_need(tmp_path: Path) -> None:
    program = [
        sys.executable,
        "-X",
        "importtime",
        "-c",
        UNHURRIED,
        "serve",
        "--database-path",
        str(tmp_path / "memory.db"),
    ]
    lines = "".join(json.dumps(line) + "\n" for line in LINES)
    done = subprocess.run(program, input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers[-1]["result"]["tools"]) == len(SESSION_TOOLS)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "vector_memory.server.app" in imported
    late = {"requests", "key_value", "beartype", "onnxruntime", "tokenizers", "tiktoken", "langchain_text_splitters"}
    late |= {"numpy", "vector_memory.store", "vector_memory.search", "vector_memory.extras.teams.namespaces"}
    assert not imported & late
