"""Finds the units of one snapshot that match a question best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vector_memory.domain import MemoryKind, Scope
from vector_memory.embedding.token_states import Compared, States, bytes_per_state, compare
from vector_memory.errors import ValidationError
from vector_memory.search.fusion import (
    FIRST_BY_WORDS,
    Hit,
    Horizon,
    SearchHits,
    best_of_each_memory,
    clipped,
    from_single,
    fuse,
    late_hits,
    merged_hits,
    pending_weight,
)
from vector_memory.search.index.loader import PassageIndex
from vector_memory.search.index.scan import COUNTED, Scan
from vector_memory.search.index.signatures import View
from vector_memory.search.messages import not_indexed
from vector_memory.search.question import Question
from vector_memory.search.relevance import level_of_each
from vector_memory.storage.base import Reader
from vector_memory.storage.records import Origin, Pending
from vector_memory.storage.scoring import LATE_UNITS, NOTHING_TYPED, CandidateSource, Match, Method, Ranked

DEPTH = 50
"""How many of the best units of each list are compared first; this usually settles ten results."""

GROWTH = 4

MAX_DEPTH = DEPTH * GROWTH**4
"""The longest list: a search that needs a longer one gives up and says so."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was asked for at once: of `scope`, how many memories are `missing` vectors; of `visible`, the `members`.

    `pending`: how many of those without vectors get them now; `everywhere`: also in other scopes. `members`: the ids of
    memories, or None.
    """

    scope: Scope
    missing: int
    pending: int
    everywhere: Pending
    visible: Scope
    members: Sequence[int] | None


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
        self.known = known
        self.reader = reader
        self.question = question
        self.threshold = threshold
        self._method = method
        self._view = index.view(reader.feed) if index is not None and index.is_used else None
        self._last_scan: tuple[Scope, int, Scan] | None = None

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

    def everything(self, scope: Scope) -> SearchHits:
        """Return the best units of the scope, at most MAX_DEPTH, also those below the threshold."""
        return self._best(scope, MAX_DEPTH)

    def count_strong(self, scope: Scope, besides: str | None = None) -> int:
        """Return how many units of a scope, without the session `besides`, match strongly: at most COUNTED.

        Tokens are not compared, and of the passages only the likeliest of the newest.
        """
        if self._view is not None:
            visible = self.reader.visible(scope)
            members = self._view.members(visible)
            if besides is not None:
                members &= ~self._view.members(Scope(session_id=besides))
            scan = Scan(self._view, visible, members, self.question.terms, depth=0)
            return min(COUNTED, scan.count_strong(self.question, self.threshold))
        found = self._fused(scope, DEPTH)
        levels = zip(found.hits, level_of_each(found, self.question), strict=True)
        strong = [hit.memory_id for hit, level in levels if level == "strong" and self.is_similar_enough(hit)]
        sessions = {} if besides is None else self.reader.origins(sorted(set(strong)))
        return min(COUNTED, sum(one not in sessions or sessions[one].session_id != besides for one in strong))

    def _best(self, scope: Scope, count: int, *, memories: bool = False) -> SearchHits:
        if scope.kind is None:
            raise ValidationError(f"A search needs one memory_type: {', '.join(MemoryKind)}.")
        if self.question.states is None:
            return self._fused(scope, count, memories=memories)
        wanted = LATE_UNITS if memories else max(count, LATE_UNITS)
        units = self._fused(scope, wanted)
        compared, origins = self._compared(scope.kind, self.question.states, units.hits[:LATE_UNITS])
        late = {unit: one.score for unit, one in compared.items()}
        lowest = min(late.values(), default=0.0)
        hits = late_hits(units.hits, late, lowest) if late else units.hits
        if memories:
            best = {hit.memory_id: compared[hit.id] for hit in reversed(hits) if hit.id in compared}
            others = self._fused(scope, count, memories=True)
            behind = late_hits(others.hits, {}, lowest) if late else others.hits
            units, hits, compared = others, best_of_each_memory([*hits, *behind]), best
        return units._replace(hits=hits[:count], compared=compared, origins=origins)

    def _compared(
        self, kind: MemoryKind, question: States, hits: Sequence[Hit]
    ) -> tuple[dict[int, Compared], dict[int, Origin]]:
        """Compare units token by token, and read the origins of their memories.

        None are compared if one has no vector yet, or its token states are not kept.
        """
        if any(hit.similarity is None for hit in hits):
            return {}, {}
        found, origins = self.reader.together(
            lambda reader: reader.token_states(kind, [hit.id for hit in hits]),
            lambda reader: reader.origins(sorted({hit.memory_id for hit in hits})),
        )
        passages = [(unit, states) for unit, each in found.items() for states in each]
        width = bytes_per_state(question.shape[1])
        known = [states for _, states in passages if states is not None and len(states) % width == 0]
        if len(known) < len(passages):
            return {}, {}
        units: dict[int, Compared] = {}
        for (unit, _), one in zip(passages, compare(question, known), strict=True):
            units[unit] = units[unit].joined(one) if unit in units else one
        return units, origins

    def _fused(self, scope: Scope, count: int, *, memories: bool = False) -> SearchHits:
        """Return the best units or memories by their fused scores, and go on with the words as they were read."""
        if self._view is None:
            source = self.reader.candidates(scope, self._method)
            all_embedded = self.question.vector is None or not self._missing(scope)
            found = best_units(source, self.question, count, memories=memories, all_embedded=all_embedded)
            found = self._with_nearest(found, source) if memories else found
        else:
            scan = self._scan(self._view, self.reader.visible(scope), max(DEPTH, count))
            found = scan.find(self.question.vector, count, memories=memories)
        if found.wording and found.wording.respelt:
            self.question = self.question.read_as(found.wording.respelt)
        elif self.question.plain:
            self.question = replace(self.question, plain=NOTHING_TYPED)
        return found

    def _with_nearest(self, found: SearchHits, source: CandidateSource) -> SearchHits:
        """Return memories with the cosine of their nearest unit, which may be in neither list."""
        if self.question.vector is None:
            return found
        outlines = self.reader.outlines([hit.memory_id for hit in found.hits])
        units = [Match(outline.id, outline.memory_id, 0.0) for outline in outlines]
        cosines = source.similarities(self.question.vector, units)
        nearest: dict[int, float] = {}
        for unit in units:
            if unit.id in cosines:
                nearest[unit.memory_id] = max(cosines[unit.id], nearest.get(unit.memory_id, -1.0))
        hits = [
            hit._replace(similarity=clipped(nearest[hit.memory_id])) if hit.memory_id in nearest else hit
            for hit in found.hits
        ]
        return found._replace(hits=hits)

    def _scan(self, view: View, scope: Scope, depth: int) -> Scan:
        """Return the scan of a visible scope; that of the last call, which has read the words, if it was the same."""
        if self._last_scan is None or self._last_scan[:2] != (scope, depth):
            known = self.known.members if self.known is not None and self.known.visible == scope else None
            members, question = view.members(scope, known), self.question
            words, weight = question.plain, question.weight
            scan = Scan(view, scope, members, question.terms, depth=depth, weight=weight, plain=words)
            self._last_scan = scope, depth, scan
        return self._last_scan[2]

    def note_on_missing(self, scope: Scope) -> str | None:
        """Return a sentence on the memories of the scope that still lack vectors; None if none does."""
        known = self.known
        if known is not None and known.scope == scope:
            missing, pending = known.missing, known.pending
        else:
            missing, pending = self._missing(scope), self.reader.pending(scope).memories
        return not_indexed(missing, pending) if missing else None

    def _missing(self, scope: Scope) -> int:
        """Return how many memories of the scope lack vectors."""
        if self.known is not None and self.known.scope == scope:
            return self.known.missing
        return self.reader.count(scope, without_vectors=True)

    def is_similar_enough(self, hit: Hit) -> bool:
        """Return whether a hit passes the threshold."""
        return self.threshold is None or hit.similarity is None or hit.similarity >= self.threshold


def reports_among(scope: Scope, hits: Sequence[Hit]) -> set[int]:
    """Return the ids of the memories of hits of a scope if they are reports."""
    return {hit.memory_id for hit in hits} if scope.kind is MemoryKind.REPORT else set()


def best_units(
    source: CandidateSource, question: Question, count: int, *, memories: bool = False, all_embedded: bool = True
) -> SearchHits:
    """Return the `count` best units, or with `memories` the memories that have them.

    Both lists grow until no unit outside them can rank before a returned one. `all_embedded`: every unit of the scope
    has a vector.
    """
    vector, weight = question.vector, question.weight
    words = None if question.terms is None else source.rank_words(question.terms, question.plain)
    if vector is not None and words is not None and not all_embedded:
        first = words.best(FIRST_BY_WORDS).matches
        weight = pending_weight(weight, len(source.similarities(vector, first)), len(first))
    wording = None if words is None else words.wording
    depth = max(DEPTH, count)
    while True:
        near = None if vector is None else source.nearest(vector, depth)
        worded = None if words is None else words.best(depth)
        if vector is not None and near is not None and words is not None and worded is not None:
            near_only, worded_only = only_in(near, worded), only_in(worded, near)
            near = replace(near, others=source.similarities(vector, worded_only))
            worded = replace(worded, others=words.shares(near_only))
        hits, horizon = merged(near, worded, weight, all_embedded=all_embedded)
        partial = near is not None and near.partial
        settled = [hit for hit in hits if partial or horizon is None or horizon.is_behind(hit.score, hit.id)]
        found = best_of_each_memory(settled) if memories else settled
        nearest = clipped(near.matches[0].score) if near and near.matches else None
        if horizon is None or partial or len(found) >= count:
            return SearchHits(found[:count], nearest, partial, wording, weight)
        if depth >= MAX_DEPTH:
            found = best_of_each_memory(hits) if memories else hits
            return SearchHits(found[:count], nearest, True, wording, weight)  # noqa: FBT003 - a field, not a flag
        depth *= GROWTH


def merged(
    near: Ranked | None, worded: Ranked | None, weight: float, *, all_embedded: bool
) -> tuple[list[Hit], Horizon | None]:
    """Return the units of the given lists, best first, and the horizon that no other unit ranks before."""
    if worded is None:
        return from_single(near or Ranked(), "vector")
    if near is None:
        return from_single(worded, "keyword")
    return fuse(near, worded, weight, all_embedded=all_embedded)


def only_in(ranked: Ranked, other: Ranked) -> list[Match]:
    """Return the matches of a list that another list has not found."""
    known = {match.id for match in other.matches}
    return [match for match in ranked.matches if match.id not in known]
