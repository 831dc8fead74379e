"""Behaviour that only real processes show: closed pipes, and modules that are not imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands.conftest import TOY
from forked import COMMAND, Forked, finished
from servers import SLOW_MODEL
from vector_memory.store import SessionMemoryStore


def test_a_closed_pipe_ends_the_command_quietly(memory: Path) -> None:
    """`vector-memory export | head` says nothing more."""
    variables = {**os.environ, "VECTOR_MEMORY_DATABASE_PATH": str(memory)}
    with Forked(COMMAND, "export", "--vectors", env=variables) as child:
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.wait() == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("words", [["export"], ["list"], ["show", "1", "--raw"], ["stats", "--json"]], ids=" ".join)
def test_output_to_a_full_disk_ends_the_command_with_a_message(words: list[str], memory: Path) -> None:
    variables = {**os.environ, "VECTOR_MEMORY_DATABASE_PATH": str(memory)}
    with (
        Path("/dev/full").open("w") as full,
        Forked(COMMAND, *words, env=variables, into={1: full}, text=True) as child,
    ):
        _, errors = child.communicate()
    assert "The output cannot be written (No space left on device): free some space." in errors
    assert (child.returncode, errors.count("\n")) == (1, 1)


@pytest.mark.parametrize("words", [["show", "1"], ["show", "1", "--json"], ["search", "Zoë"]], ids=" ".join)
def test_characters_that_a_terminal_cannot_show_do_not_fail_a_command(words: list[str], tmp_path: Path) -> None:
    """Where only ASCII can be printed everything else is escaped, in JSON as JSON does it."""
    with SessionMemoryStore(tmp_path / "x.db", TOY) as store:
        store.store_memory("system_memory", "Zoë → 漢字", session_id="s")
    variables = {"DATABASE_PATH": str(tmp_path / "x.db"), "EMBEDDING_MODEL": "toy"}
    environment = {f"VECTOR_MEMORY_{name}": value for name, value in variables.items()} | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-P", "-m", "vector_memory", *words]
    ended = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\\u6f22" in ended.stdout
    if "--json" in words:
        assert json.loads(ended.stdout)["content"] == "Zoë → 漢字"


def test_a_search_waits_for_a_model_that_loads_slowly(tmp_path: Path) -> None:
    """The answer does not depend on how fast the machine is: it is compared by meaning, and the process ends well."""
    variables = {
        "VECTOR_MEMORY_DATABASE_PATH": str(tmp_path / "x.db"),
        "VECTOR_MEMORY_EMBEDDING_MODEL": "slow",
        "PYTHONPATH": str(SLOW_MODEL),
        "SLOW_LOADING": "2",
    }
    ingest, search = (
        finished(*words, given="The nightly job waited for a lock.", env={**os.environ, **variables}, cwd=tmp_path)
        for words in (["ingest", "-", "--session", "s"], ["search", "nightly", "--json"])
    )
    assert (ingest.returncode, ingest.stderr) == (0, "")
    assert (search.returncode, search.stderr) == (0, "")
    answer = json.loads(search.stdout)
    assert [result["similarity"] is None for result in answer["results"]] == [False]
    assert "words only" not in answer["message"]


@pytest.mark.parametrize("words", [["sessions"], ["stats"], ["timeline", "outage"], ["show", "2"]], ids=" ".join)
def test_showing_imports_neither_server_nor_model(words: list[str], memory: Path) -> None:
    """What only searching, storing and serving need is not waited for."""
    code = (
        "import json, sys\n"
        "from vector_memory.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.stderr.write(json.dumps(sorted(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *words, "--database-path", str(memory)], capture_output=True, text=True, check=True
    )
    assert ended.stdout
    imported = {name.removeprefix("vector_memory.") for name in json.loads(ended.stderr)}
    unwanted = {"store", "search", "embedding", "chunking", "server.app", "fastmcp", "onnxruntime", "numpy"}
    assert not unwanted & imported
