"""Who read, found, recalled or changed a memory of this user, if the setting says so."""

import itertools
import json
from pathlib import Path

import pytest

from forked import finished
from servers import Server
from waiting import eventually

pytestmark = pytest.mark.sqlite("its servers share a file")

TEXT = "The deploy tool needs the flag --zanzibar on every machine."
QUESTION = "Which flag does the deploy tool need on every machine?"


def lines(memory: Path, *words: str) -> list[dict[str, object]]:
    done = finished("audit", *words, "--json", "--database-path", memory)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def calls(memory: Path, number: int) -> list[object]:
    return [line["call"] for line in lines(memory, "--memory", str(number))]


def prompt(server: Server, session: str) -> str:
    fields = {"session_id": session, "prompt": QUESTION}
    return json.dumps(server.request("tools/call", name="hook_prompt", arguments=fields)["result"]["content"])


def test_the_log_says_who_read_found_recalled_and_changed_a_memory(tmp_path: Path) -> None:
    with Server(tmp_path, VECTOR_MEMORY_AUDIT="true", VECTOR_MEMORY_RECALL="all") as server:
        server.hello().call("store_report", session_id="a", agent_id="scout", content=TEXT)
        server.call("store_report", session_id="a", agent_id="scout", content="Nothing of interest.")
        server.call("search_reports_specific_chunks", query="zanzibar")
        server.call("get_memory_by_id", memory_id=1)
        server.call("get_memory_by_id", memory_id=2)
        server.request("resources/read", uri="memory://memories/1")
        sessions = map("b-{}".format, itertools.count())
        eventually(lambda: "zanzibar" in prompt(server, next(sessions)))
        server.call("supersede_memories", memory_id=2, older_ids=[1])
        server.call("delete_memory", memory_id=1)
        known = ["store_report", "search_reports_specific_chunks", "get_memory_by_id"]
        eventually(lambda: {"recall", "recap"} & set(map(str, calls(server.path, 1))))
        found = calls(server.path, 1)
        assert [one for one in found if one in known] == known
        assert {"supersede_memories", "delete_memory", "resources/read"} <= set(map(str, found))
        assert calls(server.path, 2).count("get_memory_by_id") == 1
        (read,) = (line for line in lines(server.path, "--memory", "1") if line["call"] == "get_memory_by_id")
        assert (read["ids"], read["error"]) == ({"client": ["test"], "session": ["a"], "memory_id": [1]}, None)
        told = next(line for line in lines(server.path, "--memory", "1") if line["call"] in ("recall", "recap"))
        assert str(told["ids"]).startswith("{'client': ['test'], 'session': ['b-")
    logged = b"".join(file.read_bytes() for file in (tmp_path / "memory.db-audit").rglob("*.jsonl"))
    assert b"zanzibar" not in logged
    assert b"deploy" not in logged


def test_nothing_is_recorded_unless_the_setting_says_so(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        server.hello().call("store_report", session_id="a", agent_id="scout", content=TEXT)
        assert "VECTOR_MEMORY_AUDIT=true" in finished("audit", "--database-path", server.path).stderr
    assert [file.name for file in tmp_path.iterdir() if "audit" in file.name] == []
