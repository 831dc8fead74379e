"""The demo: stores Markdown files through the real server and asks questions about them."""

import asyncio
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from rich.text import Text

from vector_memory.answers.models import CoarseSearchResult, FineSearchResult, MediumSearchResult
from vector_memory.cli.commands.search import print_findings
from vector_memory.cli.flags import given_path
from vector_memory.cli.terminal import console, one_line, progress, say, status
from vector_memory.domain import MemoryKind
from vector_memory.domain.text import counted, text_in
from vector_memory.domain.user_files import read_file
from vector_memory.domain.validation import MAX_CONTENT_BYTES
from vector_memory.errors import ConfigurationError, DuplicateMemoryError, ValidationError, VectorMemoryError
from vector_memory.files.folder import walk
from vector_memory.search.across import Answer
from vector_memory.texts.structure import headings

SERVER = ("-P", "-m", "vector_memory", "serve")
"""Starts the server, which imports nothing from the folder in which it is started."""

AGENT, SESSION = "demo-agent", "demo"
RESULTS_ASKED = 3

SUFFIXES = {".md", ".markdown"}

PROJECT_DOCS = Path(__file__).parents[3] / "docs"
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

GRAINS: dict[str, tuple[str, type[Answer]]] = {
    "Chunks": ("search_reports_specific_chunks", FineSearchResult),
    "Sections": ("search_reports_section_context", MediumSearchResult),
    "Documents": ("search_reports_full_documents", CoarseSearchResult),
}
"""The tool that searches at each grain, and its result."""

REFUSED = (DuplicateMemoryError.code, ValidationError.code)
"""Errors about a single file; any other ends the demo."""

WITHOUT_MODEL = (
    "There is no embedding model, so texts are found by words only: `vector-memory doctor` says how to get one."
)


@dataclass(frozen=True)
class DemoFiles:
    """The demo's input: a folder, its Markdown files, and questions. The first is asked when `first` are stored."""

    folder: Path
    files: Sequence[Path]
    questions: Sequence[str]
    first: int = 0


def found_files(folder: Path | None) -> DemoFiles:
    """Return the files of `folder`; by default some of this project's docs, or else the current folder's.

    Raises ConfigurationError if there are none.
    """
    if folder is None and all((PROJECT_DOCS / page).is_file() for page in PROJECT_PAGES):
        return DemoFiles(PROJECT_DOCS, [PROJECT_DOCS / page for page in PROJECT_PAGES], PROJECT_QUESTIONS, PAGES_FIRST)
    folder = given_path(folder or Path.cwd())
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is not a folder: choose one that contains Markdown files.")
    below = walk(Path(os.path.realpath(folder)), lambda _path, _reason: None)  # without what Git ignores
    files = [folder / path for path in sorted(one.path for one in below) if path.suffix.lower() in SUFFIXES]
    if not files:
        raise ConfigurationError(f"There are no Markdown files in {folder}: choose another folder.")
    return DemoFiles(folder, files, list(headings_of(files)))


def headings_of(files: Sequence[Path]) -> Iterator[str]:
    """Yield headings as questions: the longest ones of files spread evenly over the folder, or a file's name."""
    candidates = []
    for file in files:
        try:
            found = headings(read_file(file, MAX_CONTENT_BYTES).decode(errors="ignore"))
        except OSError:
            continue
        candidates += [longest] if (longest := max(found, key=len, default="")) else []
    step = max(len(candidates) / HEADINGS_ASKED, 1)
    for number in range(min(HEADINGS_ASKED, len(candidates))):
        yield candidates[int(step * number)]
    if not candidates:
        yield files[0].stem.replace("-", " ").replace("_", " ")


def run_demo(folder: Path | None, *, questions: Sequence[str], limit: int, database: Path | None) -> None:
    """Store the Markdown files of `folder` and print what each question finds at all three granularities.

    Without `questions`, suitable ones are chosen and asked at one granularity each. Without `database`, a temporary one
    is used. Raises VectorMemoryError.
    """
    given = found_files(folder)
    files = given.files[:limit]
    more = f" (the first of {len(given.files)}; see --limit)" if len(given.files) > limit else ""
    out = console()
    out.print("\nvector-memory demo", style="bold")
    out.print(
        f"Storing {counted(len(files), 'Markdown file')}{more} from {given.folder} as reports of a session, through "
        "the server that your agent would use, and searching them by meaning.\n"
    )
    asked = [(grain, question) for question in questions for grain in GRAINS]
    with tempfile.TemporaryDirectory(prefix="vector-memory-demo-") as scratch:
        demo = Demo(given.folder, asked or list(zip(cycle(GRAINS), given.questions)))
        place = database or Path(scratch, "memory.db")
        asyncio.run(demo.run(files, 0 if questions else given.first, place, Path(scratch, "server.log")))
    print_next_steps("uv run main.py" if Path(sys.argv[0]).name == "main.py" else "vector-memory", database)


class Demo:
    """What is stored, and what is still to be asked: grains and questions."""

    def __init__(self, folder: Path, asked: list[tuple[str, str]]) -> None:
        self._folder, self._asked = folder, asked
        self._titles: dict[int, str] = {}
        self._skipped: list[str] = []
        self._chunks, self._seconds, self._has_vectors = 0, 0.0, True

    async def run(self, files: Sequence[Path], first: int, database: Path, log: Path) -> None:
        """Store the files and ask the questions. Raises VectorMemoryError if the server fails."""
        # The import takes a second or more, and by now the user sees what happens.
        from fastmcp import Client
        from fastmcp.client.transports import StdioTransport
        from mcp import MCPError

        # The first question follows the last file at once, and the time that is shown includes the vectors.
        environment = {**os.environ, "VECTOR_MEMORY_EMBED_IN_BACKGROUND": "false"}
        words = [*SERVER, "--database-path", str(database)]
        transport = StdioTransport(sys.executable, words, env=environment, keep_alive=False, log_file=log)
        try:
            async with AsyncExitStack() as stack:
                with status("Starting the server"):
                    client = await stack.enter_async_context(Client(transport))
                await self._store(client, files[:first])
                if first:
                    await self._ask(client, *self._asked.pop(0))
                await self._store(client, files[first:])
                self._print_stored()
                for grain, question in self._asked:
                    await self._ask(client, grain, question)
        except (RuntimeError, MCPError) as error:
            said = log.read_text(encoding="utf-8").splitlines()
            raise VectorMemoryError(
                f"The server stopped. {said[-1].removeprefix('vector-memory: ') if said else error}"
            ) from error

    async def _store(self, client: Any, files: Sequence[Path]) -> None:
        began = time.perf_counter()
        with progress("Storing") as update:
            for number, file in enumerate(files, start=1):
                title = file.relative_to(self._folder).as_posix()
                if reason := await self._why_refused(client, file, title):
                    self._skipped.append(f"{title}: {reason}")
                update(number, len(files))
        self._seconds += time.perf_counter() - began

    async def _why_refused(self, client: Any, file: Path, title: str) -> str | None:
        """Store a file; return why it was not stored. Raises VectorMemoryError for what is not about this file."""
        try:
            text = text_in(read_file(file, MAX_CONTENT_BYTES))
        except ValidationError:
            return "is not text in UTF-8"
        except OSError as error:
            return error.strerror or "cannot be read"
        arguments = {"agent_id": AGENT, "session_id": SESSION, "title": title, "content": text}
        body = (await client.call_tool("store_report", arguments, raise_on_error=False)).structured_content
        number: int | None = body.get("memory_id")
        if number is not None and body["success"]:
            self._titles[number] = title
            self._chunks += body["chunks_created"]
            self._has_vectors &= body["vectors"] != "unavailable"
            return None
        if body["error"] not in REFUSED:
            raise VectorMemoryError(body["message"])
        if number is None:
            return str(body["message"])
        twin = self._titles.get(number)
        return f"has the same text as {twin}" if twin else "was stored by an earlier run"

    async def _ask(self, client: Any, grain: str, question: str) -> None:
        tool, model = GRAINS[grain]
        began = time.perf_counter()
        arguments = {"query": question, "session_id": SESSION, "limit": RESULTS_ASKED}
        reply = await client.call_tool(tool, arguments, raise_on_error=False)
        milliseconds = (time.perf_counter() - began) * 1000
        answer = model.model_validate(reply.structured_content)
        heading = ((f"\n{grain}  ", "bold cyan"), (one_line(question), "bold"), f"  {milliseconds:.0f} ms\n")
        console().print(Text.assemble(*heading))
        said = {"memory_type": MemoryKind.REPORT, "later": []}  # what all results have in common is said once
        title = getattr(answer, "title", None)
        results = [one.model_copy(update={**said, "title": one.title or title}) for one in answer.results]
        told = (
            "" if results else f"{(answer.message or '').partition('. ')[0].removesuffix('.')}."
        )  # the rest is for agents
        print_findings(results, told, question, full=False)

    def _print_stored(self) -> None:
        """Print how much was stored and how long it took, and what was not stored."""
        stored = f"Stored {counted(len(self._titles), 'document')}"
        out = console()
        out.print(Text.assemble((stored, "bold"), f" as {counted(self._chunks, 'chunk')} in {self._seconds:.1f} s."))
        for note in [f"  not stored: {line}" for line in self._skipped] + [WITHOUT_MODEL] * (not self._has_vectors):
            out.print(Text(note, style="yellow"))


def print_next_steps(program: str, database: Path | None) -> None:
    """Print the command that gives an agent a memory, and what else to try."""
    place = f" --database-path {shlex.quote(str(database))}" if database else ""
    kept = f"The memory is kept in {database}." if database else "The demo's memory was temporary."
    say(
        f"\nNext steps\n{kept} To give your agent a memory:\n\n  {program} install claude{place}\n\n"
        "Or codex, cursor, vscode, desktop. It shows what it will change, and asks.\n"
        f"Try your own files and questions: {program} demo FOLDER --question '...'"
    )
