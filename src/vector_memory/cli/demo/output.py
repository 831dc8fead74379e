"""Output of the demo: fits 80 columns, plain text if standard output is not a terminal."""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from vector_memory.answers.models import CoarseSearchResult, FineSearchResult, MediumSearchResult, StoreMemoryResult
from vector_memory.cli.commands.search import excerpt_line, path_of, text_of_result
from vector_memory.cli.flags import given_path
from vector_memory.cli.terminal import one_line, score_column, status
from vector_memory.domain.text import counted
from vector_memory.domain.user_files import read_file
from vector_memory.domain.validation import MAX_CONTENT_BYTES
from vector_memory.errors import ConfigurationError
from vector_memory.files.folder import walk
from vector_memory.search.across import Found
from vector_memory.texts.structure import headings
from vector_memory.texts.terms import query_terms

# The Markdown files that the demo stores, and suitable questions.

SUFFIXES = {".md", ".markdown"}

PROJECT_DOCS = Path(__file__).parents[4] / "docs"
PROJECT_PAGES = (
    *("questions.md", "concepts.md", "choosing.md", "errors.md", "orchestrators.md"),
    *("plugin.md", "quality.md", "reliability.md", "speed.md", "superseding.md"),
)
"""Pages that answer the questions, and short others: storing all would take a minute on a slow machine."""
PAGES_FIRST = 3
"""So many are stored before the first question: it is answered while a user still looks."""

PROJECT_QUESTIONS = (
    "Does it need a network connection?",
    "What if the power fails during a store?",
    "How does one agent hand its work over to another?",
    "Which fertilizer do tomatoes need?",
)
HEADINGS_ASKED = 3


@dataclass(frozen=True)
class Subject:
    """The demo's input: a folder, its Markdown files (`left_out` more exceed the limit), and questions.

    The first `first` files, if not 0, answer the first question.
    """

    folder: Path
    files: list[Path]
    left_out: int
    questions: Sequence[str]
    first: int = 0

    def title(self, file: Path) -> str:
        """Return the title of a stored file: its path in the folder."""
        return file.relative_to(self.folder).as_posix()


def find_subject(folder: Path | None, limit: int) -> Subject:
    """Return the files of `folder`; by default some of this project's docs, or else the current folder's.

    Raises ConfigurationError if there are none.
    """
    own_docs = folder is None and all((PROJECT_DOCS / page).is_file() for page in PROJECT_PAGES)
    folder = given_path(folder or (PROJECT_DOCS if own_docs else Path.cwd()))
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is not a folder: choose one that contains Markdown files.")
    found = [folder / page for page in PROJECT_PAGES] if own_docs else list(_markdown_files(folder))
    if not found:
        raise ConfigurationError(f"There are no Markdown files in {folder}: choose another folder.")
    files = found[:limit]
    left_out = len(found) - len(files)
    if own_docs:
        return Subject(folder, files, left_out, PROJECT_QUESTIONS, first=PAGES_FIRST)
    return Subject(folder, files, left_out, _asked_by_headings(files))


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


Answer = FineSearchResult | MediumSearchResult | CoarseSearchResult

SKIPPED_SHOWN = 5
WITHOUT_MODEL = (
    "There is no embedding model, so texts are found by words only: `vector-memory doctor` says how to get one."
)
WIDEST = 100


@dataclass(frozen=True)
class Tool:
    """One of the three granularities, and its tool."""

    name: str
    tool: str
    answer: type[Answer]
    arguments: Mapping[str, Any] = field(default_factory=dict)


GRAINS = (
    Tool("Chunks", "search_reports_specific_chunks", FineSearchResult),
    Tool("Sections", "search_reports_section_context", MediumSearchResult),
    Tool("Documents", "search_reports_full_documents", CoarseSearchResult, {"order": "relevance"}),
)


@dataclass
class Pages:
    """Counts of the stored files."""

    documents: int = 0
    characters: int = 0
    chunks: int = 0
    without_vectors: int = 0
    seconds: float = 0.0
    titles: dict[int, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def add(self, title: str, text: str, receipt: StoreMemoryResult) -> None:
        """Count a file by the server's answer."""
        if receipt.success and receipt.memory_id is not None:
            self.documents += 1
            self.characters += len(text)
            self.chunks += receipt.chunks_created or 0
            self.without_vectors += receipt.vectors == "unavailable"
            self.titles[receipt.memory_id] = title
        elif receipt.memory_id is not None:
            twin = self.titles.get(receipt.memory_id)
            self.skip(title, f"has the same text as {twin}" if twin else "was stored by an earlier run")
        else:
            self.skip(title, receipt.message or "was refused")

    def skip(self, title: str, reason: str) -> None:
        """Record a file that was not stored."""
        self.skipped.append(f"{title}: {reason}")


class Output:
    """Prints the demo's progress and results."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = min(console.width, WIDEST)

    def intro(self, subject: Subject) -> None:
        """Print what the demo is about to do."""
        self._print("\nvector-memory demo", style="bold")
        more = f" (the first of {len(subject.files) + subject.left_out}; see --limit)" if subject.left_out else ""
        self._print(
            f"Storing {counted(len(subject.files), 'Markdown file')}{more} from {subject.folder} as reports of a "
            "session, through the server that your agent would use, and searching them by meaning.\n"
        )

    def waiting(self, reason: str) -> AbstractContextManager[None]:
        """Show a spinner with a message."""
        return status(reason, self._console)

    @contextmanager
    def progress(self, total: int) -> Iterator[Callable[[str], None]]:
        """Show a progress bar while files are stored; yield a callback for each file's name."""
        columns = (
            TextColumn("Storing"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", style="dim", markup=False),
        )
        quiet = not self._console.is_terminal
        with Progress(*columns, console=self._console, transient=True, disable=quiet) as bar:
            task = bar.add_task("", total=total)
            yield lambda title: bar.update(task, advance=1, description=title)

    def stored(self, stored: Pages, database: Path) -> None:
        """Print what was stored, its size, the time it took, and what was not stored."""
        size = sum(file.stat().st_size for file in database.parent.glob(f"{database.name}*"))
        self._console.print(
            Text.assemble(
                (f"Pages {counted(stored.documents, 'document')}", "bold"),
                f" ({stored.characters:,} characters) as {counted(stored.chunks, 'chunk')} in {stored.seconds:.1f} s; "
                f"the database is {size / 1e6:.1f} MB.",
            ),
            width=self._width,
        )
        notes = [WITHOUT_MODEL] if stored.without_vectors else []
        notes += [f"  not stored: {line}" for line in stored.skipped[:SKIPPED_SHOWN]]
        if len(stored.skipped) > SKIPPED_SHOWN:
            notes.append(f"  and {len(stored.skipped) - SKIPPED_SHOWN} more")
        for note in notes:
            self._print(note, style="yellow")

    def answer(self, grain: Tool, question: str, answer: Answer, seconds: float) -> None:
        """Print a question and its results."""
        heading = Table.grid(expand=True)
        heading.add_column(ratio=1)
        heading.add_column(justify="right", style="dim")
        heading.add_row(
            Text.assemble((f"{grain.name}  ", "bold cyan"), (one_line(question), "bold")), f"  {seconds * 1000:.0f} ms"
        )
        self._console.print()
        self._console.print(heading, width=self._width)
        results = Table.grid(padding=(0, 2))
        results.add_column(justify="right", style="cyan")
        results.add_column(ratio=1)
        for found in answer.results:
            results.add_row(
                score_column(found.score), self._finding(found, found.title or getattr(answer, "title", None), question)
            )
        self._console.print(Padding(results, (0, 0, 0, 2)), width=self._width)
        if not answer.results:
            said, _, _ = one_line(answer.message or "").partition(". ")
            self._print(f"  {said.removesuffix('.')}.", style="yellow")

    def next_steps(self, program: str, database: Path | None) -> None:
        """Print the next steps: the command that gives an agent a memory, and what else to try."""
        place = f" --database-path {shlex.quote(str(database))}" if database else ""
        kept = f"The memory is kept in {database}." if database else "The demo's memory was temporary."
        self._print("\nNext steps", style="bold")
        self._print(f"{kept} To give your agent a memory:\n")
        self._console.print(Text(f"  {program} install claude{place}\n"), soft_wrap=True)
        self._print("Or codex, cursor, vscode, desktop. It shows what it will change, and asks.")
        self._print(f"Try your own files and questions: {program} demo FOLDER --question '...'")

    def _print(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style=style), width=self._width)

    def _finding(self, found: Found, title: str | None, question: str) -> Text:
        lines = [Text(one_line(title or ""), style="bold")]
        if path := path_of(found):
            lines.append(Text(path, style="green"))
        shown = excerpt_line(text_of_result(found), set(query_terms(question)), 2 * (self._width - 14))
        lines.append(Text(shown, style="dim"))
        return Text("\n").join(lines)
