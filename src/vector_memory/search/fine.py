"""Fine search: the chunks that match best."""

from vector_memory.domain import Page, Scope, SearchMode
from vector_memory.results.budget import ResponseBudget, explain
from vector_memory.results.lean import IS_LEAN, shortened_hits
from vector_memory.results.mapping import counted_with_copies, notes_on, provenance, superseded_in, with_notes
from vector_memory.results.sessions import FineSearchResult, FoundChunk, Omitted
from vector_memory.search.copies import needed_for, newer_of, results_of, said_in, whole_runs
from vector_memory.search.fusion import Hit
from vector_memory.search.latency import SearchTimer
from vector_memory.search.later import LaterFields, with_superseding
from vector_memory.search.messages import said_with
from vector_memory.search.neighbours import SHORT_TOKENS, beside, neighbours_of
from vector_memory.search.relevance import on_page
from vector_memory.search.retrieval import reports_among
from vector_memory.search.retriever import Retriever
from vector_memory.storage.damaged import require_all
from vector_memory.storage.records import Memory, Origin, StoredChunk


class FineSearch:
    """Finds chunks."""

    def __init__(self, retriever: Retriever, timer: SearchTimer, budget: ResponseBudget) -> None:
        self._retriever = retriever
        self._timer = timer
        self._budget = budget

    def search(
        self, query: str, scope: Scope, page: Page, mode: SearchMode | None, neighbours: int
    ) -> FineSearchResult:
        """Return the chunks that match the query best, best first, short ones with their neighbours."""
        scope.require_chunks()
        with self._timer.time(f"search_fine_{scope.kind}"):
            question = self._retriever.prepare(query, mode, scope)
            count, folds = whole_runs(needed_for(page)), self._retriever.folds(scope, page)
            with self._retriever.judging(question, scope, count, page) as (retrieval, judgement):
                found = results_of(retrieval, scope, judgement.hits, page, folds=folds)
                hits, left_out, more = on_page(found, page)
                numbers = [hit.memory_id for hit in hits]
                reader = retrieval.reader
                chunks, sources, observations, around, superseded, later, newer = reader.together(
                    reader.chunks.steps([hit.id for hit in hits]),
                    reader.memories.steps(numbers) if IS_LEAN.get() else retrieval.origins.steps(numbers),
                    notes_on.steps(reader, reports_among(scope, hits), scope.as_of),
                    neighbours_of(reader, scope, numbers, neighbours),
                    superseded_in.steps(reader, scope, numbers),
                    self._retriever.later_of(reader, numbers, scope, page),
                    newer_of.steps(reader, scope, numbers if page.is_part else [], page),
                )
                short = {chunk.memory_id for chunk in chunks.values() if chunk.chunk.token_count < SHORT_TOKENS}
                known = {number: around[number] for number in short & around.keys()}
        notes = said_with(judgement.notes, left_out, superseded.number)
        require_all(sources, numbers)
        beside_each = with_superseding(later, superseded.by)
        matched = [found_chunk(hit, chunks[hit.id], sources[hit.memory_id], beside_each) for hit in hits]
        matched = with_notes(matched, observations)
        if page.is_part:
            for chunk in matched:
                stored = chunks[chunk.chunk_id].chunk
                said = said_in(sources[chunk.memory_id], stored.text, stored.headings) if folds else None
                chunk.saying(said, newer.get(chunk.memory_id, ()))
        if IS_LEAN.get():
            lengths = {number: len(source.content.rstrip()) for number, source in sources.items()}
            matched = shortened_hits(matched, retrieval.question.terms or (), lengths, page)

        def build(budget: ResponseBudget) -> FineSearchResult:
            held = budget.held(matched)
            shown = budget.with_more(held, beside(held, known, is_part=page.is_part)) if known else held
            answer = budget.packed(matched, shown, page, omitted_chunk, more=more)
            return FineSearchResult(
                **answer.fields(),
                total_results=counted_with_copies(answer.results),
                confidence=judgement.confidence,
                weak=left_out,
                superseded=superseded.number,
                elsewhere=judgement.elsewhere,
                message=explain("chunk", answer, notes, read_with="expand_chunk_context"),
            ).noting(judgement.notes)

        return self._budget.for_page(page).fit(build)


def found_chunk(hit: Hit, stored: StoredChunk, source: Memory | Origin, beside: LaterFields) -> FoundChunk:
    """Return a result for a chunk."""
    chunk = stored.chunk
    return FoundChunk(
        **provenance(source),
        chunk_id=stored.id,
        memory_id=stored.memory_id,
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
        copies=list(hit.copies),
        **beside.get(hit.memory_id, {}),
    )


def omitted_chunk(chunk: FoundChunk) -> Omitted:
    """Return the entry for a chunk that was left out."""
    return Omitted(id=chunk.chunk_id, characters=len(chunk.chunk_content))
