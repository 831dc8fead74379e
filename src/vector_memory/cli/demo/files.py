"""The Markdown files that the demo stores, and suitable questions."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vector_memory.chunking import headings
from vector_memory.cli.flags import given_path
from vector_memory.domain.user_files import read_file
from vector_memory.domain.validation import MAX_CONTENT_BYTES
from vector_memory.errors import ConfigurationError
from vector_memory.files.walking import walk

SUFFIXES = {".md", ".markdown"}

PROJECT_DOCS = Path(__file__).parents[4] / "docs"
PROJECT_QUESTIONS = (
    "Does it need a network connection?",
    "Can I lose memories when the power goes out?",
    "How does one agent hand its work over to another?",
)
HEADINGS_ASKED = 3


@dataclass(frozen=True)
class Subject:
    """The demo's input: a folder, its Markdown files (`left_out` more exceed the limit), and questions."""

    folder: Path
    files: list[Path]
    left_out: int
    questions: Sequence[str]

    def title(self, file: Path) -> str:
        """Return the title of a stored file: its path in the folder."""
        return file.relative_to(self.folder).as_posix()


def find_subject(folder: Path | None, limit: int) -> Subject:
    """Return the files of `folder`; by default this project's docs, or else the current folder's.

    Raises ConfigurationError if there are none.
    """
    own_docs = folder is None and (PROJECT_DOCS / "index.md").is_file()
    folder = given_path(folder or (PROJECT_DOCS if own_docs else Path.cwd()))
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is not a folder: choose one that contains Markdown files.")
    found = list(_markdown_files(folder))
    if not found:
        raise ConfigurationError(f"There are no Markdown files in {folder}: choose another folder.")
    files = found[:limit]
    return Subject(folder, files, len(found) - len(files), PROJECT_QUESTIONS if own_docs else _asked_by_headings(files))


def _markdown_files(folder: Path) -> Iterator[Path]:
    """Yield the Markdown files below `folder`, sorted, without hidden ones, installed packages and what Git ignores."""
    found = walk(Path(os.path.realpath(folder)), lambda _path, _reason: None)
    yield from (folder / path for path in sorted(entry.path for entry in found) if path.suffix.lower() in SUFFIXES)


def _asked_by_headings(files: Sequence[Path]) -> list[str]:
    """Return headings as questions: the longest ones from files spread evenly over the folder."""
    candidates = [max(found, key=len) for file in files if (found := _headings_of(file))]
    step = max(len(candidates) / HEADINGS_ASKED, 1)
    return [candidates[int(step * number)] for number in range(min(HEADINGS_ASKED, len(candidates)))] or [
        files[0].stem.replace("-", " ").replace("_", " ")
    ]


def _headings_of(file: Path) -> list[str]:
    try:
        return [heading for heading in headings(read_file(file, MAX_CONTENT_BYTES).decode(errors="ignore")) if heading]
    except OSError:
        return []
