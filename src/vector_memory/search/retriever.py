"""Turns a query into a retrieval, which finds matches by meaning, by words, or by both."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from vector_memory.domain import ANY, STORED, Page, Scope, SearchMode
from vector_memory.domain.validation import MAX_QUERY, check_text
from vector_memory.embedding import EmbeddingModel
from vector_memory.errors import ClosedMemoryError, EmbeddingUnavailableError
from vector_memory.indexing.background import BackgroundVectors
from vector_memory.search.confidence import Judgement, judge
from vector_memory.search.later import LaterFields, later_fields
from vector_memory.search.question import Question, prepare, without_dates
from vector_memory.search.retrieval import Known, Retrieval
from vector_memory.search.scan import Found, Method, reads
from vector_memory.settings import Settings
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.cancellation import give_way
from vector_memory.storage.connection import Steps
from vector_memory.storage.records import Pending
from vector_memory.storage.scoring import Vectors

PATIENCE_SECONDS = 20.0
"""How long a search waits, from when a memory was stored, for vectors that some process is computing. A quiet machine
needs a fraction of a second, a busy one several. Vectors that are missing for longer may never come."""

PATIENCE_ELSEWHERE_SECONDS = 2.0
"""How long it waits for those outside its scope, of which an answer says only where there are closer matches."""

MOST_PENDING = 100_000
"""If texts of more bytes than this wait for their vectors, computing them takes seconds even on a quiet machine: no
search waits, unless this process has promised less and stored what it waits for itself."""

AS_LONG_AS = 200
"""Bytes of text whose vectors take as long as what each memory needs beside its text."""

MOST_WAITING = 8
"""Searches of all memories of a process that wait at the same time. Further ones answer at once, so that there are
threads left for those that need not wait."""

POLL_SECONDS = 0.01

_places_to_wait = threading.BoundedSemaphore(MOST_WAITING)

EVERYTHING = Scope(as_of=STORED)


class Awaited(NamedTuple):
    """Vectors to wait for: of memories of a scope with ids up to `last_id`. `owner`: the process that computes them.

    `owner` None: any.
    """

    scope: Scope
    last_id: int | None
    owner: str | None = None


class Retriever:
    """Prepares questions, and answers them from one snapshot of the memory.

    `threshold`: less similar results are dropped; None: all are kept.
    """

    def __init__(
        self,
        storage: Storage,
        model: EmbeddingModel,
        background: BackgroundVectors,
        settings: Settings,
    ) -> None:
        self._storage = storage
        self._model = model
        self._background = background
        self._mode = settings.search_mode
        self._compares_tokens = settings.late_interaction
        self.names_later = settings.later
        self._folds_copies = settings.fold_copies
        self._method = Method(settings.vector_search_batch_size, settings.use_iterative_fetching)
        self.threshold = settings.similarity_threshold if settings.use_threshold_filtering else None

    @property
    def is_ready(self) -> bool:
        """Whether a query can be compared by meaning without waiting for the model."""
        return self._model.is_ready

    def folds(self, scope: Scope, page: Page) -> bool:
        """Return whether near copies among the results of a page are put under the newest of them.

        If memories of any time are wanted, the newest may be superseded.
        """
        return self._folds_copies and page.folds and scope.as_of != ANY

    def later_of(
        self, reader: Reader, memory_ids: Sequence[int], scope: Scope, page: Page | None = None
    ) -> Steps[LaterFields]:
        """Read the fields of results that name newer memories on their subjects, as far as the settings want them.

        These are of the session of the scope, or of all: other filters do not apply to them.
        """
        if not self.names_later:
            return {}
        is_all = page is None or not page.is_part  # or else others may be left out, and their texts with them
        return (yield from later_fields(reader, memory_ids, scope, memory_ids if is_all else ()))

    def require_comparable(self, reader: Reader) -> None:
        """Raise EmbeddingUnavailableError if queries cannot be compared with the stored vectors."""
        reader.require_comparable(self._model.fingerprint)

    def prepare(self, query: str, mode: SearchMode | None = None, scope: Scope = EVERYTHING) -> Question:
        """Turn a query into a question, in the mode of the settings by default. Does not read the memory.

        Dates in the time of the scope are left out of it. Raises ValidationError, EmbeddingUnavailableError.
        """
        check_text("query", query, MAX_QUERY)
        question = prepare(without_dates(query, scope), self._model, mode or self._mode)
        return question if self._compares_tokens else replace(question, states=None)

    @contextmanager
    def answering(self, question: Question, scope: Scope) -> Iterator["Retrieval"]:
        """Yield a retrieval over one snapshot. It compares only words if the stored vectors are of another model.

        A search by meaning first waits for vectors of what was stored in the scope before it, by any process, if they
        are likely to come soon. Raises EmbeddingUnavailableError if only meaning may be compared, and cannot be.
        """
        with self._storage.read() as reader:
            awaited, known = self._at_first(reader, scope, question)
            if question.vector is None or awaited is None:
                yield self.within(reader, question, known)
                return
        self._wait_for_vectors(awaited, time.monotonic() + PATIENCE_SECONDS)
        with self._storage.read() as reader:
            _, known = self._at_first(reader, scope, question)
            yield self.within(reader, question, known)

    @contextmanager
    def judging(
        self, question: Question, scope: Scope, count: int, page: Page, *, memories: bool = False
    ) -> Iterator[tuple["Retrieval", Judgement]]:
        """Yield a retrieval over one snapshot, and how well the `count` best units or `memories` of the scope match.

        A search that finds nothing close also waits for vectors outside the scope: else what is said of matches there
        would depend on how fast these come.
        """
        with self.answering(question, scope) as retrieval:
            found = retrieval.find(scope, count, memories=memories)
            judgement = judge(retrieval, scope, found, only_here=page.only_here)
            pending = retrieval.known.everywhere if retrieval.known is not None else Pending()
            is_sure = page.only_here or question.vector is None or judgement.confidence == "strong"
            if is_sure or not comes_soon(pending, pending):
                yield retrieval, judgement
                return
        deadline = time.monotonic() + PATIENCE_ELSEWHERE_SECONDS
        self._wait_for_vectors(Awaited(EVERYTHING, pending.last_id), deadline)
        with self.answering(question, scope) as retrieval:
            yield retrieval, judge(retrieval, scope, retrieval.find(scope, count, memories=memories))

    def wait_for_vectors(self, scopes: Sequence[Scope], seconds: float) -> None:
        """Wait a limited time for the vectors of several scopes that are likely to come soon."""
        deadline = time.monotonic() + seconds
        with self._storage.read() as reader:
            awaited = [awaited_in(reader, scope, None) for scope in scopes]
        for one in filter(None, awaited):
            self._wait_for_vectors(one, deadline)

    def _wait_for_vectors(self, awaited: Awaited, deadline: float) -> None:
        """Wait while vectors are likely to come soon; return at once if many searches are waiting."""
        if not _places_to_wait.acquire(blocking=False):
            return
        give_way.get()()
        try:
            while time.monotonic() < deadline:
                if not self._background.pause(POLL_SECONDS):
                    raise ClosedMemoryError
                with self._storage.read() as reader:
                    if awaited_in(reader, awaited.scope, awaited.owner, awaited.last_id) is None:
                        return
        finally:
            _places_to_wait.release()

    def _at_first(self, reader: Reader, scope: Scope, question: Question) -> tuple[Awaited | None, "Known"]:
        """Return which vectors are worth waiting for, and what else a search of the scope asks for."""
        if not reader.begin_ahead(None if question.vector is None else self._model.fingerprint):  # `within` says it
            question = replace(question, vector=None)
        visible = reader.visible(scope)
        everywhere, missing, *found = reader.together(
            reader.pending.steps(EVERYTHING),
            reader.count.steps(scope, without_vectors=True),
            *reads(reader, visible, question),
        )
        if not reader.end_ahead():  # the model is being changed
            found, missing = [], reader.count(scope, without_vectors=True)
        pending = reader.pending(scope) if everywhere.memories else everywhere
        is_soon = comes_soon(pending, everywhere)
        awaited = Awaited(scope, pending.last_id) if is_soon else None
        if pending.memories and not is_soon:  # others may have much to do, and this process little
            awaited = awaited_in(reader, scope, self._background.owner)
        return awaited, Known(
            scope, missing, pending.memories, everywhere, visible, question.terms, Found(*found) if found else None
        )

    def within(self, reader: Reader, question: Question, known: "Known | None" = None) -> "Retrieval":
        """Return a retrieval over the snapshot of the caller. Waits for no vectors."""
        try:
            if question.vector is not None:
                reader.require_comparable(self._model.fingerprint)
        except EmbeddingUnavailableError as error:
            if question.terms is None:
                raise
            question = question.by_words(str(error))
        return Retrieval(reader, question, self._method, self.threshold, known)

    def near(self, reader: Reader, vector: Vectors) -> Retrieval:
        """Return a retrieval of what is near a stored vector, a unit vector, shape (dimensions,). It needs no model."""
        return Retrieval(reader, Question(vector, None), self._method, None)


def awaited_in(reader: Reader, scope: Scope, owner: str | None, last_id: int | None = None) -> Awaited | None:
    """Return the vectors of a scope, with ids up to `last_id`, that are worth waiting for; None: there are none."""
    pending = reader.pending(scope, last_id, owner)
    if not pending.memories or not comes_soon(pending, reader.pending(EVERYTHING, owner=owner)):
        return None
    return Awaited(scope, pending.last_id, owner)


def comes_soon(pending: Pending, everywhere: Pending) -> bool:
    """Return whether vectors are likely to come soon, given all that is pending beside them."""
    size = everywhere.size + AS_LONG_AS * everywhere.memories
    return pending.seconds is not None and pending.seconds < PATIENCE_SECONDS and size <= MOST_PENDING
