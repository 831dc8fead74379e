"""Answers searches in three grains: chunks (fine), sections (medium), whole memories (coarse).

Every search takes the same steps: question, ranking, judgement, results, answer. A grain defines how units are grouped
into results, and what a result shows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from vector_memory.answers import mapping, models
from vector_memory.answers.budget import Packed, ResponseBudget, explain, listed
from vector_memory.answers.forms import FORM
from vector_memory.domain import LATEST, LINES, MemoryKind, Page, Scope, SearchMode, SearchOrder
from vector_memory.errors import ValidationError
from vector_memory.search import copies, judge
from vector_memory.search.latency import SearchTimer
from vector_memory.search.later import SHORT_BYTES, SHORT_TOKENS, LaterFields, neighbours_of, with_neighbours
from vector_memory.search.messages import better_but_superseded, with_counts
from vector_memory.search.rank import GROWTH, Hit
from vector_memory.search.retrieval import MAX_DEPTH, NOTHING_AHEAD, Ahead, Expected, Retrieval, Retriever
from vector_memory.storage import records
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.damaged import require_all
from vector_memory.storage.queries.evidence import EvidenceOf

CHUNKS_PER_SECTION = 5
"""Chunks to search for each requested section."""

MERGE_RATIO = 0.6
"""A section matches as a whole if at least this share of its chunks match."""

NOT_COMPARED = "The newest first, not compared with the query: omit order for the best match."

NO_LIST = "cursor is for lists of the newest: with a query, send next_offset as offset."

NOUNS: dict[str, str] = {MemoryKind.TAGGED: "tagged note", MemoryKind.KNOWLEDGE_BASE: "knowledge base entry"}
"""Names of kinds in results that differ from the kind's own name."""

GrainName = Literal["chunk", "section", "document"]
"""The size of a result."""

A = TypeVar("A", bound=models.SearchMemoriesResult)
H = TypeVar("H", models.FineSearchResult, models.MediumSearchResult)


class Stored(NamedTuple):
    """The stored chunks of results and their memories, each by id."""

    chunks: Mapping[int, records.StoredChunk]
    sources: Mapping[int, Any]


class RankedPage(NamedTuple):
    """The results for a page, and what to report about them.

    `more`: further results follow. `left_out`: number of weak results that the page leaves out. `cursors`: in a list,
    the cursor after each of `found`.
    """

    found: Sequence[Any]
    judgement: judge.Judgement
    neighbours: Mapping[int, records.Neighbours] = MappingProxyType({})
    more: bool = False
    left_out: int = 0
    superseded: mapping.Superseded = mapping.Superseded()
    best_superseded: models.SupersededMatch | None = None
    cursors: Sequence[str] = ()

    def fields(self, answer: Packed[Any], message: str) -> dict[str, Any]:
        """Return the fields that all answers have."""
        return answer.fields() | {
            "total_results": mapping.counted_with_copies(answer.results),
            "confidence": self.judgement.confidence,
            "weak": self.left_out,
            "superseded": self.superseded.hidden.superseded,
            "pending": self.superseded.hidden.pending,
            "elsewhere": self.judgement.elsewhere,
            "best_superseded": self.best_superseded,
            "message": message,
        }

    @property
    def notes(self) -> list[str]:
        """The sentences of the message, with the counts of what was left out."""
        return with_counts(self.judgement.notes, self.left_out, self.superseded.hidden)


@dataclass(frozen=True)
class Grain(Generic[judge.J]):
    """The size of results, and how matching units become results.

    For a page, the best `units` are judged, and `needed` results must remain without near copies. `grouped` makes
    results of the first `parts` units; None: of all. `about`: what a result is about, besides its text. `shown`: the
    result in an answer. `said`: the text that near copies repeat. `is_short`: whether a result needs its neighbours.
    `memories`: results are whole memories. `has_chunks`: each is one chunk.
    """

    name: Literal["fine", "medium", "coarse"]
    units: Callable[[Page], int]
    needed: Callable[[Page], int]
    grouped: Callable[[Retrieval, Sequence[Hit]], Sequence[judge.J]]
    about: Callable[[judge.J, records.Origin], tuple[object, ...]]
    shown: Callable[[judge.J, Stored, LaterFields], Any]
    said: Callable[[judge.J, Stored], copies.Wording | None]
    is_short: Callable[[judge.J, Stored], bool] = lambda *_: False
    parts: Callable[[Page], int] | None = None
    memories: bool = False
    has_chunks: bool = False


def results_for(
    grain: Grain[judge.J], retrieval: Retrieval, judgement: judge.Judgement, page: Page, *, folds: bool
) -> Sequence[judge.J]:
    """Return the results for a page, given the first judged hits; the latest first, if the page prefers that.

    `folds`: near copies are merged into the newest of them, and further results take their places.
    """
    reader, scope, hits = retrieval.reader, retrieval.scope, judgement.hits
    count, needed = grain.units(page), grain.needed(page)
    if grain.parts is not None:
        hits = hits[: (count := grain.parts(page))]
    found, places = grain.grouped(retrieval, hits), dict[int, int]()
    if folds and not (page.is_part and grain.parts is None):  # `Probes` asks for longer lists
        places = copies_of(grain, reader, found, needed, judgement.origins, retrieval.ahead)
        while places and len(found) - len(places) < needed and count <= len(hits) and count < MAX_DEPTH:
            count = min(count * GROWTH, MAX_DEPTH)
            hits = judge.judged(retrieval.find(count, memories=grain.memories), retrieval.question)
            found = grain.grouped(retrieval, hits)
            places = copies_of(grain, reader, found, needed, judgement.origins, retrieval.ahead)
    if page.is_part:
        return found
    found = copies.without_copies(found, places)
    if page.prefer is None:
        return judge.current_first(reader, retrieval.question, found, judgement.links)
    return judge.latest_first(
        found, copies.newer_of(reader, scope, [one.memory_id for one in found[: copies.RUN]], page)
    )


def copies_of(
    grain: Grain[judge.J],
    reader: Reader,
    found: Sequence[judge.J],
    needed: int,
    origins: Mapping[int, records.Origin],
    ahead: Ahead = NOTHING_AHEAD,
) -> dict[int, int]:
    """Return the places of near copies among results (see `copies_in`).

    `origins`: of memories, as far as known. `ahead`: texts that were read ahead.
    """

    def said(run: Sequence[Any]) -> list[copies.Wording | None]:
        known = copies.origins_of(reader, [one.memory_id for one in run], origins)
        alike = copies.suspects(run, lambda one: grain.about(one, known[one.memory_id]))
        if grain.has_chunks:
            missing = sorted({one.id for one in alike} - ahead.chunks.keys())
            stored = Stored({**ahead.chunks, **(reader.chunks.get_all(missing) if missing else {})}, known)
        else:
            missing = sorted({one.memory_id for one in alike} - ahead.memories.keys())
            stored = Stored({}, {**ahead.memories, **(reader.memories.get_all(missing) if missing else {})})
            require_all(stored.sources, missing)
        return [grain.said(one, stored) if one in alike else None for one in run]

    return copies.copies_in(found, needed if grain.parts is None else len(found), said)


class Search:
    """Searches one memory. `record_access` counts whole memories as read.

    `evidence`: tells whether what memories are about still holds. `read_with`: the tool that reads the rest of a memory
    that an answer cuts.
    """

    def __init__(
        self,
        storage: Storage,
        retriever: Retriever,
        timer: SearchTimer,
        budget: ResponseBudget,
        record_access: Callable[[Sequence[int]], None] | None,
        evidence: mapping.EvidenceNotes,
        read_with: str = mapping.READ_WITH,
    ) -> None:
        self._storage = storage
        self.retriever = retriever
        self._timer = timer
        self._budget = budget
        self._record_access = record_access
        self._evidence = evidence
        self._read_with = read_with

    def chunks(
        self, query: str, scope: Scope, page: Page, mode: SearchMode | None, neighbours: int
    ) -> models.FineSearchResult:
        """Return the chunks that match best, best first; short ones with their neighbours."""
        scope.require_chunks()
        return self._with_hits(models.FineSearchResult, self._best(FINE, query, scope, page, mode, neighbours), page)

    def sections(self, query: str, scope: Scope, page: Page, mode: SearchMode | None) -> models.MediumSearchResult:
        """Return the sections that match best, best first."""
        scope.require_chunks()
        return self._with_hits(models.MediumSearchResult, self._best(MEDIUM, query, scope, page, mode), page)

    def scoped(self, scope: Scope, page: Page, *, latest_first: bool = True) -> models.SearchMemoriesResult:
        """List the newest (or oldest) memories of the scope."""
        ranked = self._look_up(scope, page, latest_first=latest_first)
        return self._with_memories(models.SearchMemoriesResult, ranked, scope, page, latest_first=latest_first)

    def memories(
        self, query: str | None, scope: Scope, page: Page, mode: SearchMode | None = None, neighbours: int = 0
    ) -> models.SearchMemoriesResult:
        """Return the memories that match best, short ones with `neighbours`; without a query the newest."""
        if query is None:
            found = self._look_up(scope, page)
        else:
            found = self._best(COARSE, query, scope, page, mode, neighbours)
        return self._with_memories(models.SearchMemoriesResult, found, scope, page, query)

    def documents(
        self, query: str | None, scope: Scope, page: Page, mode: SearchMode | None, *, order: SearchOrder | None
    ) -> models.CoarseSearchResult:
        """Return the documents that match best; without a query, or in the order `recent`, the newest."""
        if query is None and order is SearchOrder.RELEVANCE:
            raise ValidationError('order="relevance" needs a query: send one, or leave order out for the newest.')
        if query is None or order is SearchOrder.RECENT:
            ranked = self._look_up(scope, page, note=None if query is None else NOT_COMPARED)
        else:
            ranked = self._best(COARSE, query, scope, page, mode)
        return self._with_memories(models.CoarseSearchResult, ranked, scope, page, query)

    def _look_up(self, scope: Scope, page: Page, *, latest_first: bool = True, note: str | None = None) -> RankedPage:
        order: records.Order = "newest" if latest_first else "oldest"
        listing = records.listing_of(scope, order)
        with self._timer.time(f"search_coarse_{scope.kind}"), self._storage.read() as reader:
            after = None if page.cursor is None else position_of(reader, page.cursor, listing)
            memories = reader.memories.page(scope, page.limit + 1, page.offset, order=order, after=after)
            observations = mapping.observations_on(reader, memories, scope.as_of)
            superseded = mapping.superseded_in(reader, scope, [memory.id for memory in memories])
            shown = [memory.id for memory in memories[: page.limit]]
            later, evidence = reader.together(
                self.retriever.later_of(reader, shown, scope, page), reader.evidence.of.steps(shown)
            )
            notes = [judge.nothing_stored(reader, scope)] if not memories and not (page.offset or after) else []
        later = self._beside(later, superseded, evidence)
        found = [mapping.found_memory(memory, **later.get(memory.id, {})) for memory in memories[: page.limit]]
        said = judge.Judgement(notes=(*notes, *filter(None, [note])))
        listed, more = mapping.with_notes(found, observations), len(memories) > page.limit
        cursors = [records.cursor_after(memory, listing) for memory in memories]
        return RankedPage(listed, said, more=more, superseded=superseded, cursors=cursors)

    def _best(
        self, grain: Grain[Any], query: str, scope: Scope, page: Page, mode: SearchMode | None, neighbours: int = 0
    ) -> RankedPage:
        if page.cursor is not None:
            raise ValidationError(NO_LIST)
        form = FORM.get()
        with self._timer.time(f"search_{grain.name}_{scope.kind}"):
            question, folds = self.retriever.prepare(query, mode, scope), self.retriever.folds(scope, page)
            wanted = Expected(not page.only_here, folds, grain is MEDIUM, grain.memories)
            with judge.judging(self.retriever, question, scope, grain.units(page), wanted) as (retrieval, judgement):
                matches, left_out, more = judge.on_page(
                    results_for(grain, retrieval, judgement, page, folds=folds), page
                )
                reader, ids = retrieval.reader, list(dict.fromkeys(match.memory_id for match in matches))
                is_place_enough = grain.has_chunks and not form.cuts
                chunks, sources, observations, around, superseded, later, newer, evidence = reader.together(
                    reader.chunks.get_all.steps([match.id for match in matches] if grain.has_chunks else []),
                    copies.origins_of.steps(reader, ids, judgement.origins)
                    if is_place_enough
                    else reader.memories.get_all.steps(ids),
                    mapping.notes_on.steps(reader, reports_among(scope, matches), scope.as_of),
                    neighbours_of(reader, scope, ids, neighbours),
                    mapping.superseded_in.steps(reader, scope, ids),
                    self.retriever.later_of(reader, ids, scope, page),
                    copies.newer_of.steps(reader, scope, ids if page.is_part else [], page),
                    reader.evidence.of.steps(ids),
                )
                replaced = self._best_superseded(retrieval, judgement) if superseded.hidden.superseded else None
        require_all(sources, ids)
        stored, later = Stored(chunks, sources), self._beside(later, superseded, evidence)
        shown = [grain.shown(match, stored, later) for match in matches]
        if page.is_part:
            for result, match in zip(shown, matches, strict=True):
                result.saying(grain.said(match, stored) if folds else None, newer.get(match.memory_id, ()))
        if not grain.memories:
            shown = form.cut_hits(shown, retrieval.question.terms or (), sources, page)
        short = {one.memory_id for one in matches if one.memory_id in around and grain.is_short(one, stored)}
        around = {number: around[number] for number in short}
        if replaced is not None:
            said = better_but_superseded(replaced.id, replaced.superseded_by, self._read_with)
            judgement = replace(judgement, notes=(*judgement.notes, said))
        return RankedPage(
            mapping.with_notes(shown, observations), judgement, around, more, left_out, superseded, replaced
        )

    def _best_superseded(self, retrieval: Retrieval, judgement: judge.Judgement) -> models.SupersededMatch | None:
        """Return the best match with what superseded it, if it is superseded."""
        reader, best = retrieval.reader, judge.best_superseded(self.retriever, retrieval, judgement)
        newer = [] if best is None else mapping.succession_of(reader, best.memory_id)["superseded_by"]
        if best is None or not newer:
            return None
        origins = reader.memories.origins([best.memory_id, *newer])
        title, trust = origins[best.memory_id].title, origins[best.memory_id].trust
        if any(min(origins[one].trust, 0) > trust for one in newer if one in origins):
            return None  # what is trusted less is not brought back
        return models.SupersededMatch(id=best.memory_id, title=title, superseded_by=newer)

    def _beside(self, later: LaterFields, superseded: mapping.Superseded, evidence: EvidenceOf) -> LaterFields:
        """Return the fields of results that stand beside their texts."""
        fields = {"superseded_by": superseded.by, "evidence": self._evidence(evidence) if evidence else {}}
        numbers = later.keys() | {number for values in fields.values() for number in values}
        return {
            number: {**later.get(number, {}), **{name: values.get(number, []) for name, values in fields.items()}}
            for number in numbers
        }

    def _with_hits(self, kind: type[H], ranked: RankedPage, page: Page) -> H:
        found, around = ranked.found, ranked.neighbours
        noun, read_with = NAMED[kind]

        def build(budget: ResponseBudget) -> H:
            held: list[Any] = budget.held(found)
            shown = budget.with_more(held, with_neighbours(held, around, is_part=page.is_part)) if around else held
            answer = budget.packed(found, shown, page, more=ranked.more)
            fields = ranked.fields(answer, explain(noun, answer, ranked.notes, read_with=read_with))
            return kind(**fields).noting(ranked.judgement.notes)

        return self._budget.for_page(page).fit(build)

    def _with_memories(
        self,
        kind: type[A],
        ranked: RankedPage,
        scope: Scope,
        page: Page,
        query: str | None = None,
        *,
        latest_first: bool = True,
    ) -> A:
        """Return an answer with whole memories, or one line for each, and count them as read."""
        found, known = ranked.found, ranked.neighbours

        def build(budget: ResponseBudget) -> A:
            if page.detail == LINES:
                lines, answer = listed(budget, found, page, more=ranked.more)
            else:
                shared = budget.share(found)
                shown = budget.with_more(shared, with_neighbours(shared, known)) if known else shared
                lines, answer = [], budget.packed(found, shown, page, more=ranked.more)
            answer = answer.listed(ranked.cursors, page)
            fields = ranked.fields(answer, summary(answer, ranked.notes, scope, self._read_with))
            return kind(
                **fields | ({"results": [], "lines": lines} if page.detail == LINES else {}),
                next_cursor=answer.next_cursor,
                query=budget.echo(query),
                filters=budget.echo(scope.as_filters()),
                limit=page.limit,
                latest_first=latest_first,
            ).noting(ranked.judgement.notes)

        answer = self._budget.for_page(page).fit(build)
        if self._record_access is not None and not page.is_part:
            self._record_access([memory.id for memory in answer.results])
        return answer


def position_of(reader: Reader, cursor: str, listing: str) -> records.ListPosition:
    """Return where the list continues. Raises ValidationError."""
    position = records.ListPosition.parse(cursor, listing)
    if position.turn is not None:
        return position
    found = reader.memories.origins([position.id]).get(position.id)
    if found is None:
        raise ValidationError("The memory after which this list continues was deleted: start again without cursor.")
    return position._replace(turn=found.turn)


def summary(answer: Packed[models.FoundMemory], notes: Sequence[str], scope: Scope, read_with: str) -> str:
    """Report how much was found, and whether results were cut or left out."""
    kind = scope.kind or "memory"
    noun = NOUNS.get(kind, kind.replace("_", " "))
    said = explain(noun, answer, notes, read_with=read_with)
    return (said + mapping.cut_note(answer.results, read_with)).strip()


# Chunks.


def found_chunk(hit: Hit, stored: Stored, later: LaterFields) -> models.FoundChunk:
    """Return a result for a chunk."""
    chunk = stored.chunks[hit.id].chunk
    return models.FoundChunk(
        **mapping.provenance(stored.sources[hit.memory_id]),
        chunk_id=hit.id,
        memory_id=hit.memory_id,
        chunk_index=chunk.index,
        chunk_content=chunk.text,
        content_start=chunk.start,
        chunk_type=chunk.kind,
        header_path=chunk.header_path,
        level=chunk.level,
        score=hit.score,
        match=hit.match,
        similarity=hit.similarity,
        sources=list(hit.sources),
        copies=hit.copies,
        **later.get(hit.memory_id, {}),
    )


def chunk_wording(hit: Hit, stored: Stored) -> copies.Wording | None:
    """Return the wording of a chunk; None if it is too long."""
    chunk = stored.chunks[hit.id].chunk
    return copies.wording_of(stored.sources[hit.memory_id], chunk.text, chunk.headings)


# Sections.


def chunks_for(page: Page) -> int:
    """Return how many chunks form the sections of a page; the same for all pages, to keep their order."""
    return max(page.limit * CHUNKS_PER_SECTION, judge.CANDIDATES if page.prefer == LATEST else 0)


def sections_among(retrieval: Retrieval, hits: Sequence[Hit]) -> list[copies.MatchedSection]:
    """Group hits into the sections that contain them."""
    ids, known = {hit.memory_id for hit in hits}, retrieval.ahead.outlines
    missing = sorted(ids - {chunk.memory_id for chunk in known})
    more = retrieval.reader.chunks.outlines(missing) if missing else ()
    chunks = [*(chunk for chunk in known if chunk.memory_id in ids), *more]
    return copies.rank_sections(copies.sections_of(sorted(chunks, key=lambda chunk: chunk.memory_id)), hits)


def section_wording(match: copies.MatchedSection, stored: Stored) -> copies.Wording | None:
    """Return the wording of a section; None if it is too long."""
    section, memory = match.section, stored.sources[match.memory_id]
    return copies.wording_of(memory, memory.content[section.start : section.end], section.headings)


def found_section(match: copies.MatchedSection, stored: Stored, later: LaterFields) -> models.FoundSection:
    """Return a result for a section, with its text as in the document."""
    section, memory = match.section, stored.sources[match.memory_id]
    path = " > ".join(section.headings)
    return models.FoundSection(
        **mapping.provenance(memory),
        memory_id=memory.id,
        section_header=path,
        section_content=memory.content[section.start : section.end],
        header_path=path,
        chunks_in_section=len(section.chunk_ids),
        matched_chunks=len(match.hits),
        match_ratio=match.match_ratio,
        auto_merged=match.match_ratio >= MERGE_RATIO,
        score=match.score,
        match=match.match,
        similarity=match.similarity,
        sources=match.sources,
        copies=match.copies,
        content_start=section.start,
        **later.get(memory.id, {}),
    )


# Whole memories.


def found_whole(hit: Hit, stored: Stored, later: LaterFields) -> models.FoundMemory:
    """Return a result for a memory."""
    return mapping.found_memory(
        stored.sources[hit.id],
        score=hit.score,
        match=hit.match,
        similarity=hit.similarity,
        source_type="keyword" if hit.similarity is None else "vector",
        sources=list(hit.sources),
        copies=hit.copies,
        **later.get(hit.id, {}),
    )


def units_for(page: Page) -> int:
    """Return how many units are judged for a page: whole runs, so that pages are stable."""
    return copies.whole_runs(copies.results_needed(page))


FINE = Grain[Hit](
    name="fine",
    units=units_for,
    needed=copies.results_needed,
    grouped=lambda _, hits: hits,
    about=lambda _, origin: copies.names_of(origin),
    shown=found_chunk,
    said=chunk_wording,
    is_short=lambda hit, stored: stored.chunks[hit.id].chunk.token_count < SHORT_TOKENS,
    has_chunks=True,
)
MEDIUM = Grain[copies.MatchedSection](
    name="medium",
    units=lambda page: max(judge.CANDIDATES, chunks_for(page)),
    needed=lambda page: page.limit,
    grouped=sections_among,
    about=lambda match, origin: (*copies.names_of(origin), match.section.headings),
    shown=found_section,
    said=section_wording,
    parts=chunks_for,
)
COARSE = Grain[Hit](
    name="coarse",
    units=units_for,
    needed=copies.results_needed,
    grouped=lambda _, hits: hits,
    about=lambda _, origin: copies.names_of(origin),
    shown=found_whole,
    said=lambda hit, stored: copies.wording_of(stored.sources[hit.memory_id], stored.sources[hit.memory_id].content),
    is_short=lambda hit, stored: len(stored.sources[hit.memory_id].content.encode()) < SHORT_BYTES,
    memories=True,
)

GRAINS: dict[GrainName, Grain[Any]] = {"chunk": FINE, "section": MEDIUM, "document": COARSE}

NAMED: dict[type[models.SearchResult], tuple[str, str]] = {
    models.FineSearchResult: ("chunk", "expand_chunk_context"),
    models.MediumSearchResult: ("section", mapping.READ_WITH),
    models.CoarseSearchResult: ("document", mapping.READ_WITH),
}
"""For each answer, the name of a hit, and the tool that reads one."""


def reports_among(scope: Scope, hits: Sequence[judge.J]) -> set[int]:
    """Return the ids of the reports that match well, or of all reports if matches were not judged."""
    is_wanted = scope.kind is MemoryKind.REPORT
    return {hit.memory_id for hit in hits if is_wanted and hit.match in (None, "strong")}
