"""The facade: everything the server, the command line and library users can do with one memory file."""

from collections.abc import Callable, Collection, Sequence
from copy import copy
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Self, Unpack, cast

from vector_memory.answers import documents, models, overview
from vector_memory.answers.budget import ResponseBudget
from vector_memory.domain import ANY, MemoryFields, MemoryKind, NewMemory, Page, Scope, SearchMode, SearchOrder, Window
from vector_memory.domain.evidence import FileLines
from vector_memory.domain.fields import Trust
from vector_memory.embedding import Embedder, EmbeddingModel, load_embedder
from vector_memory.extras import extra
from vector_memory.reading.changes import Changes
from vector_memory.reading.context import TaskContext
from vector_memory.reading.documents import AccessRecorder, Documents
from vector_memory.reading.evidence import Checkout, verified
from vector_memory.reading.export import ExportFolders
from vector_memory.reading.memory_pages import MemoryPages
from vector_memory.reading.overview import Overview, Statistics
from vector_memory.reading.recap import Past
from vector_memory.reading.review import Review
from vector_memory.search import Retriever, Search, SearchTimer
from vector_memory.search.across import Across
from vector_memory.search.explain import Explaining
from vector_memory.search.later import NEIGHBOURS
from vector_memory.search.probes import Probes
from vector_memory.settings import DatabaseUrl, Settings, export_folder_of, memory_address
from vector_memory.storage.base import Storage
from vector_memory.storage.opening import LimitedStorage, open_storage
from vector_memory.storage.records import NamedBy, Told
from vector_memory.tagged.memories import READ_WITH_TOOL, TaggedMemories, TagListing
from vector_memory.tagged.vocabulary import Vocabulary
from vector_memory.upkeep.backfill import Backfill, Progress, Reembedded
from vector_memory.upkeep.transfer import Exported, Imported, Transfer
from vector_memory.writing.amending import Amending, Superseding
from vector_memory.writing.background import BackgroundVectors
from vector_memory.writing.batches import Batches, Intake
from vector_memory.writing.deletion import Deletion
from vector_memory.writing.holding import Holding
from vector_memory.writing.indexer import EmbeddingProgress, Indexer
from vector_memory.writing.links import links_of
from vector_memory.writing.outbox import outbox_of_memory
from vector_memory.writing.sync import Sync
from vector_memory.writing.writer import MemoryLimit, MemoryWriter

if TYPE_CHECKING:
    from vector_memory.storage.records import Size
    from vector_memory.upkeep.backup import CopiedFile, Room

PAGE, CHANGES_PAGE = Page(), Page(limit=20)

Queries = str | Sequence[str]
Mode = SearchMode | str | None
Order = SearchOrder | str | None
Notify = Progress | None
Stream = IO[bytes]


def file_lines(folder: Path, path: PurePosixPath) -> FileLines | None:
    """Return the lines of a project's file, unless it is ignored."""
    from vector_memory.files.folder import lines_below  # noqa: PLC0415 - most files have not changed

    return lines_below(folder, path)


class SessionMemoryStore:
    """An open memory. Thread-safe; several processes may have the same memory open.

    `address`: its file, created by the first store, or the URL of a PostgreSQL database. `export_folders`: where
    documents may be written; default: `exports` beside the file, or in the project's `memory`. `other_databases`: files
    that exports never replace. `embedder`, `model`: instead of the configured engine.
    A method that fails raises a subclass of VectorMemoryError and has changed nothing.
    """

    def __init__(
        self,
        address: Path | str | DatabaseUrl,
        settings: Settings | None = None,
        *,
        export_folders: Sequence[Path] = (),
        other_databases: Sequence[Path] = (),
        embedder: Embedder | None = None,
        model: EmbeddingModel | None = None,
        read_only: bool = False,
    ) -> None:
        self._address = address = memory_address(address)
        self.settings = settings = settings or Settings()
        self._model = model or EmbeddingModel(lambda: embedder or load_embedder(settings))
        self._indexer = Indexer(self._model, settings, links_of)
        storage = open_storage(
            address,
            dimensions=settings.embedding_dim,
            synchronous=settings.sqlite_synchronous,
            read_only=read_only,
            cut=self._indexer.cut_without_model,
        )
        self.told_of = list[Callable[[Told], None]]()
        """Called with each recap and recall that an agent was given, soon after."""
        self._access = AccessRecorder(storage, self.told_of)
        self._timer = SearchTimer(settings.log_slow_query_threshold)
        self._background = BackgroundVectors(storage, self._indexer)
        files = [address] if isinstance(address, Path) else []
        self._exports = ExportFolders(export_folders or [export_folder_of(address)], [*files, *other_databases])
        self._room = MemoryLimit()
        self._checkout = Checkout(file_lines, files[0] if files else None)
        self._assemble(storage)
        self.intake = Intake(None if read_only else outbox_of_memory(address), self._writer)

    def limit(self, memories: int | None) -> None:
        """Limit the number of memories, counting those of other processes; None: no limit."""
        self._room.most = memories

    def work_in(self, project: Path | None) -> None:
        """Compare evidence with the files in a folder; None: they are on another machine."""
        self._checkout.work_in(project)

    def limited_to(self, names: Collection[str]) -> Self:
        """Return a view of this store limited to these sessions. It shares everything; do not close it."""
        view = copy(self)
        view._timer = self._timer.limited_to(names)  # noqa: SLF001 - our own copy
        view._assemble(cast("Storage", LimitedStorage(self._storage, names)))  # noqa: SLF001 - our own copy
        view.intake = self.intake.limited_to(names)
        return view

    def uncounted(self) -> Self:
        """Return a view of this store that counts no reads, for people. It shares everything; do not close it."""
        view = copy(self)
        view._access = self._access.silent()  # noqa: SLF001 - our own copy
        view._assemble(self._storage)  # noqa: SLF001 - our own copy
        return view

    def _assemble(self, storage: Storage) -> None:
        self._storage, settings, indexer = storage, self.settings, self._indexer
        budget = ResponseBudget(settings.max_response_tokens)
        retriever = Retriever(storage, self._model, self._background, settings)
        self._writer = MemoryWriter(storage, indexer, self._background, settings, self._room)
        self._scope, self._probes = self._writer.scope, Probes(budget, self._access.record)
        self.count_told = self._access.told
        notes_on = self._checkout.notes
        self._search = Search(storage, retriever, self._timer, budget, self._access.record, notes_on)
        self.across = Across(storage, self._search, self._scope)
        self._changes = Changes(storage, retriever, self._timer, budget, self._access)
        self._documents = Documents(storage, budget, self._access, self._exports, self._writer, notes_on)
        self._task_context = TaskContext(storage, retriever, budget, self._access)
        self._statistics, self._review = Statistics(storage, budget), Review(storage, budget)
        self._deletion = Deletion(storage, settings.undo_hours)
        self._overview, self._superseding = Overview(storage), Superseding(storage)
        self.holding = Holding(storage)
        self._amending, self._pages = Amending(storage, self._background, self._writer), MemoryPages(storage, retriever)
        vocabulary, self._transfer = Vocabulary(storage, self._model), Transfer(storage, indexer, self._writer)
        self._backfill = Backfill(storage, indexer, vocabulary)
        notes = Search(storage, retriever, self._timer, budget, None, notes_on, READ_WITH_TOOL)
        self.tagged = TaggedMemories(
            storage, vocabulary, self._writer, notes, self._documents, self._deletion, settings.memory_limit
        )
        self.tags, self.batches = TagListing(storage, budget), Batches(storage, indexer, settings)
        self.past, self.explaining = Past(storage, retriever, notes_on), Explaining(storage, retriever)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def start_background_work(self) -> None:
        """Load the model and compute missing vectors, if the settings say so, and erase memories when they expire."""
        if self.settings.warm_start_embedding_model:
            self._model.start_loading()
        self.intake.delivery.start()
        if not self._storage.read_only:
            begin = partial(self._backfill.begin, self.settings.auto_backfill_threshold)
            self._background.start(first=begin, erase=self._deletion.erase_some_expired)

    def defer_vectors(self) -> None:
        """From now on, storing returns as soon as the text is safe; vectors follow in the background."""
        if not self._storage.read_only:
            self._background.start(defers=True)

    @property
    def is_file(self) -> bool:
        """Whether this memory is a file."""
        return isinstance(self._address, Path)

    @property
    def is_busy(self) -> bool:
        """Whether texts are being stored or vectors computed in the background."""
        return self.intake.delivery.is_busy or self._background.is_busy

    def unload_idle(self) -> None:
        """Unload the model if it has been idle for the configured time; the next use loads it."""
        self._model.unload_if_idle(self.settings.embedding_idle_seconds)

    def close(self) -> None:
        """Close the memory after the current write; repeated calls do nothing."""
        self.intake.delivery.stop()
        self._background.stop()
        self._access.close()
        self._storage.close()

    def store_memory(
        self,
        memory_type: MemoryKind | str,
        content: str,
        *,
        on_progress: EmbeddingProgress | None = None,
        captured: bool = False,
        **fields: Unpack[MemoryFields],
    ) -> models.StoreMemoryResult:
        """Store a memory of any kind. Knowledge needs a `title`, all other kinds a `session_id`.

        `on_progress(done, total)` counts passages. `captured`: by a hook or an import, not by an agent; the setting
        `redact` distinguishes them. Raises DuplicateMemoryError, NotFoundError, ValidationError.
        """
        memory = NewMemory.of(memory_type, content, **fields)
        memory = self._checkout.with_evidence(memory, in_text=self.settings.evidence_in_text)
        return self._writer.store(memory, on_progress, captured=captured)

    def search_scoped(
        self, scope: Scope, page: Page = PAGE, *, latest_first: bool = True
    ) -> models.SearchMemoriesResult:
        """List whole memories of a scope, newest (or oldest) first."""
        return self._search.scoped(self._scope(scope), Page.checked(page), latest_first=latest_first)

    def search_memories(
        self, query: str | None, scope: Scope, page: Page = PAGE, *, mode: Mode = None, neighbours: int = 0
    ) -> models.SearchMemoriesResult:
        """Find whole memories of a kind that is not chunked, best match first; without a query list the newest."""
        return self._search.memories(query, self._scope(scope), Page.checked(page), SearchMode.of(mode), neighbours)

    def search_chunks(
        self, query: Queries, scope: Scope, page: Page = PAGE, *, mode: Mode = None, neighbours: int = NEIGHBOURS
    ) -> models.FineSearchResult:
        """Find the best chunks for 1-5 queries; short memories come with 0-5 `neighbours` on each side."""
        search = partial(self._search.chunks, scope=self._scope(scope), mode=SearchMode.of(mode), neighbours=neighbours)
        page = Page.checked(page)
        return search(query, page=page) if isinstance(query, str) else self._probes.ask(query, page, search)

    def search_sections(
        self, query: Queries, scope: Scope, page: Page = PAGE, *, mode: Mode = None
    ) -> models.MediumSearchResult:
        """Find the sections with the best chunks for 1-5 queries."""
        search = partial(self._search.sections, scope=self._scope(scope), mode=SearchMode.of(mode))
        page = Page.checked(page)
        return search(query, page=page) if isinstance(query, str) else self._probes.ask(query, page, search)

    def search_documents(
        self, query: Queries | None, scope: Scope, page: Page = PAGE, *, order: Order = None, mode: Mode = None
    ) -> models.CoarseSearchResult:
        """Find whole documents, best match first; without a query, or with `order` "recent", list the newest."""
        how, by = SearchMode.of(mode), SearchOrder.of(order)
        search = partial(self._search.documents, scope=self._scope(scope), mode=how, order=by)
        page = Page.checked(page)
        if query is None or isinstance(query, str):
            return search(query, page=page)
        if by is SearchOrder.RECENT:  # queries are not compared
            return search(next(iter(query), None), page=page)
        return self._probes.ask(query, page, search)

    def search_changes(
        self,
        scope: Scope,
        *,
        since: str | int | None = None,
        query: str | None = None,
        page: Page = CHANGES_PAGE,
        full: bool = False,
    ) -> models.ChangesResult:
        """Return memories stored since a cursor (None: the start; "now": only a cursor); `full`: whole texts."""
        return self._changes.since(since, self._scope(scope), query, Page.checked(page), full=full)

    def load_session_context_for_task(
        self,
        session_id: str,
        session_iter: str | int | None = None,
        max_tokens: int | None = None,
        as_of: str | None = None,
    ) -> documents.TaskContextResult:
        """Return what a sub-agent needs to continue an iteration (or the latest), by default in 4,000 tokens."""
        return self._task_context.load(session_id, session_iter, max_tokens, as_of)

    def expand_chunk_context(self, chunk_id: str | int, surrounding_chunks: int = 2) -> documents.ExpandedChunkResult:
        """Return a chunk with its neighbours, up to 50 on either side."""
        return self._documents.expand(chunk_id, surrounding_chunks)

    def reconstruct_document(self, memory_id: str | int, offset: int = 0) -> documents.DocumentResult:
        """Return a document exactly as it was stored, from character `offset` on, as far as it fits."""
        return self._documents.reconstruct(memory_id, offset)

    def get_memory_by_id(self, memory_id: str | int, offset: int = 0) -> documents.MemoryResult:
        """Return a memory, its content from character `offset` on, as far as it fits."""
        return self._documents.get(memory_id, offset)

    def describe_memory(self, memory_id: str | int) -> str:
        """Describe a memory in one line, for a question to the user. Does not count as a read."""
        return self._documents.describe(memory_id)

    def write_document_to_file(
        self, memory_id: str | int, output_path: str, *, overwrite: bool = False
    ) -> documents.ExportResult:
        """Write a document as Markdown with YAML front matter, inside an export folder only."""
        return self._documents.export(memory_id, output_path, overwrite=overwrite)

    def version(self) -> int:
        """Return a number that changes with every commit of any process. Costs a few microseconds."""
        return self._storage.version()

    def count_memories(self) -> int:
        """Return the number of memories."""
        return self._overview.count()

    def count_pending(self) -> int:
        """Return the number of memories whose vectors are being computed."""
        return self._overview.count_pending()

    def get_session_stats(self, session_id: str) -> overview.SessionStatsResult:
        """Return the statistics of a session."""
        return self._statistics.session_stats(session_id)

    def list_sessions(
        self, limit: int = 20, agent_id: str | None = None, **window: Unpack[Window]
    ) -> overview.SessionsResult:
        """Return sessions, latest activity first; limit 1-100. Filters by agent and time apply to their memories."""
        return self._statistics.list_sessions(limit, Scope(agent_id=agent_id, **window))

    def get_timeline(self, scope: Scope, limit: int = 100, offset: int = 0) -> overview.TimelineResult:
        """Return the latest memories of a scope, skipping the last `offset`, oldest first; limit 1-100,000."""
        return self._overview.timeline(self._scope(scope), limit, offset)

    def get_activity(self, scope: Scope) -> overview.ActivityResult:
        """Return how much each agent stored per hour in a scope."""
        return self._overview.activity(self._scope(scope))

    def get_memory_page(self, memory_id: str | int) -> documents.MemoryPage:
        """Return a memory for a person: uncut, with chunks, observations and neighbours. Does not count as a read."""
        return self._pages.page(memory_id)

    def get_memory_stats(self) -> overview.MemoryStatsResult:
        """Return the statistics of the whole memory."""
        return self._overview.memory_stats()

    def review(self, session_id: str | None = None, limit: int = 20) -> overview.ReviewResult:
        """Return memories that may be out of date: with later ones on their subject, or old and never read."""
        return self._review.review(Scope(session_id=session_id), limit)

    def review_for_people(self, session_id: str | None, limit: int) -> overview.PeoplesReview:
        """Return what `review` does, with the memories that are held back."""
        return self._review.for_people(Scope(session_id=session_id), limit)

    def verify(self, scope: Scope) -> overview.VerifyResult:
        """List what no longer holds of the evidence of a scope's memories."""
        return verified(self._storage, self._checkout.notes, self._scope(scope))

    def find_names(self, column: NamedBy, part: str = "", session_id: str | None = None) -> tuple[list[str], int]:
        """Return up to 100 names of sessions, agents or tasks that contain `part`, and their total number."""
        return self._statistics.find_names(column, part, session_id)

    def get_chart(self, scope: Scope) -> dict[str, Any]:
        """Return the memories of a scope with their places on the page's map."""
        chart: dict[str, Any] = extra("report").chart_data(self._storage, self._scope(scope))
        return chart

    def sync(self, scope: Scope, *, keep_replaced: bool = False) -> Sync:
        """Return a `Sync`, which keeps a scope's memories in step with their files.

        `keep_replaced`: edited texts supersede the earlier ones instead of deleting them.
        """
        return Sync(self._storage, self._writer, self._deletion, self._scope(scope), keep_replaced=keep_replaced)

    def supersede(self, memory_id: str | int, *older_ids: str | int) -> documents.SupersedeResult:
        """Let a memory supersede earlier ones: they are kept, but left out of searches."""
        return self._superseding.supersede(memory_id, older_ids)

    def release(self, memory_id: str | int, *older_ids: str | int) -> documents.SupersedeResult:
        """Undo `supersede`."""
        return self._superseding.release(memory_id, older_ids)

    def merge(self, memory_id: str | int, *older_ids: str | int) -> documents.SupersedeResult:
        """Let a memory supersede its near copies and take over their tags. Raises ValidationError otherwise."""
        return self._superseding.merge(memory_id, older_ids)

    def dismiss(self, memory_id: str | int) -> models.Result:
        """Forget the later memories on a memory's subject: none of them corrects it."""
        return self._review.dismiss(memory_id)

    def delete_memory(self, memory_id: str | int, *, by: str | None = None) -> documents.DeleteResult:
        """Delete a memory with everything derived from it. `by`: an agent; for some hours, a person can undo it."""
        return self._deletion.delete(memory_id, by=by)

    def pin(self, memory_id: str | int) -> documents.AmendResult:
        """Pin a memory: it leads its session's contexts, and neither age nor policies remove it."""
        return self._amending.pin(memory_id, pinned=True)

    def unpin(self, memory_id: str | int) -> documents.AmendResult:
        """Undo `pin`."""
        return self._amending.pin(memory_id, pinned=False)

    def amend_memory(
        self,
        memory_id: str | int,
        *,
        title: str | None = None,
        description: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> documents.AmendResult:
        """Change a memory's title, description or tags; None leaves one as it is, "" or [] removes it."""
        return self._amending.amend(memory_id, title=title, description=description, tags=tags)

    def tag_memory(
        self, memory_id: str | int, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> documents.AmendResult:
        """Add tags to a memory, and remove others; the rest stay."""
        return self._amending.tag(memory_id, add=add, remove=remove)

    def cleanup_old_memories(
        self, days_old: int = 90, *, dry_run: bool = True, by: str | None = None
    ) -> overview.CleanupResult:
        """Delete the memories older than `days_old` days unless they are pinned; a dry run only counts them."""
        return self._deletion.clean_up(days_old, dry_run=dry_run, by=by)

    def erase_expired(self) -> int:
        """Overwrite the bytes of expired memories; return their number. A server does so in the background."""
        return self._deletion.erase_expired()

    def backfill_embeddings(self, on_progress: Notify = None) -> overview.BackfillResult:
        """Compute missing vectors; `on_progress(done, total)` follows each memory. Raises EmbeddingUnavailableError."""
        return self._backfill.run(on_progress)

    def reembed(self, on_progress: Notify = None) -> Reembedded:
        """Recompute all vectors while servers keep answering. Raises EmbeddingUnavailableError, DatabaseError."""
        return self._backfill.reembed(on_progress)

    def export_memories(
        self,
        target: Stream,
        session_id: str | None = None,
        *,
        with_vectors: bool = False,
        as_of: str = ANY,
        on_progress: Notify = None,
    ) -> Exported:
        """Write a session's memories, or all, as JSON Lines; `as_of`: only those current at a time.

        Raises NotFoundError for a session without any.
        """
        scope = Scope(session_id=session_id, as_of=as_of)
        return self._transfer.write(target, scope, with_vectors=with_vectors, on_progress=on_progress)

    def get_space(self, limit: int) -> tuple[dict[str, list["Size"]], "Room | None"]:
        """Return the largest sessions and kinds with their sizes, and the room in this memory's file, if it has one."""
        from vector_memory.upkeep.backup import file_of, room_in  # noqa: PLC0415 - only people ask

        return self._overview.sizes(limit), room_in(file_of(self._address)) if self.is_file else None

    def shrink(self) -> models.Result:
        """Give the unused part of this memory's file back to the disk. Raises ConfigurationError if it has no file."""
        from vector_memory.upkeep.backup import file_of, shrink  # noqa: PLC0415 - only people ask

        return shrink(file_of(self._address))

    def back_up(self, target: Path) -> "CopiedFile":
        """Copy this memory to a new file while it is in use. Raises ConfigurationError if it is in PostgreSQL."""
        from vector_memory.upkeep.backup import back_up, file_of  # noqa: PLC0415 - no server copies files

        return back_up(file_of(self._address), target)

    def import_memories(
        self, source: Stream, *, as_session: str | None = None, on_progress: Notify = None, most: Trust = Trust.HIGH
    ) -> Imported:
        """Add the memories of an export, a seekable stream, to their session or to one named `as_session`.

        `most`: how far they are trusted at most.
        Skips those already stored. Raises ValidationError, having changed nothing, for an invalid line.
        """
        return self._transfer.read(source, as_session, on_progress, most)

    def get_search_statistics(self) -> overview.SearchStatistics:
        """Return the latencies of this process's latest searches, of a limited view those of its sessions."""
        return self._timer.statistics()
