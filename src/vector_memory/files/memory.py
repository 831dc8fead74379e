"""The facade: everything the tools can do with a folder of Markdown files."""

import hashlib
import logging
import re
import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Self

from vector_memory.answers.budget import ResponseBudget
from vector_memory.answers.forms import FORM
from vector_memory.answers.tagged import FileSearchResult, FileStatusResult, FileTextResult, FileWriteResult, FoundText
from vector_memory.domain import FileSource
from vector_memory.domain.text import text_in
from vector_memory.domain.validation import (
    MAX_CONTENT,
    MAX_LIMIT,
    MAX_QUERY,
    check_label,
    check_range,
    check_text,
    parse_choice,
)
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.files.folder import MAX_FILE_BYTES, MemoryFolder
from vector_memory.files.index_file import FileIndex, FolderIndexer, IndexFile, IndexingProgress, file_scope
from vector_memory.files.search import (
    FileExplaining,
    FileHit,
    FileHits,
    FileSearch,
    fitting_lines,
    notes,
)
from vector_memory.files.watcher import Watcher
from vector_memory.search.explain import Trace, fitting
from vector_memory.settings import FileLocations, Redact, Settings
from vector_memory.settings.locations import real_path
from vector_memory.storage.records import MemoryCounts
from vector_memory.texts.redaction import redact

logger = logging.getLogger(__name__)

WATCHER_STOP_SECONDS = 0.05
SECONDS_TO_INDEX = 0.5
"""How long a search waits for files that are being indexed."""

SKIPPED_NAMED = 5

NO_ROOM = "The trace did not fit: set a larger VECTOR_MEMORY_MAX_RESPONSE_TOKENS."

TOO_LONG_A_LINE = "The line is too long for an answer: to read on, send nextLine as startLine and nextOffset as offset."

MAX_TOPIC = 200
MAX_LINE_NUMBER = 10**9

NOT_A_SLUG = re.compile(r"[^A-Za-z0-9._-]+")


ONLY_DAILY = {FileSource.ALL: None, FileSource.MEMORY: False, FileSource.DAILY: True}


def index_path(index_folder: Path, folder: Path, model: str) -> Path:
    """Return the index's file for a memory folder: the name of its project and a hash of its path and the model.

    Projects with the same name, and servers with different models, therefore have different files.
    """
    folder = real_path(folder)
    project = folder.parent.name if folder.name == "memory" else folder.name
    slug = NOT_A_SLUG.sub("-", project).strip("-.")[:60] or "project"
    digest = hashlib.sha256(f"{folder}\0{model}".encode(errors="surrogateescape")).hexdigest()
    return index_folder / f"{slug}-{digest[:12]}.sqlite"


class ListedFile(NamedTuple):
    """A file of the folder: when it was last changed, as memories name times, and its size in bytes."""

    path: str
    changed_at: str
    size: int


class FileMemory:
    """A folder of Markdown files and its index. Safe to use from several threads; several processes may share both.

    `folder` need not exist. `index_file` is the index's database, created on first use; if it cannot be created, files
    can still be read and written. Default: a file in `FileLocations.db_dir`, as for a server. `model`: a model to share
    with other users of this process. `not_indexed`: folders inside `folder` whose files are not memories. Nothing is
    indexed before `start_background_work`. Every method raises a subclass of VectorMemoryError on failure.
    """

    def __init__(
        self,
        folder: Path | str,
        settings: Settings | None = None,
        *,
        index_file: Path | None = None,
        model: EmbeddingModel | None = None,
        not_indexed: Sequence[Path] = (),
    ) -> None:
        folder = Path(folder)
        self.settings = settings = settings or Settings()
        self._model = model = model or EmbeddingModel(lambda: load_embedder(settings))
        self._folder = MemoryFolder(folder, not_indexed)
        index_file = index_file or index_path(FileLocations().index_folder(), folder, settings.embedding_model)
        self._index = IndexFile(index_file, model, settings)
        self._known_index: FileIndex | None = None
        self._budget = ResponseBudget(settings.max_response_tokens)
        self._stopping = threading.Event()
        self._indexer = FolderIndexer(self._folder, self._stopping, redacts=settings.redact is Redact.ALL)
        self._watcher = Watcher(self._folder, self._index, self._indexer, self._stopping)
        self.wait_for_words = self._watcher.wait
        """Waits for so many seconds until the words of all known changes are indexed; False: longer, or it failed."""
        if not self._folder.exists():
            logger.warning("The memory folder does not exist yet: it will be indexed once it exists")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def start_background_work(self) -> None:
        """Index the folder and watch it for changes, in the background."""
        if self.settings.warm_start_embedding_model:
            self._model.start_loading()
        self._watcher.start()

    def unload_idle(self) -> None:
        """Unload the model if it was not used for `embedding_idle_seconds`; the next use loads it again."""
        self._model.unload_if_idle(self.settings.embedding_idle_seconds)

    def close(self) -> None:
        """Stop watching the folder and close the index. Files not indexed yet are indexed at the next start."""
        self._stopping.set()
        self._watcher.stop(WATCHER_STOP_SECONDS)
        self._index.close()

    def check_for_changes(self) -> None:
        """Start indexing changes if the folder cannot be watched, indexing failed before, or the index was replaced."""
        was_replaced = self._was_index_replaced()
        self._known_index = self._index.current()
        if was_replaced or self._watcher.has_failed or not self._watcher.is_watching:
            self._watcher.request()

    def _was_index_replaced(self) -> bool:
        """Whether the index was replaced, perhaps by an empty one, since changes were last checked for."""
        return self._known_index not in (None, self._index.current())

    def progress(self) -> IndexingProgress:
        """Return the progress of the current run."""
        return self._indexer.progress

    def search(
        self, query: str, limit: int = 5, source: str = FileSource.ALL, explain: str | None = None
    ) -> FileSearchResult:
        """Return the chunks of files that match the query best, best first.

        `explain`: the path of a file that was not found, or "all": the answer says in `trace`, which takes at most half
        of it, how candidates were measured.
        """
        check_text("query", query, MAX_QUERY)
        check_range("limit", limit, 1, MAX_LIMIT)
        daily = ONLY_DAILY[parse_choice("source", source, FileSource)]
        if not self._folder.exists():
            return FileSearchResult(message=self._no_folder())
        self.check_for_changes()
        complete = self.wait_for_words(SECONDS_TO_INDEX)
        search = FileSearch(query, self._index.model, self.settings.search_mode, daily=daily)
        explaining = FileExplaining(self._folder, search, limit)
        path = None if explain is None else explaining.path_of(explain)

        def work(index: FileIndex) -> tuple[FileHits, Trace | None]:
            with index.storage.read() as reader:  # one state for both
                found = search.find(index, reader, limit)
                return found, None if explain is None else explaining.explain(index, reader, path)

        found, whole = self._index.use(work)
        if found.is_outdated:
            self._watcher.request()
        if self._was_index_replaced():  # it was damaged
            self.check_for_changes()
            complete = False
        trace = None if whole is None else fitting(whole, self._budget.room // 2)
        messages = [*notes(found, complete=complete, failed=self._watcher.has_failed)]
        if trace is None and whole is not None:
            messages.append(NO_ROOM)

        passages = FORM.get().cut_passages(list(map(self._found_text, found.hits)), search.question.terms or ())

        def build(budget: ResponseBudget) -> FileSearchResult:
            results = budget.fitting(passages)
            omitted = len(found.hits) - len(results)
            more = [f"{omitted} more did not fit into the answer: read files with memory_get."] if omitted else []
            return FileSearchResult(
                results=results,
                index_complete=complete and not found.unembedded,
                message=" ".join(messages + more) or None,
                trace=trace,
            )

        return self._budget.fit(build)

    def get(
        self, path: str, start_line: int | None = None, lines: int | None = None, offset: int | None = None
    ) -> FileTextResult:
        """Return a file, or `lines` of its lines from `start_line` on, as far as they fit into the answer.

        `offset`: skip this many characters of the first line, which did not fit with the rest.
        """
        first = check_range("startLine", 1 if start_line is None else start_line, 1, MAX_LINE_NUMBER)
        skipped = check_range("offset", 0 if offset is None else offset, 0, MAX_FILE_BYTES)
        count = check_range("lines", MAX_LINE_NUMBER if lines is None else lines, 1, MAX_LINE_NUMBER)
        inner = self._folder.find(path)
        shown = self._folder.shown(inner)
        if not self._folder.exists():
            message = self._no_folder()
            return FileTextResult(
                path=shown, content="", total_lines=0, start_line=first, end_line=first - 1, message=message
            )
        text = text_in(self._folder.read(inner)[0])

        def build(budget: ResponseBudget) -> FileTextResult:
            found = fitting_lines(text, first, count, skipped, budget)
            return FileTextResult(path=shown, **found, message=TOO_LONG_A_LINE if "next_offset" in found else None)

        return self._budget.fit(build)

    def listed(self) -> list[ListedFile]:
        """Return the files of the folder, the last changed first."""
        found = self._folder.scan().items()
        files = [ListedFile(self._folder.shown(path), status.changed_at, status.size) for path, status in found]
        return sorted(files, key=lambda file: file.changed_at, reverse=True)

    def version(self) -> int:
        """Return a number that changes when the index follows a change of the folder."""
        return self._index.use(lambda index: index.storage.version())

    def write(self, entry: str, topic: str | None = None, now: datetime | None = None) -> FileWriteResult:
        """Add an entry to the log of the day, under a heading with the time. `now` defaults to the current time."""
        check_label("entry", entry, MAX_CONTENT)
        if topic is not None:
            topic = " ".join(check_label("topic", topic, MAX_TOPIC).split())
        if self.settings.redact is Redact.ALL:
            entry, topic = redact(entry).text, topic and redact(topic).text
        path = self._folder.append(entry, topic, now or datetime.now().astimezone())
        self._watcher.request()
        return FileWriteResult(path=self._folder.shown(path))

    def status(self) -> FileStatusResult:
        """Return the state of the index. If the folder cannot be watched, this checks for changes first."""
        self.check_for_changes()
        self.wait_for_words(SECONDS_TO_INDEX)
        counts, unembedded = self._index.use(index_counts)
        return FileStatusResult(
            files=counts.total_memories,
            chunks=counts.total_chunks,
            last_indexed=counts.latest_created,
            model=self.settings.embedding_model,
            dimensions=self.settings.embedding_dim,
            db_size_bytes=counts.database_bytes,
            vector_enabled=self._index.model.failure is None and self._index.has_vectors,
            fts_enabled=True,  # the index cannot be opened without FTS5
            indexing=self._watcher.is_busy or self._index.current().is_busy,
            files_done=self.progress().files_done,
            files_total=self.progress().files_total,
            chunks_without_vectors=unembedded,
            watching=self._watcher.is_watching,
            message=self._warnings(),
        )

    def _warnings(self) -> str | None:
        """Return why files cannot be found: the folder does not exist, or files in it were skipped."""
        if not self._folder.exists():
            return self._no_folder()
        skipped = self._folder.skipped
        if not skipped:
            return None
        named = "; ".join(f"{self._folder.shown(each.path)}: {each.reason}" for each in skipped[:SKIPPED_NAMED])
        more = f"; and {len(skipped) - SKIPPED_NAMED:,} more" if len(skipped) > SKIPPED_NAMED else ""
        return f"Warning: skipped {named}{more}."

    def _no_folder(self) -> str:
        return f"Warning: the folder {self._folder.name} does not exist."

    def _found_text(self, found: FileHit) -> FoundText:
        return FoundText(
            path=self._folder.shown(found.path),
            text=found.text,
            score=found.hit.score,
            match=found.hit.match,
            start_line=found.start_line,
            end_line=found.end_line,
        )


def index_counts(index: FileIndex) -> tuple[MemoryCounts, int]:
    """Return the statistics of the index, and how many chunks have no vectors."""
    with index.storage.read() as reader:
        counts, unembedded = reader.sessions.statistics(), 0
        if counts.without_vectors:
            embedded = (reader.vectors.embedded_passages(number) for number in reader.memories.ids(file_scope()))
            unembedded = counts.total_chunks - sum(len({passage.unit for passage in each}) for each in embedded)
        return counts, unembedded
