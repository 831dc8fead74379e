"""Fine search: the chunks that match best."""

from vector_memory.entries import provenance
from vector_memory.packing import Packer, omissions
from vector_memory.results import FineSearchResult, FoundChunk, Omitted
from vector_memory.search.neighbours import NearestNeighbours
from vector_memory.search.ranking import Match
from vector_memory.search.timing import SearchTimer
from vector_memory.search.wording import explain
from vector_memory.storage.chunks import StoredChunk, get_chunks
from vector_memory.storage.database import Database
from vector_memory.storage.memories import Origin, get_origins
from vector_memory.values import MAX_LIMIT, Scope, check_range


class FineSearch:
    """Finds chunks by meaning (seed 001, FINE)."""

    def __init__(self, database: Database, neighbours: NearestNeighbours, timer: SearchTimer, packer: Packer) -> None:
        self._database = database
        self._neighbours = neighbours
        self._timer = timer
        self._packer = packer

    def search(self, query: str, scope: Scope, limit: int) -> FineSearchResult:
        """Return the chunks nearest to the query, best first."""
        check_range("limit", limit, 1, MAX_LIMIT)
        with self._timer.time(f"search_fine_{scope.kind}"):
            vector = self._neighbours.embed(query)
            with self._database.read() as connection:
                matches = self._neighbours.chunks(connection, vector, scope, limit)
                chunks = get_chunks(connection, [match.id for match in matches])
                origins = get_origins(connection, [match.memory_id for match in matches])
                problem = self._neighbours.explain_missing(connection, scope, found=bool(matches))
        found = [self._shown(match, chunks[match.id], origins[match.memory_id]) for match in matches]
        results = self._packer.fitting(found)
        omitted = omissions(
            found, results, lambda chunk: Omitted(id=chunk.chunk_id, characters=len(chunk.chunk_content))
        )
        return FineSearchResult(
            results=results,
            total_results=len(results),
            omitted=omitted,
            message=explain("chunk", len(results), problem, omitted, read_with="expand_chunk_context"),
        )

    def _shown(self, match: Match, stored: StoredChunk, origin: Origin) -> FoundChunk:
        """Return a result for a chunk; one that no answer could hold, a very long code fence, is cut."""
        text, end = self._packer.cut(stored.chunk.text)
        chunk = found_chunk(match, stored, origin)
        if end is None:
            return chunk
        return chunk.model_copy(update={"chunk_content": text, "content_end": stored.chunk.start + end})


def found_chunk(match: Match, stored: StoredChunk, origin: Origin) -> FoundChunk:
    """Return a result for a chunk."""
    chunk = stored.chunk
    return FoundChunk(
        **provenance(origin),
        chunk_id=stored.id,
        memory_id=stored.memory_id,
        chunk_index=chunk.index,
        chunk_content=chunk.text,
        content_start=chunk.start,
        chunk_type=chunk.kind,
        header_path=chunk.header_path,
        level=chunk.level,
        similarity=match.similarity,
    )
