"""Returns the memories stored since the caller's last call."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from vector_memory.answers import mapping
from vector_memory.answers.budget import ResponseBudget
from vector_memory.answers.models import ChangesResult, FoundBeginning
from vector_memory.domain import ANY, TRAITS, MemoryKind, Page, Scope, best_of
from vector_memory.domain.validation import MAX_IDENTIFIER, check_label
from vector_memory.errors import ValidationError
from vector_memory.reading.documents import AccessRecorder
from vector_memory.search import Retriever, SearchTimer
from vector_memory.search.answer import COARSE, copies_of
from vector_memory.search.copies import RUN, whole_runs, without_copies
from vector_memory.search.judge import judged
from vector_memory.search.messages import NO_CLOSE_MATCH, NO_MATCH, cut_short, with_counts
from vector_memory.search.rank import Hit
from vector_memory.search.retrieval import find_among, note_on_missing
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.records import Cursor, Memory

NOW = "now"
"""The cursor for memories stored from now on."""


LOST = (
    "The memory continues from a copy that lacks the latest stores: the ids after {kept}, up to {known}, are lost. "
    "Store again what you know of them."
)


class Changes:
    """Returns memories stored since a cursor."""

    def __init__(
        self, storage: Storage, retriever: Retriever, timer: SearchTimer, budget: ResponseBudget, access: AccessRecorder
    ) -> None:
        self._storage = storage
        self._retriever = retriever
        self._timer = timer
        self._budget = budget
        self._access = access

    def since(
        self, cursor: str | int | None, scope: Scope, query: str | None, page: Page, *, full: bool
    ) -> ChangesResult:
        """Return the beginnings of a scope's new memories, oldest first, or with a query the best matches.

        `full`: whole texts, as far as they fit. Without a cursor everything is new; `"now"` returns only a cursor. A
        caller that always sends the last answer's cursor misses nothing and reads nothing twice. Raises ValidationError
        for a cursor that this file has not returned.
        """
        check_label("session_id", scope.session_id, MAX_IDENTIFIER)
        if scope.kind is not None and not TRAITS[scope.kind].session_scoped:
            raise ValidationError(f"A {scope.kind} belongs to no session: use the search tools for this kind.")
        length = None if full else mapping.BEGINNING
        if query is None:
            answer = self._in_order(cursor, scope, page, length)
        else:
            answer = self._best(cursor, scope, query, page, length)
        self._access.record([memory.id for memory in answer.results if memory.content_end is None])
        return answer

    def _in_order(self, cursor: str | int | None, scope: Scope, page: Page, length: int | None) -> ChangesResult:
        with self._timer.time("search_changes"), self._storage.read() as reader:
            end = reader.cursor()
            start, lost = position(cursor, end)
            since = replace(scope, since_id=start.memory_id)
            total = reader.memories.count(since)
            changes = reader.memories.changes(since, page.limit)
            is_empty = not total and not reader.memories.count(Scope(session_id=scope.session_id, as_of=ANY))
            unknown = mapping.no_such_session(reader, scope.session_id) if is_empty else None
            found, superseded = self._found(reader, since, [memory for _, memory in changes], length)

        def build(budget: ResponseBudget) -> ChangesResult:
            shown = budget.share(found)
            said = unknown or in_order_message(shown, total)
            has_more = len(shown) < total
            return ChangesResult(
                results=shown,
                cursor=str(end if not has_more else changes[len(shown) - 1][0] if shown else start),
                has_more=has_more,
                total_new=total,
                superseded=superseded,
                message=" ".join(filter(None, (lost, said))),
            )

        return self._budget.within(page.max_tokens).fit(build)

    def _best(
        self, cursor: str | int | None, scope: Scope, query: str, page: Page, length: int | None
    ) -> ChangesResult:
        with self._timer.time("search_changes"):
            question = self._retriever.prepare(query, scope=scope)
            with self._retriever.answering(question, scope) as retrieval:
                reader, question = retrieval.reader, retrieval.question
                start, lost = position(cursor, end := reader.cursor())
                scope = replace(scope, since_id=start.memory_id)
                counts = reader.memories.count_by(scope, "kind")
                kinds = [replace(scope, kind=kind) for kind in MemoryKind if kind in counts]
                retrievals = [self._retriever.within(reader, question, one) for one in kinds]
                ranked = find_among(retrievals, whole_runs(page.limit + RUN), memories=True)
                matches = judged(ranked, question)
                if self._retriever.folds(scope, page):
                    matches = without_copies(matches, copies_of(COARSE, reader, matches, page.limit, ranked.origins))
                hits = [hit for hit in matches if hit.match != "weak"][: page.limit]
                left_out = min(page.limit, len(matches)) - len(hits)
                memories = reader.memories.get_all([hit.id for hit in hits])
                missing = note_on_missing(reader, scope)
                found, superseded = self._found(reader, scope, [memories[hit.id] for hit in hits], length, hits)
        total = sum(counts.values())
        confidence = best_of([hit.match for hit in matches])
        notes = (
            lost,
            question.problem,
            missing,
            cut_short(scope) if ranked.partial else None,
            {"related": NO_CLOSE_MATCH, "weak": NO_MATCH}.get(confidence or ""),
        )

        def build(budget: ResponseBudget) -> ChangesResult:
            shown = budget.share(found)
            return ChangesResult(
                results=shown,
                cursor=str(end),
                total_new=total,
                confidence=confidence,
                weak=left_out,
                superseded=superseded,
                message=" ".join([best_message(shown, total), *with_counts(notes, left_out)]),
            )

        return self._budget.within(page.max_tokens).fit(build)

    def _found(
        self, reader: Reader, scope: Scope, memories: Sequence[Memory], length: int | None, hits: Iterable[Hit] = ()
    ) -> tuple[list[FoundBeginning], int]:
        """Return the results for memories, of which some are `hits`, and the number of superseded ones left out."""
        ids = [memory.id for memory in memories]
        observations = mapping.observations_on(reader, memories, scope.as_of)
        superseded, replaced = mapping.superseded_in(reader, scope, ids), mapping.replaced_by(reader, ids)
        later = reader.run(self._retriever.later_of(reader, ids, scope))
        ranked: dict[int, dict[str, Any]] = {
            hit.id: {"score": hit.score, "match": hit.match, "similarity": hit.similarity, "copies": hit.copies}
            for hit in hits
        }
        found = [
            FoundBeginning(
                **mapping.beginning(memory, length),
                superseded_by=superseded.by.get(memory.id, []),
                supersedes=replaced.get(memory.id, [])[: mapping.LINKED],
                **later.get(memory.id, {}),
                **ranked.get(memory.id, {}),
            )
            for memory in memories
        ]
        return mapping.with_notes(found, observations), superseded.hidden.superseded


def position(since: str | int | None, end: Cursor) -> tuple[Cursor, str | None]:
    """Return the cursor after which memories are new, and a message if earlier ones are lost.

    `end`: the newest cursor.
    """
    if since is None:
        return Cursor(), None
    if since == NOW:
        return end, None
    try:
        known = Cursor.parse("since", since)
    except ValidationError:
        raise ValidationError('since must be the cursor of an earlier answer or "now": send one, or omit it.') from None
    kept = end.kept_of(known)
    if kept != known:
        return kept, LOST.format(kept=kept, known=known)
    if known > end and end.may_fall:
        return end, None
    if known > end:
        raise ValidationError(
            "since is not a cursor of this memory: the server now uses another file, or an older copy of it. Omit "
            'since to read from the start, or send "now" to read only what is stored from now on.'
        )
    return known, None


def in_order_message(shown: Sequence[FoundBeginning], total: int) -> str:
    """Report how much is new, and how to continue."""
    if not total:
        return "Nothing new."
    if not shown:
        return f"{total} new. The first one does not fit: repeat with a larger max_tokens and the same since."
    cut = mapping.beginnings_note(shown)
    if len(shown) == total:
        return f"{total} new, all in this answer.{cut}"
    return f"The first {len(shown)} of {total} new. For more, call again with since = cursor.{cut}"


def best_message(shown: Sequence[FoundBeginning], total: int) -> str:
    """Report how many new memories are shown, and how to read the rest."""
    if not total:
        return "Nothing new."
    rest = "" if len(shown) == total else " To read all of them, send the same since without query."
    return f"The best {len(shown)} of {total} new.{rest}{mapping.beginnings_note(shown)}"
