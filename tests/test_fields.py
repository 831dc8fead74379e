"""What a memory has is written down once (`domain.fields`), so that a new column is a change of a few files."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

import vector_memory
from clusters import schema_url

PACKAGE, TESTS = Path(vector_memory.__file__).parent, Path(__file__).parent
FIFTH = [1, 4, 7, 10, 13, 16]
"""The memories of importance 5: one of each kind."""

ROW = """\
    F("importance", T.NUMBER, partial(validation.check_range, "importance", minimum=1, maximum=5),
      stored="1 to 5", asked="Filter", flag=("importance", "Only this importance.")),
"""
EDITS = {
    "domain/fields.py": [("REVISION = 3", " + 1"), ('flag=("task", "Only this task.")),\n', ROW)],
    "domain/__init__.py": [
        ("    task_code: str | None\n", "    importance: int | None\n"),
        ("    task_code: str | None = None\n", "    importance: int | None = None\n"),
    ],
    "storage/records.py": [("    expires_at: str | None = None\n", "    importance: int | None = None\n")],
    "answers/models.py": [("    updated_at: Time\n", "    importance: int | None = unless_empty()\n")],
    "upkeep/export_lines.py": [("    description: str | None = None\n", "    importance: int | None = None\n")],
}
"""What follows a text, by file."""

IN_TURN = """
import json, sys
from vector_memory.cli.main import main

for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
    print(end=chr(0))
"""
"""Several commands in one process, each with a zero after what it prints."""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Return what runs Python with a copy of the package that has a column `importance`."""
    copy = tmp_path / "copy/vector_memory"
    shutil.copytree(PACKAGE, copy)  # with what is compiled
    for file, edits in EDITS.items():
        text = (copy / file).read_text()
        for before, after in edits:
            assert before in text
            text = text.replace(before, before + after)
        (copy / file).write_text(text)
    early = copy / "server/early.json"  # scripts/make_docs.py would describe the parameter there
    early.write_text(json.dumps(json.loads(early.read_text()) | {"configurations": {}}))
    path = f"{copy.parent}{os.pathsep}{TESTS}"
    environment = os.environ | {"PYTHONPATH": path, "VECTOR_MEMORY_EMBEDDING_MODEL": "toy"}

    def run(*words: object) -> str:
        command = [sys.executable, *map(str, words)]
        ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_column_that_every_read_filters_is_a_change_of_five_files(
    engine: str, run: Callable[..., str], tmp_path: Path
) -> None:
    """Tools and commands store it, filter by it, show it, and carry it into another memory."""
    assert len(EDITS) <= 5
    places = [tmp_path / f"{name}.db" if engine == "sqlite" else schema_url(f"test_{uuid4().hex}") for name in "ab"]
    flag = "--database-path" if engine == "sqlite" else "--database-url"
    seen = json.loads(run(TESTS / "with_importance.py", places[0]))
    assert len(seen["stores"]) == 7
    assert "importance must be an integer from 1 to 5." in seen["refused"]
    assert seen["shown"] == [5, 2, None]
    assert seen["listed"] == FIFTH
    assert seen["counted"] == len(FIFTH)
    for search, ids in seen["found"].items():
        assert ids, search
        assert set(ids) <= set(FIFTH), search
    commands = [
        ["export", "-o", "all.jsonl", flag, places[0]],
        ["import", "all.jsonl", flag, places[1]],
        *([*words, "--importance", "5", "--json", flag, places[1]] for words in (["list"], ["search", "lemur"])),
    ]
    *_, listed, searched = run("-c", IN_TURN, json.dumps(commands, default=str)).split("\0")[:-1]
    for printed in map(json.loads, (listed, searched)):
        found = {one.get("memory_id") or one["id"] for one in printed.get("entries") or printed["results"]}
        assert found, printed
        assert found <= set(FIFTH), printed
