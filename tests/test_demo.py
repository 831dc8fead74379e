"""The demo: the real server on real files, in separate processes."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from forked import finished
from vector_memory.cli.commands.search import excerpt_line, without_marks
from vector_memory.cli.demo import PROJECT_DOCS, PROJECT_QUESTIONS, found_files, print_next_steps
from vector_memory.cli.terminal import one_line
from vector_memory.errors import ConfigurationError

CATS = "# Animals\n\n## How the cat sleeps\n\nThe cat sleeps on the sofa all day.\n"
DOGS = "# Animals\n\n## Where the dog runs\n\nThe dog runs in the park every morning.\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two documents, one of them below, and five files that cannot be stored."""
    folder = tmp_path_factory.mktemp("demo") / "docs"
    (folder / "more").mkdir(parents=True)
    (folder / "cats.md").write_text(CATS)
    (folder / "more" / "dogs.markdown").write_text(DOGS)
    (folder / "more" / "twin.md").write_text(CATS)
    (folder / "blank.md").write_text(" \n")
    (folder / "bytes.md").write_bytes(b"\xff\xfe\xfa")
    (folder / "large.md").touch()
    os.truncate(folder / "large.md", 2**27)
    os.mkfifo(folder / "pipe.md")
    return folder


def demo(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return finished("demo", *words, env={**os.environ, "VECTOR_MEMORY_EMBEDDING_MODEL": "toy", **variables})


@pytest.fixture(scope="module")
def kept(folder: Path) -> Path:
    """Where the demo's memory is kept."""
    return folder.parent / "kept.db"


@pytest.fixture(scope="module")
def shown(folder: Path, kept: Path) -> str:
    """What the demo prints of the folder."""
    ended = demo(folder, "--database-path", kept)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_demo_stores_and_asks_at_each_grain(shown: str) -> None:
    """Files become reports, and a question at each grain finds the right one, with its file and headings."""
    assert "Stored 2 documents" in shown
    for grain in ("Chunks", "Sections", "Documents"):
        assert re.search(rf"^{grain}  (How the cat sleeps|Where the dog runs) +\d+ ms$", shown, re.MULTILINE)
    cats = r"[01]\.\d\d  cats\.md\n +Animals > How the cat sleeps\n +report .*\n +The cat"
    found = rf"^Chunks  How the cat sleeps .*\n\n{cats}"
    assert re.search(found, shown, re.MULTILINE)
    assert re.search(r"^Sections  Where the dog runs .*\n\n[01]\.\d\d  more/dogs\.markdown", shown, re.MULTILINE)


def test_output_is_plain_text_of_80_columns_without_a_terminal(shown: str) -> None:
    """A pipe gets no control codes and no long lines, but for the lines to copy."""
    assert "\x1b" not in shown
    assert max(map(len, shown.split("Next steps", maxsplit=1)[0].splitlines())) <= 80


def test_files_that_cannot_be_stored_are_named_with_the_reason(shown: str) -> None:
    """A twin, a file of other bytes and an empty file are skipped, and the rest is stored."""
    assert "not stored: more/twin.md: has the same text as cats.md" in shown
    assert "not stored: bytes.md: is not text in UTF-8" in shown
    assert "not stored: blank.md: content must not be empty" in shown
    assert "not stored: large.md: it is longer than 2,000,003 bytes" in shown
    assert "not stored: pipe.md: it is a named pipe, not a file" in shown


def test_the_last_step_is_one_command_that_connects_an_agent(kept: Path, shown: str, tmp_path: Path) -> None:
    """It can be run as it is printed."""
    (line,) = [line for line in shown.splitlines() if line.startswith("  vector-memory install")]
    words = shlex.split(line)
    assert words == ["vector-memory", "install", "claude", "--database-path", str(kept)]
    assert f'"{kept}"' in finished(*words[1:], "--project", "--dry-run", "--diff", cwd=tmp_path).stdout


def test_kept_memory_is_asked_again(folder: Path, kept: Path, shown: str) -> None:
    """With --database-path the memory stays: a second run finds its files stored. Own questions go to every grain."""
    assert f"The memory is kept in {kept}." in one_line(shown)
    asks = "--question", "the cat", "--question", "the sofa"
    again = demo(folder, "--database-path", kept, "--limit", 6, *asks).stdout
    assert "Storing 6 Markdown files (the first of 7; see --limit)" in one_line(again)
    assert "Stored 0 documents" in again
    assert "not stored: cats.md: was stored by an earlier run" in again
    asked = re.findall(r"^(Chunks|Sections|Documents)  (.*?)  +\d+ ms$", again, re.MULTILINE)
    grains = ("Chunks", "Sections", "Documents")
    assert asked == [(grain, question) for question in ("the cat", "the sofa") for grain in grains]
    assert len(re.findall(r"^[01]\.\d\d  cats\.md", again, re.MULTILINE)) == len(asked)


def test_without_a_model_the_demo_finds_words_and_says_so(folder: Path, tmp_path: Path) -> None:
    """The results are ranked by their words then, and have scores all the same."""
    variables = {"VECTOR_MEMORY_EMBEDDING_MODEL": "", "VECTOR_MEMORY_EMBEDDING_MODEL_PATH": str(tmp_path)}
    ended = demo(folder, "--question", "cat sleeps", **variables)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "There is no embedding model, so texts are found by words only" in one_line(ended.stdout)
    assert re.search(r"^0\.\d\d  cats\.md", ended.stdout, re.MULTILINE)


def test_a_temporary_memory_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A deleted memory is not searched for, and the command does not name it."""
    print_next_steps("uv run main.py", None)
    said = capsys.readouterr().out
    assert "The demo's memory was temporary." in said
    assert "  uv run main.py install claude\n" in said


def test_folder_without_markdown_is_refused(tmp_path: Path) -> None:
    """No files, no demo: one sentence, and 2."""
    ended = demo(tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (f"vector-memory: There are no Markdown files in {tmp_path}: choose another folder.\n")


def test_memory_that_cannot_be_opened_is_explained(folder: Path, tmp_path: Path) -> None:
    """What the server answers is what the demo ends with."""
    (tmp_path / "notes.db").write_text("These are notes, and long enough for a header. " * 100)
    ended = demo(folder, "--database-path", tmp_path / "notes.db")
    assert ended.returncode == 1
    assert ended.stderr == "vector-memory: The file is not an SQLite database: choose another --database-path.\n"


def test_the_projects_own_pages_answer_the_questions_but_the_last_one_and_the_first_one_soon() -> None:
    shown = finished("demo", cwd=PROJECT_DOCS).stdout
    first, others = shown.split("Stored 10 documents")
    asked = r"^(Chunks|Sections|Documents)  (.*?) +\d+ ms\n\n(?:0\.\d\d +)?(.*?) *$"
    found = re.findall(asked, first, re.MULTILINE), re.findall(asked, others, re.MULTILINE)
    pages = ("questions.md", "reliability.md", "orchestrators.md", "No match: nothing here answers the question.")
    grains = ("Chunks", "Sections", "Documents", "Chunks")
    assert found[0] + found[1] == list(zip(grains, PROJECT_QUESTIONS, pages, strict=True))
    assert len(found[0]) == 1


def test_default_is_the_projects_own_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder the demo has pages of this project's docs, and of no other's, and questions that they answer."""
    subject = found_files(None)
    assert subject.folder == PROJECT_DOCS
    assert subject.questions == PROJECT_QUESTIONS
    assert len([file for file in subject.files if file.is_file()]) == 10

    (tmp_path / "index.md").touch()  # beside an installed package, as with `pip install --target`
    monkeypatch.setattr("vector_memory.cli.demo.PROJECT_DOCS", tmp_path)
    assert found_files(None).folder == Path.cwd()


def test_hidden_and_installed_folders_are_left_out(tmp_path: Path) -> None:
    """Only what somebody would call the folder's own documents is stored, in a fixed order."""
    for name in ("b.md", "a.MD", ".git/x.md", "node_modules/y/z.md", "sub/c.md", "d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# x")
    subject = found_files(tmp_path)
    assert [file.relative_to(tmp_path).as_posix() for file in subject.files] == ["a.MD", "b.md", "sub/c.md"]


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    """A folder that is not there is named."""
    with pytest.raises(ConfigurationError, match=r"nowhere is not a folder"):
        found_files(tmp_path / "nowhere")


def test_questions_are_headings_of_different_files(tmp_path: Path) -> None:
    """Three of many files are asked about, each by its wordiest heading."""
    for number in range(7):
        (tmp_path / f"{number}.md").write_text(f"# Title\n\n## Longest heading {number}\n\n## Short\n")
    questions = found_files(tmp_path).questions
    assert questions == ["Longest heading 0", "Longest heading 2", "Longest heading 4"]


def test_document_without_headings_is_asked_by_its_name(tmp_path: Path) -> None:
    """There is always something to ask."""
    (tmp_path / "release-notes.md").write_text("No heading here.")
    assert found_files(tmp_path).questions == ["release notes"]


def test_an_excerpt_starts_at_the_words_of_the_question() -> None:
    """Of a long text the part is shown that shares most words with the question."""
    text = "# Pets\n\nThe cat sleeps. " + "It dreams of mice. " * 20 + "The doctor visits the parrot. Nothing follows."
    assert excerpt_line(text, {"doctor", "parrot"}, 200) == "… The doctor visits the parrot. Nothing follows."
    assert excerpt_line(text, {"something"}, 30) == "The cat sleeps. It dreams of …"


def test_text_cannot_steer_the_terminal() -> None:
    """Escape sequences of a stored file are not sent to the terminal."""
    assert one_line("a\x1b[2Jb\r\nc") == r"a\x1b[2Jb\r c"
    assert without_marks("<!-- gone -->**bold** `code` > x") == " bold code > x"
    table = "Before.\n\n| a | `--b` |\n|:---|---:|\n| c | -1 |\n\nAfter."
    assert without_marks(table) == "Before.\n\n · a · --b · c · -1 · \n\nAfter."
