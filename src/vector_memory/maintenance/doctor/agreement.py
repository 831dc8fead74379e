"""Checks whether what is derived from the texts matches them, for memories of any engine."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np

from vector_memory.domain import STORED, MemoryKind, Scope
from vector_memory.domain.text import counted
from vector_memory.errors import DatabaseError, DatabaseLockError, EmbeddingUnavailableError, VectorMemoryError
from vector_memory.indexing.indexer import Indexer
from vector_memory.maintenance.doctor.report import Finding, Level, agreement, fine, fixable, named, problem, warning
from vector_memory.sessions.writer import hash_of
from vector_memory.storage.base import Reader
from vector_memory.storage.maintenance_api import WholeMemory
from vector_memory.storage.postings import LENGTH, POSTING, Postings, indexed
from vector_memory.storage.queries.portions import WordBlock
from vector_memory.storage.records import StoredPassage
from vector_memory.storage.terms import RULES
from vector_memory.storage.unit_text import searchable_texts

MEMORIES_AT_ONCE = 100
BLOCKS_AT_ONCE = 20
UNIT_LENGTH_TOLERANCE = 0.01

Check = Callable[[], Iterable[Finding]]

Unread = Callable[[Mapping[str, str]], Finding]
"""Returns the finding of checks that failed because of what is stored, from their names and errors."""

Translated = Callable[[], AbstractContextManager[None]]
"""Translates the errors of an engine into those of this package."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The ids of memories with changed text, and of those whose chunks, passages or vectors do not match the text.

    `searchable`: the memories whose words should be indexed, whatever is wrong with them.
    """

    text: set[int] = field(default_factory=set)
    chunks: set[int] = field(default_factory=set)
    passages: set[int] = field(default_factory=set)
    vectors: set[int] = field(default_factory=set)
    searchable: set[int] = field(default_factory=set)

    @property
    def derived(self) -> set[int]:
        """The memories whose derived data can be rebuilt from the text."""
        return self.chunks | self.passages | self.vectors


def faults_in(reader: Reader, translated: Translated) -> Faults:
    """Read each memory, and compare it with its checksum, its chunks, its passages and their vectors."""
    faults = Faults()
    ids = sorted(reader.ids(Scope(as_of=STORED)))
    for portion in (ids[start : start + MEMORIES_AT_ONCE] for start in range(0, len(ids), MEMORIES_AT_ONCE)):
        try:
            with translated():
                memories = reader.upkeep.portions.memories(portion[0] - 1, len(portion))
        except DatabaseError:
            memories = [whole for number in portion if (whole := _read_alone(reader, number, faults, translated))]
        for whole in memories:
            _compare(whole, faults)
    return faults


def _read_alone(reader: Reader, memory_id: int, faults: Faults, translated: Translated) -> WholeMemory | None:
    """Return a memory, or note what of it cannot be read."""
    noted = faults.text
    try:
        with translated():
            reader.memory(memory_id)
            noted = faults.chunks
            reader.chunks_of(memory_id)
            noted = faults.vectors
            (whole,) = reader.upkeep.portions.memories(memory_id - 1, 1)
            return whole
    except DatabaseError:
        noted.add(memory_id)
        faults.searchable.add(memory_id)
        return None


def _compare(whole: WholeMemory, faults: Faults) -> None:
    memory = whole.memory
    if whole.chunks or not memory.chunked:
        faults.searchable.add(memory.id)
    if hash_of(memory.content) != memory.content_hash:
        faults.text.add(memory.id)
    elif not are_chunks_correct(whole):
        faults.chunks.add(memory.id)
    elif not are_passages_correct(whole):
        faults.passages.add(memory.id)
    elif not all(map(is_vector_correct, whole.passages or ())):
        faults.vectors.add(memory.id)


def are_chunks_correct(whole: WholeMemory) -> bool:
    """Return whether a memory has the chunks that it should have, at their offsets in the text."""
    memory, chunks = whole.memory, [stored.chunk for stored in whole.chunks]
    if not memory.chunked or (not chunks and whole.passages is None):
        return not chunks
    return len(chunks) == memory.chunk_count and all(
        chunk.index == index and memory.content[chunk.start : chunk.end] == chunk.text
        for index, chunk in enumerate(chunks)
    )


def are_passages_correct(whole: WholeMemory) -> bool:
    """Return whether all passages are inside units, and a memory with vectors has passages of all its units."""
    content = whole.memory.content
    units: dict[int | None, tuple[int, int]] = {None: (0, len(content))}
    if whole.memory.chunked:
        units = {stored.chunk.index: (stored.chunk.start, stored.chunk.end) for stored in whole.chunks}
    if whole.passages is None:
        return True
    for passage in whole.passages:
        start, end = units.get(passage.chunk, (0, 0))
        if not start <= passage.start < passage.end <= end:
            return False
    covered = {passage.chunk for passage in whole.passages}
    return not any(content[start:end].strip() for unit, (start, end) in units.items() if unit not in covered)


def is_vector_correct(passage: StoredPassage) -> bool:
    """Return whether a vector has the length 1, and the states of tokens have one bit for each of its numbers."""
    is_long_enough = abs(np.linalg.norm(passage.vector) - 1) < UNIT_LENGTH_TOLERANCE
    return bool(is_long_enough) and not len(passage.states or b"") % ((len(passage.vector) + 7) // 8)


def are_words_correct(reader: Reader, faults: Faults) -> bool:
    """Return whether the keyword index matches the texts, apart from blocks by earlier rules and damaged memories."""
    damaged, wanted, last_id = faults.text | faults.chunks, set(faults.searchable), 0
    while blocks := reader.upkeep.portions.blocks(last_id, BLOCKS_AT_ONCE):
        last_id = blocks[-1].id
        for block in blocks:
            if not block.contents.is_sound:
                return False
            placed = set(block.contents.spans())
            unknown = block.rules < RULES or placed & damaged
            if not placed <= wanted or not (unknown or is_block_correct(reader, block)):
                return False
            wanted -= placed
    return wanted <= damaged


def is_block_correct(reader: Reader, block: WordBlock) -> bool:
    """Return whether a block has exactly the words of its memories; more, if some have expired and are not erased."""
    postings = defaultdict[int, list[bytes]](list)
    contents = block.contents
    spans = contents.spans()
    memories = reader.memories(list(spans))
    if len(contents.lengths) != block.units * LENGTH.itemsize or reader.keywords.memories_in(block.id) != sorted(spans):
        return False
    for memory_id, memory in memories.items():  # those that have expired cannot be read any more
        span, chunks = spans[memory_id], reader.chunks_of(memory_id)
        parts = [each.chunk for each in chunks]
        words = indexed(searchable_texts(memory.title, memory.content, parts, chunked=memory.chunked), span.start)
        ids = [each.id for each in chunks] if memory.chunked else [memory_id]
        if (block.kind, contents.units_at(span), contents.lengths_at(span)) != (memory.memory_type, ids, words.lengths):
            return False
        for bucket, row in words.postings.items():
            postings[bucket].append(row)
    if len(memories) < len(spans):
        there = {bucket: posted(row) for bucket, row in block.postings.items()}
        return all(np.isin(posted(b"".join(rows)), there.get(bucket, ())).all() for bucket, rows in postings.items())
    stored = {bucket: sorted_row(row) for bucket, row in block.postings.items() if row}
    return bool(spans) and stored == {bucket: sorted_row(b"".join(rows)) for bucket, rows in postings.items()}


def sorted_row(row: bytes) -> bytes:
    """Return postings, sorted. An incomplete one at the end is left out."""
    postings = posted(row)
    return np.sort(postings).tobytes()


def posted(row: bytes) -> Postings:
    """Return the postings of a row. An incomplete one at the end is left out."""
    return np.frombuffer(row[: len(row) // POSTING.itemsize * POSTING.itemsize], POSTING)


def unknown_tags(reader: Reader) -> dict[str, int]:
    """Return the tags of tagged memories that are not canonical, with the number of their memories."""
    used = reader.count_by(Scope(kind=MemoryKind.TAGGED, as_of=STORED), "tag")
    known = {tag.tag for tag in reader.canonical_tags(list(used))}
    return {tag: count for tag, count in used.items() if tag and tag not in known}


def agreements(
    reader: Reader,
    indexer: Indexer,
    translated: Translated,
    *,
    restore: str,
    unread: Unread,
    other: Mapping[str, Check],
) -> Iterator[Finding]:
    """Compare what is derived with the texts, and the vectors with the model.

    `restore`: how to restore a backup. `other`: checks of the engine itself, which come first.
    """
    faults = Faults()

    def compared() -> Iterator[Finding]:
        nonlocal faults
        faults = faults_in(reader, translated)
        yield from text_findings(reader.count(Scope(as_of=STORED)), faults, restore)

    def indexed() -> Iterator[Finding]:
        yield words(right=are_words_correct(reader, faults), outdated=reader.upkeep.portions.count_outdated())

    checks: dict[str, Check] = {
        **other,
        "text": compared,
        "keywords": indexed,
        "tags": lambda: [tags(unknown_tags(reader))],
        "superseded": lambda: [superseded(reader.wrong_lifecycles())],
        "unindexed": lambda: [unindexed(reader)],
        "fingerprint": lambda: [fingerprint(reader, indexer)],
        "reembedding": lambda: reembedding(reader),
    }
    failed: dict[str, str] = {}
    for name, check in checks.items():
        try:
            with translated():
                found = list(check())
        except DatabaseLockError:
            raise
        except VectorMemoryError as error:
            failed[name] = str(error)
        else:
            yield from found
    if failed:
        yield unread(failed)


def text_findings(total: int, faults: Faults, restore: str) -> Iterator[Finding]:
    """Report the memories, of `total`, whose text has changed, or whose derived data do not match it."""
    if faults.text:
        changed = f"The text of {named(faults.text)} has changed since it was stored, or cannot be read."
        yield problem("text", changed, restore)
    else:
        yield fine("text", f"The text of {counted(total, 'memory', 'memories')} matches its checksum.")
    for name, what, ids in (("chunks", "chunk", faults.chunks), ("passages", "passage", faults.passages)):
        yield agreement(
            name,
            f"Every {what} is a part of its memory's text.",
            ids and f"The {what}s of {named(ids)} are missing or do not match the text.",
        )
    invalid = f"Vectors of {named(faults.vectors)} are missing or invalid." if faults.vectors else ""
    yield agreement("vectors", "Every passage has a vector of the length 1.", invalid)


def words(*, right: bool, outdated: int) -> Finding:
    """Say whether the keyword index matches the texts. `outdated`: memories whose words are to be indexed again."""
    if right and outdated:
        message = (
            f"The words of {counted(outdated, 'memory', 'memories')} were indexed by the rules of an earlier "
            "release, so not all of them are found yet. A server indexes them again in the background."
        )
        return fixable("keywords", message, Level.WARNING)
    wrong = "" if right else "The keyword index does not match the texts."
    return agreement("keywords", "The keyword index matches the texts.", wrong)


def tags(unknown: Collection[str]) -> Finding:
    """Say which tags are in use, but not canonical."""
    message = f"Not canonical: {counted(len(unknown), 'tag')} of tagged memories."
    return agreement("tags", "Every tag of a tagged memory is canonical.", unknown and message)


def superseded(wrong: Collection[int]) -> Finding:
    """Say which memories are not superseded as what supersedes them says."""
    message = f"Superseded otherwise than their links say: {named(wrong)}."
    return agreement("superseded", "Exactly the memories that others supersede are superseded.", wrong and message)


def orphans(rows: Mapping[str, int]) -> Finding:
    """Report how many rows belong to no memory, by table."""
    listed = ", ".join(f"{number:,} in {table}" for table, number in sorted(rows.items()))
    message = listed and f"There are orphaned rows: {listed}."
    return agreement("orphans", "Every chunk and passage belongs to a memory.", message)


def copied_fields(misfiled: Collection[int]) -> Finding:
    """Report the memories whose vectors have other fields than the memory that they were copied from."""
    return agreement(
        "index",
        "Every vector has its memory's session, kind, agent, iteration and task.",
        misfiled and f"Vectors of {named(misfiled)} have another session, kind, agent, iteration or task.",
    )


def unindexed(reader: Reader) -> Finding:
    """Check for memories that lack vectors which no process is computing."""
    coming = reader.pending(Scope(as_of=STORED)).memories
    missing = reader.count(Scope(as_of=STORED), without_vectors=True) - coming
    if not missing and coming:
        memory = counted(coming, "new memory", "new memories")
        return fine("unindexed", f"A server is computing the vectors of {memory}; all others have theirs.")
    if not missing:
        return fine("unindexed", "Every memory has vectors.")
    lack = "lacks" if missing == 1 else "lack"
    message = f"{counted(missing, 'memory', 'memories')} {lack} vectors and may be found by words only."
    return fixable("unindexed", message, Level.WARNING)


def fingerprint(reader: Reader, indexer: Indexer) -> Finding:
    """Check that the stored vectors are comparable with the model's."""
    present = reader.fingerprint()
    try:
        reader.require_comparable(indexer.fingerprint)
    except EmbeddingUnavailableError as error:
        if indexer.is_ready:
            return problem("fingerprint", str(error))
        return fine("fingerprint", "Not checked: there is no model to compare the vectors with.")
    if present is None:
        return fine("fingerprint", "There are no vectors yet.")
    said = f"The vectors were computed with {present}, the configured model."
    if indexer.keeps_states and reader.upkeep.spare_vectors.are_states_missing():
        said += " Some passages have no states of their tokens for late interaction: `vector-memory reembed` adds them."
    return fine("fingerprint", said)


def reembedding(reader: Reader) -> Iterator[Finding]:
    """Check for a change of the model that is in progress or was interrupted."""
    spare = reader.upkeep.spare_vectors
    if spare.exist():
        new_model = spare.needed_for()
        message = (
            f"Recomputing the vectors with {new_model} is in progress or was interrupted."
            if new_model
            else "Some vectors of an earlier model have not been erased yet."
        )
        yield warning("reembedding", message, "If no `vector-memory reembed` is running, run it again.")
