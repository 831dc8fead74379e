"""Finds the units of one snapshot that match a question best."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from vector_memory.domain import STORED, MemoryKind, Scope
from vector_memory.domain.times import microseconds
from vector_memory.embedding.token_states import Compared, States, bytes_per_state, compare
from vector_memory.errors import ValidationError
from vector_memory.search.fusion import (
    Hit,
    SearchHits,
    best_of_each_memory,
    late_hits,
    merged_hits,
)
from vector_memory.search.messages import not_indexed
from vector_memory.search.question import Question
from vector_memory.search.relevance import J
from vector_memory.search.scan import COUNTED, Found, Method, Scan, reads
from vector_memory.storage.base import Reader
from vector_memory.storage.connection import Steps, read
from vector_memory.storage.damaged import require_all
from vector_memory.storage.postings import buckets_of
from vector_memory.storage.records import Link, Origin, Pending
from vector_memory.storage.scoring import LATE_UNITS, NOTHING_TYPED

T = TypeVar("T")

DEPTH = 50
"""How many of the best units of each list are compared first; this usually settles ten results."""

IN_ONE_GO = 60_000_000
"""Microseconds: what an agent stores sooner after another memory belongs to it."""

GROWTH = 4

MAX_DEPTH = DEPTH * GROWTH**4
"""The longest list: a search that needs a longer one gives up and says so."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was asked for at once: of `scope`, how many memories are `missing` vectors.

    `pending`: how many of those get them now; `everywhere`: also in other scopes. `found`: of `visible`, for `terms`,
    if it is of one kind.
    """

    scope: Scope
    missing: int
    pending: int
    everywhere: Pending
    visible: Scope
    terms: Sequence[str] | None
    found: Found | None


class Retrieval:
    """Finds units in one snapshot. `search.comparison` says which scopes are compared completely."""

    def __init__(
        self,
        reader: Reader,
        question: Question,
        method: Method,
        threshold: float | None,
        known: Known | None = None,
    ) -> None:
        self.known = known
        self.reader = reader
        self.question = question
        self.threshold = threshold
        self._method = method
        self._last_scan: tuple[Scope, int, Scan] | None = None
        self._origins: dict[int, Origin] = {}

    def find(self, scope: Scope, count: int, *, memories: bool = False) -> SearchHits:
        """Find the `count` best units of the scope, or with `memories` the whole memories that have the best units.

        Raises ValidationError for a scope that is not of one kind.
        """
        wanted = count
        while True:
            found = self._best(scope, wanted, memories=memories)
            hits = [hit for hit in found.hits if self.is_similar_enough(hit)]
            if len(hits) >= count or len(found.hits) < wanted or wanted >= MAX_DEPTH:
                return found._replace(hits=hits[:count])
            wanted = min(wanted * GROWTH, MAX_DEPTH)

    def find_among(self, scopes: Sequence[Scope], count: int, *, memories: bool = False) -> SearchHits:
        """Return what `find` finds in each of several scopes, best first. Either all have late scores, or none has."""
        self.question = replace(self.question, plain=NOTHING_TYPED)  # what one scope lacks, another may have
        found = [self.find(scope, count, memories=memories) for scope in scopes]
        if len({hit.late is None for part in found for hit in part.hits}) > 1:
            self.question = replace(self.question, states=None)
            found = [self.find(scope, count, memories=memories) for scope in scopes]
        return merged_hits(found)

    def run(self, steps: Steps[T]) -> T:
        """Return the result of a read."""
        return self.reader.run(steps)

    @read
    def origins(self, memory_ids: Collection[int]) -> Steps[Mapping[int, Origin]]:
        """Return where memories come from; those of the best units are known already."""
        missing = sorted({number for number in memory_ids if number not in self._origins})
        if missing:
            self._origins |= yield from self.reader.origins.steps(missing)
        require_all(self._origins, memory_ids)
        return self._origins

    def everything(self, scope: Scope) -> SearchHits:
        """Return the best units of the scope, at most MAX_DEPTH, also those below the threshold."""
        return self._best(scope, MAX_DEPTH)

    def counts_of_strong(self, scopes: Mapping[str, Scope], besides: str | None) -> dict[str, int]:
        """Return how many units of each scope that has any match strongly: at most COUNTED.

        `besides`: a session that does not count where a scope names none. Tokens are not compared, and of the passages
        only the likeliest of the newest.
        """
        source, question = self.reader.candidates, replace(self.question, plain=NOTHING_TYPED)
        visible = {name: self.reader.visible(scope) for name, scope in scopes.items()}
        buckets = buckets_of(question.terms or ())
        indexed = [source.indexed.steps(scope, buckets) for scope in visible.values()]
        beside = [] if besides is None else [source.memories_in.steps(Scope(session_id=besides, as_of=STORED))]
        found = self.reader.together(*indexed, *beside)
        others = found.pop() if beside else []
        scans = {
            name: Scan(source, scope, question, Found(one), besides=others if scope.session_id is None else ())
            for (name, scope), one in zip(visible.items(), found, strict=True)
            if one.units.count
        }
        likely = self.reader.together(*(scan.likeliest() for scan in scans.values()))
        counts = [scan.count_strong(one, self.threshold) for scan, one in zip(scans.values(), likely, strict=True)]
        return {name: min(COUNTED, count) for name, count in zip(scans, counts, strict=True)}

    def _best(self, scope: Scope, count: int, *, memories: bool = False) -> SearchHits:
        if scope.kind is None:
            raise ValidationError(f"A search needs one memory_type: {', '.join(MemoryKind)}.")
        if self.question.states is None:
            return self._fused(scope, count, memories=memories)
        wanted = LATE_UNITS if memories else max(count, LATE_UNITS)
        units = self._fused(scope, wanted)
        compared, linked = self._compared(scope.kind, self.question.states, units.hits[:LATE_UNITS])
        late = {unit: one.score for unit, one in compared.items()}
        lowest = min(late.values(), default=0.0)
        hits = late_hits(units.hits, late, lowest) if late else units.hits
        if memories:
            best = {hit.memory_id: compared[hit.id] for hit in reversed(hits) if hit.id in compared}
            others = self._fused(scope, count, memories=True)
            behind = late_hits(others.hits, {}, lowest) if late else others.hits
            units, hits, compared = others, best_of_each_memory([*hits, *behind]), best
        return units._replace(hits=hits[:count], compared=compared, links=linked)

    def _compared(
        self, kind: MemoryKind, question: States, hits: Sequence[Hit]
    ) -> tuple[dict[int, Compared], list[Link]]:
        """Compare units token by token, and read the links and the origins of their memories.

        Memories that were noted together are not linked. None are compared if one has no vector yet, or its token
        states are not kept.
        """
        if any(hit.similarity is None for hit in hits):
            return {}, []
        memory_ids = sorted({hit.memory_id for hit in hits})
        found, linked, origins = self.reader.together(
            self.reader.token_states.steps(kind, [hit.id for hit in hits]),
            self.reader.links_among.steps(memory_ids),
            self.reader.origins.steps(memory_ids),
        )
        self._origins |= origins
        passages = [(unit, states) for unit, each in found.items() for states in each]
        width = bytes_per_state(question.shape[1])
        known = [states for _, states in passages if states is not None and len(states) % width == 0]
        if len(known) < len(passages):
            return {}, []
        units: dict[int, Compared] = {}
        for (unit, _), one in zip(passages, compare(question, known), strict=True):
            units[unit] = units[unit].joined(one) if unit in units else one
        return units, [one for one in linked if not noted_together(origins[one.older_id], origins[one.newer_id])]

    def _fused(self, scope: Scope, count: int, *, memories: bool = False) -> SearchHits:
        """Return the best units or memories by their fused scores, with misspelt words read as those that are meant."""
        visible, depth = self.reader.visible(scope), max(DEPTH, count)
        scan = self._scan(visible, depth)
        if self.question.plain and (respelt := scan.respelt(self.reader)):
            self.question, self._last_scan = self.question.read_as(respelt), None
            scan = self._scan(visible, depth)
        elif self.question.plain:
            self.question = replace(self.question, plain=NOTHING_TYPED)
        return scan.find(count, memories=memories)

    def _scan(self, scope: Scope, depth: int) -> Scan:
        """Return the scan of a visible scope; that of the last call, which has read the words, if it was the same."""
        if self._last_scan is None or self._last_scan[:2] != (scope, depth):
            known = self.known
            is_same = known is not None and (known.visible, known.terms) == (scope, self.question.terms)
            found = known.found if known is not None and is_same else None
            found = found or Found(*self.reader.together(*reads(self.reader, scope, self.question)))
            scan = Scan(self.reader.candidates, scope, self.question, found, method=self._method, depth=depth)
            self._last_scan = scope, depth, scan
        return self._last_scan[2]

    def note_on_missing(self, scope: Scope) -> str | None:
        """Return a sentence on the memories of the scope that still lack vectors; None if none does."""
        known = self.known
        if known is not None and known.scope == scope:
            missing, pending = known.missing, known.pending
        else:
            missing, pending = self.reader.count(scope, without_vectors=True), self.reader.pending(scope).memories
        return not_indexed(missing, pending) if missing else None

    def is_similar_enough(self, hit: Hit) -> bool:
        """Return whether a hit passes the threshold."""
        return self.threshold is None or hit.similarity is None or hit.similarity >= self.threshold


def noted_together(one: Origin, other: Origin) -> bool:
    """Return whether an agent stored two memories of a session in one go: they are two findings, no correction."""
    is_same = (one.session_id, one.agent_id) == (other.session_id, other.agent_id)
    return is_same and abs(microseconds(one.created_at) - microseconds(other.created_at)) < IN_ONE_GO


def reports_among(scope: Scope, hits: Sequence[J]) -> set[int]:
    """Return the ids of the reports of a scope that match well, or of all if that was not judged."""
    is_wanted = scope.kind is MemoryKind.REPORT
    return {hit.memory_id for hit in hits if is_wanted and hit.match in (None, "strong")}
