"""ingest: which files, with which titles, and what it reports about those that are not stored."""

import os
from pathlib import Path
from typing import Any

import pytest

from commands.conftest import TOY, Run
from vector_memory.cli.commands import ingestion as ingesting
from vector_memory.store import SessionMemoryStore


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder with files of several kinds."""
    files = {
        "a.md": b"Before.\n\n# Lease *rules*\n\nA lease lasts.",
        "sub/b.txt": b"\xef\xbb\xbfwords without a heading",
        "sub/c.py": b"print()",
        ".hidden/d.md": b"# Hidden",
        "node_modules/e.md": b"# Foreign",
    }
    for name, data in files.items():
        file = tmp_path / "notes" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return tmp_path / "notes"


def stored(path: Path) -> list[dict[str, Any]]:
    """Return the memories of a file."""
    with SessionMemoryStore(path, TOY, read_only=True) as store:
        count = store.get_memory_stats().total_memories
        entries = [store.get_memory_by_id(number).memory for number in range(1, count + 1)]
    return [entry.model_dump() for entry in entries if entry]


def test_a_text_is_stored_as_it_is_in_the_session_of_the_project_and_the_day(tmp_path: Path, run: Run) -> None:
    ended = run("store", "-5 degrees is too cold.", "--title", "Cold", "--tags", "x")
    assert ended.out.startswith(f"Stored memory 1 in session {tmp_path.name}-")
    run("store", "Deploy on Tuesdays.", "--kind", "knowledge_base", "--title", "Deployments", "--category", "rules")
    first, second = stored(tmp_path / "memory.db")
    assert [first[name] for name in ("content", "title", "agent_id", "tags")] == [
        "-5 degrees is too cold.", "Cold", "command-line", ["x"],
    ]  # fmt: skip
    assert (second["memory_type"], second["session_id"]) == ("knowledge_base", None)
    assert run("store", "-5 degrees is too cold.").code == 1
    assert run("store").err.startswith("vector-memory: TEXT is required: ")


@pytest.mark.usefixtures("notes")
def test_a_folder_is_stored_with_titles_and_sources(tmp_path: Path, run: Run) -> None:
    """Markdown and text below it, each under its first heading or its name, without hidden and foreign folders."""
    ended = run("ingest", "notes", "--session", "s", "--agent", "me", "--iter", "v3", "--task", "t", "--tags", "x")
    assert ended.out.startswith("Stored 2 files in session s; 0 already stored; 0 failed.\n")
    assert (ended.code, ended.err) == (0, "")
    first, second = stored(tmp_path / "memory.db")
    assert (first["title"], first["metadata"]) == ("Lease rules", {"root": str(tmp_path), "source": "notes/a.md"})
    assert (second["title"], second["metadata"]) == ("b", {"root": str(tmp_path), "source": "notes/sub/b.txt"})
    assert second["content"] == "words without a heading"
    for entry in (first, second):
        given = [entry[name] for name in ("memory_type", "session_id", "agent_id", "session_iter", "task_code", "tags")]
        assert given == ["report", "s", "me", 3, "t", ["x"]]


def test_what_the_front_matter_says_becomes_the_memorys(tmp_path: Path, run: Run) -> None:
    """Its title, its tags beside those of the command, and its date as the memory's time, though not a future one."""
    front = "---\n# comment\ntitle: The manual\ntags: [setup, docs]\ndate: {}\n---\n\n## Install\n\nWords.\n"
    (tmp_path / "a.md").write_text(front.format("2024-03-05"))
    (tmp_path / "b.md").write_text(front.format("2999-03-05"))
    assert run("ingest", "a.md", "b.md", "--session", "s", "--tags", "docs").code == 0
    first, second = stored(tmp_path / "memory.db")
    assert (first["title"], first["tags"]) == ("The manual", ["docs", "setup"])
    assert first["created_at"].startswith("2024-03-05T00:00:00")
    assert second["created_at"] < "2999"


def test_a_text_file_is_named_by_its_file_for_its_hashes_begin_comments(tmp_path: Path, run: Run) -> None:
    (tmp_path / "setup.txt").write_text("# install the packages\napt install vim\n")
    run("ingest", "setup.txt", "--session", "s")
    assert stored(tmp_path / "memory.db")[0]["title"] == "setup"


@pytest.mark.usefixtures("notes")
def test_with_another_model_than_the_memorys_the_advice_is_to_recompute_its_vectors(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not a backfill, which would refuse: in every command that meets memories without vectors."""
    run("ingest", "-", "--session", "s", stdin=b"First.")
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_DIM", "64")
    run("export", "-o", "all.jsonl")
    ended = run("ingest", "notes", "--session", "t")
    assert ended.code == 0
    others = [run("import", "all.jsonl", "--as", "u").out, run("search", "words").out]
    for said in (ended.out, *others):
        assert "vector-memory reembed" in " ".join(said.split())
        assert "backfill" not in said
    assert "2 memories without vectors. The stored vectors" in " ".join(ended.out.split())


@pytest.mark.usefixtures("notes")
def test_without_a_model_the_advice_is_to_get_it_and_to_compute_the_vectors(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL", "all-MiniLM-L6-v2")
    monkeypatch.setenv("VECTOR_MEMORY_EMBEDDING_MODEL_PATH", str(tmp_path))
    said = " ".join(run("ingest", "notes", "--session", "s").out.split())
    assert "does not contain model.onnx" in said
    assert "2 memories without vectors: run `vector-memory backfill`." in said


@pytest.mark.usefixtures("notes")
def test_stored_files_are_skipped(run: Run) -> None:
    """The same command again stores nothing and names the memories that are there."""
    run("ingest", "notes", "--session", "s")
    again = run("ingest", "notes", "--session", "s", "--json")
    assert again.code == 0
    assert (again.json["stored"], again.json["skipped"], again.json["failed"]) == (0, 2, 0)
    assert [file["memory_id"] for file in again.json["files"]] == [1, 2]


@pytest.mark.usefixtures("notes")
def test_an_interrupted_run_continues(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends it with 130 and says how to continue; stored files are kept."""
    read = ingesting.text_in_file

    def interrupted(file: str) -> str:
        if file.endswith("b.txt"):
            raise KeyboardInterrupt
        return read(file)

    monkeypatch.setattr(ingesting, "text_in_file", interrupted)
    assert run("ingest", "notes", "--session", "s") == (
        130,
        "",
        "vector-memory: interrupted; progress is saved: run the same command again to continue.\n",
    )
    monkeypatch.setattr(ingesting, "text_in_file", read)
    assert run("ingest", "notes", "--session", "s").out.startswith("Stored 1 file in session s; 1 already stored")
    assert len(stored(tmp_path / "memory.db")) == 2


def test_a_file_that_cannot_be_stored_does_not_stop_the_others(notes: Path, run: Run) -> None:
    """Each failure is named with its reason, and the exit code says that there was one."""
    (notes / "binary.md").write_bytes(b"\xff\xfe\x00")
    (notes / "empty.md").write_bytes(b"")
    (notes / "long.md").write_text("x" * 500_001)
    (notes / "gone.md").symlink_to("nowhere")
    (notes / os.fsdecode(b"caf\xe9.md")).write_text("A name that is not UTF-8.")
    ended = run("ingest", "notes", "--session", "s")
    assert ended.code == 1
    assert "Not stored: notes/binary.md: The file is not text in UTF-8: convert it first." in ended.out
    assert "Not stored: notes/empty.md: content must not be empty" in ended.out
    assert "Not stored: notes/long.md: content is 500,001 characters long" in ended.out
    assert "Not stored: notes/gone.md: It cannot be read (No such file or directory)." in ended.out
    assert "Stored 2 files in session s; 0 already stored; 5 failed." in ended.out
    assert "Not stored: notes/caf\\udce9.md: Its path is not UTF-8: rename it." in ended.out


def test_a_pipe_a_socket_or_a_device_in_a_folder_is_left_out(notes: Path, run: Run) -> None:
    os.mkfifo(notes / "pipe.md")
    (notes / "link.md").symlink_to("pipe.md")
    (notes / "endless.txt").symlink_to("/dev/zero")
    ended = run("ingest", "notes", "--session", "s")
    assert (ended.code, ended.err) == (0, "")
    for name in ("pipe.md", "link.md", "endless.txt"):
        assert f"Left out: notes/{name}: it is not a file, but a pipe, a socket or a device.\n" in ended.out
    assert "Stored 2 files in session s; 0 already stored; 0 failed." in ended.out


@pytest.mark.parametrize("word", ["notes/pipe.md", "notes/p*.md"])
def test_a_pipe_that_is_named_fails_and_the_others_are_stored(notes: Path, run: Run, word: str) -> None:
    os.mkfifo(notes / "pipe.md")
    ended = run("ingest", word, "notes/a.md", "--session", "s")
    assert ended.code == 1
    assert "Not stored: notes/pipe.md: It cannot be read (it is a named pipe, not a file)." in ended.out
    assert "Stored 1 file in session s; 0 already stored; 1 failed." in ended.out


def test_a_file_that_is_much_too_long_is_not_read_whole(notes: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    os.truncate(notes / "a.md", 2**27)
    ended = run("ingest", "notes", "--session", "s")
    refusal = "content is longer than 500,000 characters:"
    assert f"Not stored: notes/a.md: {refusal}" in ended.out
    assert "Stored 1 file in session s; 0 already stored; 1 failed." in ended.out
    monkeypatch.setattr(ingesting, "MAX_CONTENT_BYTES", 3)
    ended = run("ingest", "-", "--session", "s", stdin=b"more")
    assert f"Not stored: -: {refusal}" in ended.out


def test_a_folder_whose_name_is_not_utf_8_gives_no_session_and_no_source(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "a.md").write_text("Words.")
    assert "add --session with its name" in run("ingest", folder).err
    monkeypatch.chdir(folder)
    assert "Not stored: a.md: Its path is not UTF-8: rename it." in run("ingest", "a.md", "--session", "s").out


@pytest.mark.usefixtures("notes")
def test_patterns_files_and_folders_mean_each_file_once(run: Run) -> None:
    """A pattern that no shell has filled in is filled in; a file that is named twice is stored once."""
    files = run("ingest", "notes/**/*.txt", "notes/a.md", "notes", "--session", "s", "--json").json["files"]
    assert [file["file"] for file in files] == ["notes/sub/b.txt", "notes/a.md"]


def test_standard_input_is_stored(tmp_path: Path, run: Run) -> None:
    """A dash reads standard input; the memory has a title if the text has a heading."""
    assert run("ingest", "-", "--session", "s", "--kind", "input_prompt", stdin="Why, Zoë?".encode()).code == 0
    assert run("ingest", "-", "--session", "s", stdin=b"# Piped\n\nText.").code == 0
    prompt, report = stored(tmp_path / "memory.db")
    assert (prompt["memory_type"], prompt["content"], prompt["title"]) == ("input_prompt", "Why, Zoë?", None)
    assert (report["title"], report["metadata"]) == ("Piped", {})


@pytest.mark.usefixtures("notes")
def test_knowledge_needs_no_session(tmp_path: Path, run: Run) -> None:
    """It has a category instead, and its title as everything that is ingested."""
    assert run("ingest", "notes/a.md", "--kind", "knowledge_base", "--category", "locks").code == 0
    (entry,) = stored(tmp_path / "memory.db")
    assert (entry["session_id"], entry["metadata"]["category"]) == (None, "locks")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["-"], 2, "Memories of kind report belong to a session: add --session with its name."),
        (["-", "--sync", "--session", "s"], 2, "Standard input has no path by which --sync could recognize it"),
        (["--session", "s"], 2, "Specify what to store: files, folders, patterns, or - for standard input."),
        (["nope.md", "--session", "s"], 2, "nope.md matches no Markdown or text file: check the path."),
        (["notes", "--session", "s", "--iter", "two"], 1, "session_iter must be a number"),
        (["notes", "--kind", "tagged_memory"], 2, '--kind is "tagged_memory"; accepted: session_context, '),
        (["notes", "--session", "s", "--kind", "gossip"], 2, '--kind is "gossip"; accepted: session_context, '),
    ],
)
@pytest.mark.usefixtures("notes")
def test_a_problem_of_all_files_is_reported_once(
    words: list[str], code: int, sentence: str, tmp_path: Path, run: Run
) -> None:
    """Nothing is stored, and no memory is made."""
    ended = run("ingest", *words)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith(f"vector-memory: {sentence}")
    assert not (tmp_path / "memory.db").exists()
