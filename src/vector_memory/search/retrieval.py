"""Reads the data for a question in one snapshot of the memory, and finds the best units."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vector_memory.domain import ANY, STORED, TRAITS, MemoryKind, Page, Scope, SearchMode
from vector_memory.domain.times import microseconds
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.token_states import Compared, States, compare
from vector_memory.errors import ClosedMemoryError, EmbeddingUnavailableError, ValidationError
from vector_memory.search import rank
from vector_memory.search.gate import asks_for_amount, deciding_words
from vector_memory.search.later import BEGINNING, LaterFields, fields_of, newer_memories
from vector_memory.search.messages import not_indexed
from vector_memory.search.question import Question, prepare, without_dates
from vector_memory.settings import Settings
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.cancellation import give_way
from vector_memory.storage.connection import Steps
from vector_memory.storage.damaged import require_all
from vector_memory.storage.postings import buckets_of
from vector_memory.storage.records import ChunkOutline, Memory, Origin, Pending, StoredChunk
from vector_memory.storage.scoring import LATE_UNITS, NOTHING_TYPED, Vectors
from vector_memory.texts.terms import searchable_text

if TYPE_CHECKING:
    from vector_memory.writing.background import BackgroundVectors

PATIENCE_SECONDS = 20.0
"""How long after a memory was stored a search waits for its vectors. A quiet machine needs a fraction of a second, a
busy one several. Vectors missing for longer may never come."""

MOST_PENDING = 100_000
"""Bytes of text without vectors. Computing more takes seconds even on a quiet machine, so no search waits for them,
unless this process itself computes fewer."""

AS_LONG_AS = 200
"""The overhead of each memory in bytes of text, by the time it takes."""

MOST_WAITING = 8
"""Maximum number of waiting searches of a process. Further ones answer at once, so that threads are left for searches
that need not wait."""

POLL_SECONDS = 0.01

_places_to_wait = threading.BoundedSemaphore(MOST_WAITING)

EVERYTHING = Scope(as_of=STORED)

DEPTH = 50
"""Number of best units of each list compared first; usually enough for ten results."""

IN_ONE_GO = 60_000_000
"""Microseconds: memories that an agent stores within this time belong together."""

MOST_CHARACTERS = 20_000
"""Longer texts are not compared to find copies: that would take longer than the search."""

MAX_DEPTH = DEPTH * rank.GROWTH**4  # the longest list: a search that needs a longer one gives up and says so


class Awaited(NamedTuple):
    """Vectors to wait for: those of a scope's memories with ids up to `last_id`.

    `owner`: the process that computes them; None: any.
    """

    scope: Scope
    last_id: int | None
    owner: str | None = None


class Expected(NamedTuple):
    """What a search probably needs besides the ranking: matches elsewhere, texts of copies, outlines of sections.

    `memories`: results are whole memories.
    """

    elsewhere: bool = False
    copies: bool = False
    sections: bool = False
    memories: bool = False


NOTHING_ELSE = Expected()


class First(NamedTuple):
    """The first reads of a search: the number of memories `missing` vectors, and the `pending` vectors of the scope.

    `everywhere`: the pending vectors of all scopes. `found`: None if the scope is not of one kind, or must be read
    again. `around`: the data for `Others`, if read. `wanted`: what else the search probably needs.
    """

    missing: int
    pending: Pending
    everywhere: Pending
    found: rank.ScopeData | None
    around: Sequence[Any] = ()
    wanted: Expected = NOTHING_ELSE


class Ahead(NamedTuple):
    """Data read along with the token states, before it is known to be needed, if that saves a round trip.

    `chunks`, `memories`: of the first hits, by id, without long memories. `outlines`: of their documents, in order.
    `others`: the reads of `Others`.
    """

    chunks: Mapping[int, StoredChunk] = MappingProxyType({})
    memories: Mapping[int, Memory] = MappingProxyType({})
    outlines: Sequence[ChunkOutline] = ()
    others: Sequence[Any] = ()


NOTHING_READ, NOTHING_AHEAD = First(0, Pending(), Pending(), None), Ahead()


class Retriever:
    """Prepares questions, and opens snapshots to answer them.

    `threshold`: results with a lower similarity are dropped; None: none are.
    """

    def __init__(
        self, storage: Storage, model: EmbeddingModel, background: "BackgroundVectors", settings: Settings
    ) -> None:
        self._storage = storage
        self._model = model
        self._background = background
        self._mode = settings.search_mode
        self._compares_tokens = settings.late_interaction
        self.names_later = settings.later
        self._folds_copies = settings.fold_copies
        self._method = rank.Method(settings.vector_search_batch_size, settings.use_iterative_fetching)
        self.threshold = settings.similarity_threshold if settings.use_threshold_filtering else None

    @property
    def is_ready(self) -> bool:
        """Whether a query can be compared by meaning without waiting for the model."""
        return self._model.is_ready

    def folds(self, scope: Scope, page: Page) -> bool:
        """Whether to merge near copies into the newest of them.

        Not if superseded memories are included: the newest may be one.
        """
        return self._folds_copies and page.folds and scope.as_of != ANY

    def later_of(
        self, reader: Reader, memory_ids: Sequence[int], scope: Scope, page: Page | None = None
    ) -> Steps[LaterFields]:
        """Read the fields that name newer memories on the subjects of results; none if the settings disable them.

        Only the scope's session limits them, no other filter.
        """
        if not self.names_later:
            return {}
        within = Scope(session_id=scope.session_id, as_of=scope.as_of)
        found = yield from newer_memories.steps(reader, memory_ids, within, BEGINNING)
        is_all = page is None or not page.is_part  # otherwise a memory, and its text, may be left out
        return {number: fields_of(newer, memory_ids if is_all else ()) for number, newer in found.items()}

    def require_comparable(self, reader: Reader) -> None:
        """Raise EmbeddingUnavailableError if queries cannot be compared with the stored vectors."""
        reader.vectors.require_comparable(self._model.fingerprint)

    def prepare(self, query: str, mode: SearchMode | None = None, scope: Scope = EVERYTHING) -> Question:
        """Turn a query into a question, by default in the mode of the settings. Does not read the memory.

        Removes dates within the scope's time. Raises ValidationError, EmbeddingUnavailableError.
        """
        question = prepare(without_dates(query, scope), self._model, mode or self._mode)
        return question if self._compares_tokens else replace(question, states=None)

    @contextmanager
    def answering(self, question: Question, scope: Scope, wanted: Expected = NOTHING_ELSE) -> Iterator["Retrieval"]:
        """Yield a retrieval over one snapshot. It compares only words if the stored vectors are from another model.

        A search by meaning first waits for pending vectors of the scope, from any process, if likely to be ready
        soon. Raises EmbeddingUnavailableError if the mode requires meaning, which cannot be compared.
        """
        with self._storage.read() as reader:
            first = self._first(reader, question, scope, wanted)
            awaited = None if question.vector is None else self._awaited(reader, first, scope)
            if awaited is None:
                yield self.within(reader, question, scope, first)
                return
        self.wait(awaited, time.monotonic() + PATIENCE_SECONDS)
        with self._storage.read() as reader:
            yield self.within(reader, question, scope, self._first(reader, question, scope, wanted))

    def wait_for_vectors(self, scopes: Sequence[Scope], seconds: float) -> None:
        """Wait a limited time for vectors of several scopes that are likely to be ready soon."""
        deadline = time.monotonic() + seconds
        with self._storage.read() as reader:
            awaited = [awaited_in(reader, scope, None) for scope in scopes]
        for one in filter(None, awaited):
            self.wait(one, deadline)

    def wait(self, awaited: Awaited, deadline: float) -> None:
        """Wait while vectors are likely to be ready soon; return at once if many searches are waiting."""
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

    def _first(self, reader: Reader, question: Question, scope: Scope, wanted: Expected) -> First:
        """Make the first reads of a search, in one round trip."""
        if not reader.vectors.begin_ahead(None if question.vector is None else self._model.fingerprint):
            question = replace(question, vector=None)  # `within` reports the other model
        looks = wanted.elsewhere and reader.reads_ahead and question.tells_matches
        beside = around(reader, scope) if looks else []
        everywhere, missing, *found = reader.together(
            reader.vectors.pending.steps(EVERYTHING),
            reader.memories.count.steps(scope, without_vectors=True),
            *rank.reads(reader, scope, question),
            *beside,
        )
        found, known = found[: len(found) - len(beside)], found[len(found) - len(beside) :]
        if not reader.vectors.end_ahead():  # the model is changing
            found, known, missing = [], [], reader.memories.count(scope, without_vectors=True)
        pending = reader.vectors.pending(scope) if everywhere.memories else everywhere
        return First(missing, pending, everywhere, rank.ScopeData(*found) if found else None, known, wanted)

    def _awaited(self, reader: Reader, first: First, scope: Scope) -> Awaited | None:
        if comes_soon(first.pending, first.everywhere):
            return Awaited(scope, first.pending.last_id)
        # Other processes may have much to do, and this one little.
        return awaited_in(reader, scope, self._background.owner) if first.pending.memories else None

    def within(self, reader: Reader, question: Question, scope: Scope, first: First | None = None) -> "Retrieval":
        """Return a retrieval over the caller's snapshot, without waiting for vectors."""
        try:
            if question.vector is not None:
                reader.vectors.require_comparable(self._model.fingerprint)
        except EmbeddingUnavailableError as error:
            if question.terms is None:
                raise
            question = question.by_words(str(error))
        return Retrieval(reader, question, scope, self._method, self.threshold, first)

    def near(self, reader: Reader, vector: Vectors, scope: Scope) -> "Retrieval":
        """Return a retrieval for a stored unit vector, shape (dimensions,). It needs no model."""
        return Retrieval(reader, Question(vector, None), scope, self._method, None)


def awaited_in(reader: Reader, scope: Scope, owner: str | None, last_id: int | None = None) -> Awaited | None:
    """Return the vectors of a scope, with ids up to `last_id`, that are worth waiting for; None: none."""
    pending = reader.vectors.pending(scope, last_id, owner)
    if not pending.memories or not comes_soon(pending, reader.vectors.pending(EVERYTHING, owner=owner)):
        return None
    return Awaited(scope, pending.last_id, owner)


def comes_soon(pending: Pending, everywhere: Pending) -> bool:
    """Whether pending vectors are likely to be ready soon, given everything that is pending."""
    size = everywhere.size + AS_LONG_AS * everywhere.memories
    return pending.seconds is not None and pending.seconds < PATIENCE_SECONDS and size <= MOST_PENDING


class Retrieval:
    """Finds the units of a scope in one snapshot. `search.rank` decides which scopes are compared completely.

    `question`: as it was compared, with spelling corrections.
    """

    def __init__(
        self,
        reader: Reader,
        question: Question,
        scope: Scope,
        method: rank.Method,
        threshold: float | None,
        first: First | None = None,
    ) -> None:
        self.reader = reader
        self.question = question
        self.scope = scope
        self.threshold = threshold
        self._method = method
        self.first = first or NOTHING_READ
        self.ahead, self.others = NOTHING_AHEAD, Others(scope, *self.first.around) if self.first.around else None
        self._ranking: rank.Ranking | None = None

    def find(self, count: int, *, memories: bool = False) -> rank.SearchHits:
        """Find the `count` best units of the scope, or with `memories` the memories with the best units.

        Raises ValidationError if the scope is not of one kind.
        """
        wanted = count
        while True:
            found = self._best(wanted, memories=memories)
            hits = [hit for hit in found.hits if self.is_similar_enough(hit.similarity)]
            if len(hits) >= count or len(found.hits) < wanted or wanted >= MAX_DEPTH:
                return found._replace(hits=hits[:count])
            wanted = min(wanted * rank.GROWTH, MAX_DEPTH)

    def everything(self) -> rank.SearchHits:
        """Return the best units of the scope, up to MAX_DEPTH, including those below the threshold."""
        return self._best(MAX_DEPTH)

    def matches_elsewhere(self) -> dict[str, int]:
        """Count the units near the question in other scopes, by name."""
        others = self.others or Others(self.scope, *self.reader.together(*around(self.reader, self.scope)))
        found = self.ahead.others or self.reader.together(*others.reads(self.reader, self.question))
        return others.counts(self.reader, self.question, found, self.threshold)

    def is_similar_enough(self, similarity: float | None) -> bool:
        """Whether a hit with this similarity passes the threshold."""
        return self.threshold is None or similarity is None or similarity >= self.threshold

    def _best(self, count: int, *, memories: bool = False) -> rank.SearchHits:
        if self.scope.kind is None:
            raise ValidationError(f"A search needs one memory_type: {', '.join(MemoryKind)}.")
        ranking = self._ranking = self._ranking or self._ranked()
        if (question := self.question.states) is None:
            found = ranking.best(count, max(DEPTH, count), memories=memories)
            if day := self.question.day:
                found = rank.with_stored_on(found, self.reader, self.scope, day, memories=memories)
            return self._known(found._replace(hits=found.hits[:count]), self.scope.kind)
        wanted = LATE_UNITS if memories else max(count, LATE_UNITS)
        units = ranking.best(wanted, max(DEPTH, wanted))
        others = ranking.best(count, max(DEPTH, count), memories=True) if memories else units
        units = self._compared(units, self.scope.kind, question, others.hits if memories else [])
        late = {unit: one.score for unit, one in units.compared.items()}
        lowest = min(late.values(), default=0.0)
        hits = rank.late_hits(units.hits, late, lowest) if late else units.hits
        if memories:
            best = {hit.memory_id: hit.id for hit in reversed(hits)}
            behind = rank.late_hits(others.hits, {}, lowest) if late else others.hits
            compared = {number: units.compared[unit] for number, unit in best.items() if unit in units.compared}
            texts = {number: units.texts[unit] for number, unit in best.items() if unit in units.texts}
            units = others._replace(compared=compared, links=units.links, origins=units.origins, texts=texts)
            hits = rank.best_of_each_memory([*hits, *behind])
        return units._replace(hits=hits[:count])

    def _ranked(self) -> rank.Ranking:
        reader, scope = self.reader, self.scope
        found = self.first.found or rank.ScopeData(*reader.together(*rank.reads(reader, scope, self.question)))
        ranking = rank.Ranking(reader.vectors.candidates, scope, self.question, found, method=self._method)
        if self.question.plain and (respelt := ranking.respelt(reader)):
            self.question = self.question.read_as(respelt)
            found = rank.ScopeData(*reader.together(*rank.reads(reader, scope, self.question)))
            ranking = rank.Ranking(reader.vectors.candidates, scope, self.question, found, method=self._method)
        return ranking

    def _compared(
        self, units: rank.SearchHits, kind: MemoryKind, question: States, memories: Sequence[rank.Hit]
    ) -> rank.SearchHits:
        """Compare the first units token by token, and read the links and origins of their memories.

        Ignores links between memories noted together. Compares nothing if a unit has no vector yet or no token states.
        `memories`: the best hits in a search for whole memories.
        """
        first = units.hits[:LATE_UNITS]
        if any(hit.similarity is None for hit in first):
            return self._known(units, kind, memories)
        asked = self.question.text
        decides = bool(deciding_words(asked)) or asks_for_amount(asked)
        wanted = [hit.id for hit in first] if decides else []
        chunked = TRAITS[kind].chunked
        states, linked, chunks, whole, origins = self._read(
            units,
            kind,
            memories,
            self.reader.vectors.token_states.steps(kind, [hit.id for hit in first]),
            self.reader.links.among.steps(sorted({hit.memory_id for hit in first})),
            self.reader.chunks.get_all.steps(wanted if chunked else []),
            self.reader.memories.get_all.steps([] if chunked else wanted),
        )
        texts = {unit: searchable_text(one.title, (), one.content) for unit, one in whole.items()}
        for unit, one in chunks.items():
            texts[unit] = searchable_text(origins[one.memory_id].title, one.chunk.headings, one.chunk.text)
        late: Mapping[int, Compared] = compare(question, states)
        links = [one for one in linked if not noted_together(origins[one.older_id], origins[one.newer_id])]
        return units._replace(compared=late, links=links if late else [], origins=origins, texts=texts if late else {})

    def _known(self, units: rank.SearchHits, kind: MemoryKind, memories: Sequence[rank.Hit] = ()) -> rank.SearchHits:
        """Read ahead for units that are not compared token by token."""
        if not self.reader.reads_ahead or not units.hits or self.first.wanted == NOTHING_ELSE:
            return units
        (origins,) = self._read(units, kind, memories)
        return units._replace(origins=origins)

    def _read(
        self, units: rank.SearchHits, kind: MemoryKind, memories: Sequence[rank.Hit], *needed: Steps[Any]
    ) -> list[Any]:
        """Run the `needed` reads and one for the origins of the first units' and other `memories`, which comes last.

        Also fills `ahead`, once, if that saves a round trip.
        """
        reader, wanted, first = self.reader, self.first.wanted, [*units.hits[:LATE_UNITS], *memories[:LATE_UNITS]]
        numbers = sorted({hit.memory_id for hit in first})
        reads = [*needed, reader.memories.origins.steps(numbers)]
        if not reader.reads_ahead or self.ahead is not NOTHING_AHEAD:
            return reader.together(*reads)
        has_chunks = TRAITS[kind].chunked and not wanted.sections and not wanted.memories
        asked = ([hit.id for hit in first] if has_chunks else numbers) if wanted.copies else []
        level, share = self.question.calibration.level, units.coverage
        is_close = any(level(hit.similarity or 0.0, share * (hit.words or 0.0)) == "strong" for hit in first)
        found = reader.together(
            *reads,
            reader.chunks.get_all.steps(asked if has_chunks else []),
            reader.memories.get_all.steps([] if has_chunks else asked, MOST_CHARACTERS),
            reader.chunks.outlines.steps(numbers if wanted.sections else []),
            *([] if is_close or self.others is None else self.others.reads(reader, self.question)),
        )
        chunks, texts, outlines, *others = found[len(reads) :]
        self.ahead = Ahead(chunks, texts, outlines, others)
        return found[: len(reads)]


def find_among(retrievals: Sequence[Retrieval], count: int, *, memories: bool = False) -> rank.SearchHits:
    """Search several scopes, best first. Either all hits have late scores, or none."""
    for one in retrievals:
        one.question = replace(one.question, plain=NOTHING_TYPED)  # a word that one scope lacks, another may have
    found = [one.find(count, memories=memories) for one in retrievals]
    if len({hit.late is None for part in found for hit in part.hits}) > 1:
        for one in retrievals:
            one.question = replace(one.question, states=None)
        found = [one.find(count, memories=memories) for one in retrievals]
    return rank.merged_hits(found)


def note_on_missing(reader: Reader, scope: Scope) -> str | None:
    """Report memories of the scope that still lack vectors; None if there are none."""
    missing = reader.memories.count(scope, without_vectors=True)
    return not_indexed(missing, reader.vectors.pending(scope).memories) if missing else None


def noted_together(one: Origin, other: Origin) -> bool:
    """Whether an agent stored two memories of a session together: two findings, no correction."""
    is_same = (one.session_id, one.agent_id) == (other.session_id, other.agent_id)
    return is_same and abs(microseconds(one.created_at) - microseconds(other.created_at)) < IN_ONE_GO


class Near(NamedTuple):
    """A memory with the cosine of its nearest passage."""

    memory: Memory
    cosine: float


def nearest_to(reader: Reader, retriever: Retriever, memory_id: int, count: int) -> Sequence[Near]:
    """Return the `count` memories of any kind and session nearest to a memory's mean vector, nearest first.

    None if the memory has no vector.
    """
    _, means = reader.vectors.mean_vectors([memory_id])
    if not len(means) or not np.any(means):
        return []
    vector = means[0] / np.linalg.norm(means[0])
    found = find_among([retriever.near(reader, vector, Scope(kind)) for kind in MemoryKind], count + 1, memories=True)
    hits = [hit for hit in found.hits if hit.memory_id != memory_id and hit.similarity is not None][:count]
    memories = reader.memories.get_all([hit.memory_id for hit in hits])
    require_all(memories, (hit.memory_id for hit in hits))
    return [Near(memories[hit.memory_id], hit.similarity or 0.0) for hit in hits]


# Matches elsewhere, if a scope has nothing close: outside its filters, and of other kinds.


UNSEARCHED = (MemoryKind.TAGGED, MemoryKind.KNOWLEDGE_BASE)
"""Kinds outside sessions, which are not searched as kinds of a session."""

WITHOUT: dict[str, dict[str, Any]] = {
    "other_times": {"created_after": None, "created_before": None},
    "other_iterations": {"session_iter": None},
    "other_agents": {"agent_id": None},
    "other_tasks": {"task_code": None},
    "other_categories": {"category": None, "tags": ()},
}
"""Filters that a caller may have sent, with their defaults."""


def around(reader: Reader, scope: Scope) -> list[Steps[Any]]:
    """Return the reads that determine a scope's `Others`: the start of the newest passages, and the session's kinds."""
    oldest = reader.vectors.candidates.oldest_of_newest.steps(Scope(), rank.PROBED)
    if scope.kind is MemoryKind.TAGGED:
        return [oldest]
    within = Scope(session_id=scope.session_id, as_of=STORED)  # hidden memories are left out when counting
    return [oldest, reader.memories.count_by.steps(within, "kind")]


class Others:
    """The other scopes of a search. `oldest`: the memory of the first of the newest passages.

    `kinds`: those in its session.
    """

    def __init__(self, scope: Scope, oldest: int, kinds: Iterable[str] = ()) -> None:
        self._besides = scope.session_id
        since = max(oldest - 1, scope.after_id or 0) or None
        others = other_scopes(scope, kinds)
        self._scopes = (
            others if since is None else {name: replace(each, after_id=since) for name, each in others.items()}
        )

    def reads(self, reader: Reader, question: Question) -> list[Steps[Any]]:
        """Return the reads for `counts`, which are independent of each other."""
        source, buckets, besides = reader.vectors.candidates, buckets_of(question.terms or ()), self._besides
        scopes, vector = self._scopes.values(), question.vector
        return [
            *(source.indexed.steps(scope, buckets) for scope in scopes),
            *([] if besides is None else [source.memories_in.steps(Scope(session_id=besides, as_of=STORED))]),
            *(
                source.likeliest_ahead.steps(scope, vector, rank.MOST_COMPARED, rank.PROBED, besides)
                for scope in scopes
                if vector is not None
            ),
        ]

    def counts(
        self, reader: Reader, question: Question, found: Sequence[Any], threshold: float | None
    ) -> dict[str, int]:
        """Count the strong matches of each scope that has any, up to COUNTED.

        Scopes without a session leave out the searched one. Compares only the likeliest of the newest passages.
        `found`: the results of `reads`.
        """
        rest = iter(found)
        indexed = [next(rest) for _ in self._scopes]
        besides = [] if self._besides is None else next(rest)
        ahead = dict(zip(self._scopes, rest, strict=False))
        rankings: dict[str, rank.Ranking] = {}
        for (name, scope), one in zip(self._scopes.items(), indexed, strict=True):
            left_out = besides if scope.session_id is None else ()
            if one.units.without(left_out).count:
                rankings[name] = rank.Ranking(
                    reader.vectors.candidates, scope, question, rank.ScopeData(one), besides=left_out
                )
        missing = [name for name in rankings if ahead.get(name) is None]
        likely = ahead | dict(
            zip(missing, reader.together(*(rankings[name].likeliest() for name in missing)), strict=True)
        )
        counts = {name: ranking.count_strong(likely[name], threshold) for name, ranking in rankings.items()}
        return {name: min(rank.COUNTED, count) for name, count in counts.items() if count}


def other_scopes(scope: Scope, kinds: Iterable[str] = ()) -> dict[str, Scope]:
    """Return the scopes to search if a scope has no close match, by name. `kinds`: those in its session."""
    others = {
        name: replace(scope, **without)
        for name, without in WITHOUT.items()
        if any(getattr(scope, filtered) for filtered in without)
    }
    if scope.kind is MemoryKind.TAGGED:
        return others
    if scope.session_id is not None:
        others["other_sessions"] = replace(scope, session_id=None, session_iter=None)
    window = Scope(created_after=scope.created_after, created_before=scope.created_before, as_of=scope.as_of)
    for name in kinds:
        if name in set(MemoryKind) - {scope.kind, *UNSEARCHED}:
            others[name] = replace(window, kind=MemoryKind(name), session_id=scope.session_id)
    if scope.kind is not MemoryKind.KNOWLEDGE_BASE:
        others[str(MemoryKind.KNOWLEDGE_BASE)] = replace(window, kind=MemoryKind.KNOWLEDGE_BASE)
    return others
