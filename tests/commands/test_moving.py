"""export and import as commands; what they move is tested in test_transfer.py."""

import json
from pathlib import Path

import pytest

from commands.conftest import Run
from engines import contents, place_of

ITSELF = "memory.db is the memory itself: choose another file."
IN_FILE = pytest.mark.sqlite("the memory is a file")


@pytest.mark.parametrize("flags", [[], ["--vectors"]])
def test_a_memory_moves_to_another_file(flags: list[str], memory: Path, tmp_path: Path, run: Run) -> None:
    """After export and import it has the same texts and vectors; a second import finds everything stored."""
    made = run("export", "-o", "all.jsonl", *flags)
    assert made.code == 0
    with_them = "with" if flags else "without"
    assert made.out == f"Wrote 5 memories {with_them} vectors to {tmp_path / 'all.jsonl'}\n"
    target = place_of(tmp_path / "copy.db")
    assert run("import", "all.jsonl", *target) == (0, "Added 5 memories; 0 already existed.\n", "")
    assert run("import", "all.jsonl", *target).out == "Added 0 memories; 5 already existed.\n"
    assert contents(tmp_path / "copy.db") == contents(memory)
    assert run("stats", *target, "--json").json["without_vectors"] == 0
    assert run("doctor", *target).code == 0


@pytest.mark.usefixtures("memory")
def test_a_session_is_forked_through_a_pipe(run: Run) -> None:
    """`export SESSION | import - --as NEW` adds it under another id."""
    lines = run("export", "outage", "--vectors").out
    assert json.loads(lines.splitlines()[0])["session_id"] == "outage"
    forked = run("import", "-", "--as", "fork", "--json", stdin=lines.encode()).json
    assert (forked["added"], forked["skipped"], forked["orphaned"]) == (3, 0, 0)
    assert run("stats", "fork", "--json").json["total_memories"] == 3


@pytest.mark.usefixtures("memory")
def test_json_says_what_was_written(tmp_path: Path, run: Run) -> None:
    """One object."""
    said = run("export", "outage", "-o", "x.jsonl", "--json").json
    size = (tmp_path / "x.jsonl").stat().st_size
    assert said == {
        "success": True,
        "memories": 3,
        "with_vectors": False,
        "file": str(tmp_path / "x.jsonl"),
        "bytes": size,
    }


@pytest.mark.usefixtures("memory")
def test_without_a_model_texts_are_imported_and_a_message_says_so(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memories are there to be found by their words, and the message says what to do."""
    run("export", "-o", "all.jsonl")
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL", "all-MiniLM-L6-v2")
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL_PATH", str(tmp_path))
    ended = run("import", "all.jsonl", *place_of(tmp_path / "copy.db"))
    assert ended.code == 0
    assert "5 memories without vectors: run `vector-memory backfill`." in ended.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["export", "nobody"], "Nothing is stored in this session"),
        pytest.param(["export", "-o", "memory.db"], ITSELF, marks=IN_FILE),
        pytest.param(["export", "-o", "memory.db", "--overwrite"], ITSELF, marks=IN_FILE),
        pytest.param(["report", "outage", "-o", "memory.db", "--overwrite"], ITSELF, marks=IN_FILE),
        (["import", "nope.jsonl"], "nope.jsonl cannot be read (No such file or directory)"),
        (["import", "/dev/zero"], "/dev/zero cannot be read (it is a device, not a file)"),
        pytest.param(["import", "memory.db"], "The database is not one of the tagged memory server", marks=IN_FILE),
    ],
)
def test_a_refusal_is_one_sentence_and_ends_with_1(words: list[str], sentence: str, memory: Path, run: Run) -> None:
    """On standard error, and nothing is changed."""
    before = contents(memory)
    ended = run(*words)
    assert (ended.code, ended.out) == (1, "")
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert contents(memory) == before


@pytest.mark.usefixtures("memory")
def test_an_export_that_an_editor_gave_a_byte_order_mark_is_imported(tmp_path: Path, run: Run) -> None:
    run("export", "-o", "all.jsonl")
    (tmp_path / "all.jsonl").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "all.jsonl").read_bytes())
    assert run("import", "all.jsonl", *place_of(tmp_path / "copy.db")).out.startswith("Added 5 memories")


@pytest.mark.usefixtures("memory")
def test_a_refused_export_makes_no_new_memory(tmp_path: Path, run: Run) -> None:
    """It is checked before anything is stored."""
    run("export", "-o", "all.jsonl")
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join((tmp_path / "all.jsonl").read_bytes().splitlines(keepends=True)[:-1]))
    ended = run("import", cut, "--database-path", tmp_path / "new.db")
    assert ended.code == 1
    assert "The header says 5 memories, but there are 4" in ended.err
    assert not (tmp_path / "new.db").exists()


@IN_FILE
@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("command", [["backup"], ["restore"], ["export", "--output"], ["import"]], ids=" ".join)
def test_a_path_with_a_variable_that_nobody_expanded_is_refused(command: list[str], run: Run) -> None:
    expected = '"${FOLDER}/a" is not a usable path: it contains a ${variable} that the client did not expand.'
    answer = run(*command, "${FOLDER}/a")
    assert (answer.code, answer.err) == (2, f"vector-memory: {expected}\n")
