"""From a query to the units that match best: by meaning, by words, or by both."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from vector_memory.domain import MemoryKind, Scope, SearchMode
from vector_memory.domain.validation import MAX_QUERY, check_text
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.token_states import States, bytes_per_state, late_scores
from vector_memory.errors import ClosedMemoryError, EmbeddingUnavailableError, ValidationError
from vector_memory.indexing.background import BackgroundVectors
from vector_memory.search.dates import without_dates
from vector_memory.search.fusion import (
    Hit,
    Horizon,
    SearchHits,
    best_of_each_memory,
    clipped,
    from_single,
    fuse,
    late_hits,
)
from vector_memory.search.index.loader import PassageIndex
from vector_memory.search.index.scan import Scan
from vector_memory.search.index.signatures import View
from vector_memory.search.index.units import Units
from vector_memory.search.messages import not_indexed
from vector_memory.search.question import Question, prepare
from vector_memory.settings import Settings
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.ranking import LATE_UNITS, CandidateSource, Match, Method, Ranked

DEPTH = 50
"""How many of the best units of each list are compared first; this usually settles ten results."""

GROWTH = 4

MAX_DEPTH = DEPTH * GROWTH**4
"""The longest list: a search that needs a longer one gives up and says so."""

PATIENCE_SECONDS = 2.0
"""How long a search waits for vectors of its scope that are being computed, by any process."""

BEHIND_SECONDS = 10.0
"""If vectors of a scope have been missing for so long, more are being stored than computed, or a very long text is
being embedded. Then no search waits: it would hardly ever get what it waits for."""

MANY_PENDING = 5
"""If so many memories wait for their vectors, they are not all computed in PATIENCE_SECONDS: no search waits."""

MOST_WAITING = 8
"""Searches of all memories of a process that wait at the same time. Further ones answer at once, so that there are
threads left for those that need not wait."""

POLL_SECONDS = 0.01

_places_to_wait = threading.BoundedSemaphore(MOST_WAITING)

EVERYTHING = Scope()


class Retriever:
    """Prepares questions, and answers them from one snapshot of the memory.

    `threshold`: less similar results are dropped; None: all are kept.
    """

    def __init__(
        self,
        storage: Storage,
        model: EmbeddingModel,
        index: PassageIndex,
        background: BackgroundVectors,
        settings: Settings,
    ) -> None:
        self._storage = storage
        self._model = model
        self._background = background
        self._mode = settings.search_mode
        self._compares_tokens = settings.late_interaction
        self._index = index if settings.use_iterative_fetching else None
        self._method = Method(settings.vector_search_batch_size, settings.use_iterative_fetching)
        self.threshold = settings.similarity_threshold if settings.use_threshold_filtering else None

    @property
    def is_ready(self) -> bool:
        """Whether a query can be compared by meaning without waiting for the model."""
        return self._model.is_ready

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

        A search by meaning first waits up to two seconds for vectors of the scope that are being computed, unless they
        are known to take longer or many searches wait already. Raises EmbeddingUnavailableError if only meaning may be
        compared, and cannot be.
        """
        with self._storage.read() as reader:
            is_worth, known = self._at_first(reader, scope, question.terms)
            if question.vector is None or not is_worth:
                yield self.within(reader, question, known)
                return
        self._wait_for_vectors(scope)
        with self._storage.read() as reader:
            _, known = self._at_first(reader, scope, question.terms)
            yield self.within(reader, question, known)

    def _wait_for_vectors(self, scope: Scope) -> None:
        """Wait while vectors of a scope are likely to come soon; not at all if many searches wait already."""
        if not _places_to_wait.acquire(blocking=False):
            return
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while time.monotonic() < deadline:
                if not self._background.pause(POLL_SECONDS):
                    raise ClosedMemoryError
                with self._storage.read() as reader:
                    if not is_worth_waiting(reader, scope):
                        return
        finally:
            _places_to_wait.release()

    def _at_first(self, reader: Reader, scope: Scope, terms: Sequence[str] | None) -> tuple[bool, "Known"]:
        """Return whether it is worth waiting for vectors, and what else a search of the scope asks for."""
        visible = reader.visible(scope)
        index = self._index if self._index is not None and self._index.is_used else None
        needs_members = index is not None and not Units.knows(visible)
        is_worth, missing, members, _ = reader.together(
            lambda reader: is_worth_waiting(reader, scope),
            lambda reader: reader.count(scope, without_vectors=True),
            lambda reader: reader.feed.memories_in(visible) if needs_members and reader.feed is not None else None,
            lambda reader: index.read_ahead(reader.feed, visible, terms) if index is not None and terms else None,
        )
        return is_worth, Known(scope, missing, visible, members)

    def within(self, reader: Reader, question: Question, known: "Known | None" = None) -> "Retrieval":
        """Return a retrieval over the snapshot of the caller. Waits for no vectors."""
        try:
            if question.vector is not None:
                self.require_comparable(reader)
        except EmbeddingUnavailableError as error:
            if question.terms is None:
                raise
            question = question.by_words(str(error))
        return Retrieval(reader, question, self._index, self._method, self.threshold, known)


@dataclass(frozen=True, slots=True)
class Known:
    """What was asked for at once: of `scope`, how many memories are `missing` vectors; of `visible`, the `members`.

    `members`: the ids of memories, or None.
    """

    scope: Scope
    missing: int
    visible: Scope
    members: Sequence[int] | None


def is_worth_waiting(reader: Reader, scope: Scope) -> bool:
    """Return whether a scope lacks vectors that somebody computes, and that are likely to come soon."""
    longest = reader.longest_pending(scope)
    return longest is not None and longest < BEHIND_SECONDS and reader.count_pending(EVERYTHING) < MANY_PENDING


class Retrieval:
    """Finds units in one snapshot. Results and their order are those of a comparison with the whole scope."""

    def __init__(
        self,
        reader: Reader,
        question: Question,
        index: PassageIndex | None,
        method: Method,
        threshold: float | None,
        known: Known | None = None,
    ) -> None:
        self._known = known
        self.reader = reader
        self.question = question
        self.threshold = threshold
        self._method = method
        self._view = index.view(reader.feed) if index is not None and index.is_used else None
        self._last_scan: tuple[Scope, int, Scan] | None = None

    def find(self, scope: Scope, count: int, *, memories: bool = False, only_if_close: bool = False) -> SearchHits:
        """Find the `count` best units of the scope, or with `memories` the whole memories that have the best units.

        `only_if_close`: the units do not matter if nothing is close. Raises ValidationError for a scope that is not of
        one kind.
        """
        wanted = count
        while True:
            found = self._best(scope, wanted, memories=memories, only_if_close=only_if_close)
            hits = [hit for hit in found.hits if self.is_similar_enough(hit)]
            if len(hits) >= count or len(found.hits) < wanted or wanted >= MAX_DEPTH:
                return found._replace(hits=hits[:count])
            wanted = min(wanted * GROWTH, MAX_DEPTH)

    def find_each(self, scopes: Sequence[Scope], count: int, *, memories: bool = False) -> list[SearchHits]:
        """Return what `find` does for each scope. Their scores can be compared: all have late scores, or none has."""
        found = [self.find(scope, count, memories=memories) for scope in scopes]
        if len({hit.late is None for part in found for hit in part.hits}) > 1:
            self.question = replace(self.question, states=None)
            found = [self.find(scope, count, memories=memories) for scope in scopes]
        return found

    def everything(self, scope: Scope) -> list[Hit]:
        """Return the best units of the scope, at most MAX_DEPTH, also those below the threshold."""
        return self._best(scope, MAX_DEPTH, memories=False, only_if_close=False).hits

    def _best(self, scope: Scope, count: int, *, memories: bool, only_if_close: bool) -> SearchHits:
        if scope.kind is None:
            raise ValidationError(f"A search needs one memory_type: {', '.join(MemoryKind)}.")
        if self.question.states is None:
            return self._fused(scope, count, memories=memories, only_if_close=only_if_close)
        wanted = LATE_UNITS if memories else max(count, LATE_UNITS)
        units = self._fused(scope, wanted, memories=False, only_if_close=only_if_close)
        late = self._late_scores(scope.kind, self.question.states, units.hits[:LATE_UNITS])
        lowest = min(late.values(), default=0.0)
        hits = late_hits(units.hits, late, lowest) if late else units.hits
        if memories:
            others = self._fused(scope, count, memories=True, only_if_close=only_if_close)
            behind = late_hits(others.hits, {}, lowest) if late else others.hits
            units, hits = others, best_of_each_memory([*hits, *behind])
        return units._replace(hits=hits[:count])

    def _late_scores(self, kind: MemoryKind, question: States, hits: Sequence[Hit]) -> dict[int, float]:
        """Return the late scores of those units that have vectors; of none if token states of one are not kept."""
        found = self.reader.token_states(kind, [hit.id for hit in hits if hit.similarity is not None])
        passages = [(unit, states) for unit, each in found.items() for states in each]
        width = bytes_per_state(question.shape[1])
        known = [states for _, states in passages if states is not None and len(states) % width == 0]
        if len(known) < len(passages):
            return {}
        scores: dict[int, float] = {}
        for (unit, _), score in zip(passages, late_scores(question, known).tolist(), strict=True):
            scores[unit] = max(score, scores.get(unit, score))
        return scores

    def _fused(self, scope: Scope, count: int, *, memories: bool, only_if_close: bool) -> SearchHits:
        """Return the best units or memories by their fused scores."""
        if self._view is None:
            return best_units(self.reader.candidates(scope, self._method), self.question, count, memories=memories)
        scope = self.reader.visible(scope)
        is_worthwhile = self._is_close if only_if_close else None
        scan = self._scan(self._view, scope, max(DEPTH, count))
        return scan.find(self.question.vector, count, is_worthwhile, memories=memories)

    def _scan(self, view: View, scope: Scope, depth: int) -> Scan:
        """Return the scan of a visible scope; that of the last call, which has read the words, if it was the same."""
        if self._last_scan is None or self._last_scan[:2] != (scope, depth):
            known = self._known.members if self._known is not None and self._known.visible == scope else None
            members, question = view.members(scope, known), self.question
            scan = Scan(view, scope, members, question.terms, depth=depth, weight=question.weight)
            self._last_scan = scope, depth, scan
        return self._last_scan[2]

    def _is_close(self, found: SearchHits) -> bool:
        return found.is_close(self.question.calibration)

    def note_on_missing(self, scope: Scope) -> str | None:
        """Return a sentence on the memories of the scope that still lack vectors; None if none does."""
        known = self._known
        if known is not None and known.scope == scope:
            missing = known.missing
        else:
            missing = self.reader.count(scope, without_vectors=True)
        return not_indexed(missing, self.reader.count_pending(scope)) if missing else None

    def is_similar_enough(self, hit: Hit) -> bool:
        """Return whether a hit passes the threshold."""
        return self.threshold is None or hit.similarity is None or hit.similarity >= self.threshold


def reports_among(scope: Scope, hits: Sequence[Hit]) -> set[int]:
    """Return the ids of the memories of hits of a scope if they are reports."""
    return {hit.memory_id for hit in hits} if scope.kind is MemoryKind.REPORT else set()


def best_units(source: CandidateSource, question: Question, count: int, *, memories: bool = False) -> SearchHits:
    """Return the `count` best units, or with `memories` the memories that have them.

    Both lists grow until no unit outside them can rank before a returned one.
    """
    vector = question.vector
    words = None if question.terms is None else source.rank_words(question.terms)
    wording = None if words is None else words.wording
    depth = max(DEPTH, count)
    while True:
        near = None if vector is None else source.nearest(vector, depth)
        worded = None if words is None else words.best(depth)
        if vector is not None and near is not None and words is not None and worded is not None:
            near_only, worded_only = only_in(near, worded), only_in(worded, near)
            near = replace(near, others=source.similarities(vector, worded_only))
            worded = replace(worded, others=words.shares(near_only))
        hits, horizon = merged(near, worded, question.weight)
        partial = near is not None and near.partial
        settled = [hit for hit in hits if partial or horizon is None or horizon.is_behind(hit.score, hit.id)]
        found = best_of_each_memory(settled) if memories else settled
        nearest = clipped(near.matches[0].score) if near and near.matches else None
        if horizon is None or partial or len(found) >= count:
            return SearchHits(found[:count], nearest, partial, wording)
        if depth >= MAX_DEPTH:
            return SearchHits(
                (best_of_each_memory(hits) if memories else hits)[:count], nearest, partial=True, wording=wording
            )
        depth *= GROWTH


def merged(near: Ranked | None, worded: Ranked | None, weight: float) -> tuple[list[Hit], Horizon | None]:
    """Return the units of the given lists, best first, and the horizon that no other unit ranks before."""
    if worded is None:
        return from_single(near or Ranked(), "vector")
    if near is None:
        return from_single(worded, "keyword")
    return fuse(near, worded, weight)


def only_in(ranked: Ranked, other: Ranked) -> list[Match]:
    """Return the matches of a list that another list has not found."""
    known = {match.id for match in other.matches}
    return [match for match in ranked.matches if match.id not in known]
