"""What is new: what others stored in a session since somebody last looked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest

from vector_memory.domain import TRAITS, MemoryKind, Page, Scope
from vector_memory.errors import ValidationError
from vector_memory.results.budget import Packer
from vector_memory.results.mapping import BEGINNING, beginning, observations_on, said_of_beginnings
from vector_memory.results.sessions import ChangesResult, FoundBeginning
from vector_memory.search import Retriever, SearchTimer
from vector_memory.search.confidence import CONFIDENT
from vector_memory.search.fusion import Found
from vector_memory.search.messages import cut_short, not_indexed
from vector_memory.search.retriever import Retrieval
from vector_memory.sessions.access import AccessRecorder
from vector_memory.storage.base import Storage
from vector_memory.storage.records import Cursor
from vector_memory.validation import MAX_IDENTIFIER, check_text

NOW = "now"
"""The cursor of somebody who wants to know only what is stored from now on."""


UNKNOWN = "Nothing is stored in this session yet. If other agents use it, check its id with list_sessions."


class Changes:
    """Hands out what was stored since a cursor."""

    def __init__(
        self, storage: Storage, retriever: Retriever, timer: SearchTimer, packer: Packer, access: AccessRecorder
    ) -> None:
        self._storage = storage
        self._retriever = retriever
        self._timer = timer
        self._packer = packer
        self._access = access

    def since(
        self, cursor: str | int | None, scope: Scope, query: str | None, page: Page, *, full: bool
    ) -> ChangesResult:
        """Return what is new in the scope: the oldest first, or with a query what matches it best.

        Memories are given by their beginnings, or with `full` whole, as far as they fit. Without a cursor everything is
        new; `"now"` only asks for one. Whoever goes on from cursor to cursor misses
        nothing and reads nothing twice. Raises ValidationError for a cursor that this file has not given.
        """
        check_text("session_id", scope.session_id, MAX_IDENTIFIER)
        if scope.kind is not None and not TRAITS[scope.kind].session_scoped:
            raise ValidationError(f"A {scope.kind} belongs to no session: use the search tools for this kind.")
        length = None if full else BEGINNING
        if query is None:
            answer = self._in_order(cursor, scope, page, length)
        else:
            answer = self._best(cursor, scope, query, page, length)
        self._access.record([memory.id for memory in answer.results if memory.content_end is None])
        return answer

    def _in_order(self, cursor: str | int | None, scope: Scope, page: Page, length: int | None) -> ChangesResult:
        with self._timer.time("search_changes"), self._storage.read() as reader:
            end = reader.cursor()
            start = position(cursor, end)
            total = reader.count(behind(start, scope))
            memories = reader.changes_after(start, scope, page.limit)
            is_empty = not total and not reader.count(Scope(session_id=scope.session_id))
            observations = observations_on(reader, memories)
        found = [FoundBeginning(**beginning(memory, length)) for memory in memories]

        def build(packer: Packer) -> ChangesResult:
            shown = packer.share(found)
            has_more = len(shown) < total
            return ChangesResult(
                results=shown,
                cursor=str(end if not has_more else Cursor(shown[-1].id) if shown else start),
                has_more=has_more,
                total_new=total,
                observations=observations,
                message=UNKNOWN if is_empty else said_in_order(shown, total),
            )

        return self._packer.within(page.max_tokens).fit(build)

    def _best(
        self, cursor: str | int | None, scope: Scope, query: str, page: Page, length: int | None
    ) -> ChangesResult:
        with self._timer.time("search_changes"):
            question = self._retriever.prepare(query)
            with self._storage.read() as reader:
                end = reader.cursor()
                scope = behind(position(cursor, end), scope)
                counts = reader.count_by(scope, "kind")
                retrieval = self._retriever.within(reader, question)
                ranked = self._ranked(retrieval, scope, counts, page.limit)
                memories = reader.memories([hit.id for hit in ranked.hits])
                unindexed = reader.count(scope, without_vectors=True)
                observations = observations_on(reader, memories.values())
        found = [
            FoundBeginning(**beginning(memories[hit.id], length), score=hit.score, similarity=hit.similarity)
            for hit in ranked.hits
        ]
        total = sum(counts.values())
        is_weak = ranked.nearest is not None and ranked.nearest < CONFIDENT
        notes = (
            retrieval.question.problem,
            not_indexed(unindexed) if unindexed else None,
            cut_short(scope) if ranked.partial else None,
            "No close match: these results may be unrelated to the query." if is_weak else None,
        )

        def build(packer: Packer) -> ChangesResult:
            shown = packer.share(found)
            return ChangesResult(
                results=shown,
                cursor=str(end),
                total_new=total,
                observations=observations,
                confidence=None if ranked.nearest is None else "low" if is_weak else "high",
                message=" ".join([said_of_best(shown, total), *filter(None, notes)]),
            )

        return self._packer.within(page.max_tokens).fit(build)

    def _ranked(self, retrieval: Retrieval, scope: Scope, kinds: Mapping[str, int], count: int) -> Found:
        """Return the memories of all these kinds that match best: scores depend on nothing else that is found."""
        found = [
            retrieval.find(replace(scope, kind=kind), count, memories=True) for kind in MemoryKind if kind in kinds
        ]
        hits = nsmallest(count, (hit for part in found for hit in part.hits), key=lambda hit: (-hit.score, hit.id))
        nearest = max((part.nearest for part in found if part.nearest is not None), default=None)
        return Found(hits, nearest, any(part.partial for part in found))


def behind(cursor: Cursor, scope: Scope) -> Scope:
    """Return what of a scope was committed after a cursor was given."""
    return replace(scope, after_id=cursor.memory_id)


def position(since: str | int | None, end: Cursor) -> Cursor:
    """Return the cursor behind which the new begins. `end`: the newest that there is."""
    if since is None:
        return Cursor()
    if since == NOW:
        return end
    try:
        known = Cursor.parse("since", since)
    except ValidationError:
        raise ValidationError('since must be the cursor of an earlier answer, or "now", or left out.') from None
    if known > end:
        raise ValidationError(
            "since is a cursor that this memory has not given: another file, or an older state of it, is in use. Leave "
            'since out to read from the start, or send "now" to read what is stored from now on.'
        )
    return known


def said_in_order(shown: Sequence[FoundBeginning], total: int) -> str:
    """Say how much is new, and how to go on."""
    if not total:
        return "Nothing new."
    if not shown:
        return f"{total} new. The first one does not fit: repeat with a larger max_tokens and the same since."
    said = f"{total} new, all in this answer." if len(shown) == total else f"The first {len(shown)} of {total} new."
    going_on = "" if len(shown) == total else " For more, call again with since = cursor."
    return said + going_on + said_of_beginnings(shown)


def said_of_best(shown: Sequence[FoundBeginning], total: int) -> str:
    """Say how much of the new is shown, and how to read the rest."""
    if not total:
        return "Nothing new."
    said = f"The best {len(shown)} of {total} new."
    rest = "" if len(shown) == total else " To read all of them, send the same since without query."
    return said + rest + said_of_beginnings(shown)
