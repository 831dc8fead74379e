"""Reads stored memories: whole, in parts, around a chunk, or into a file."""

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Self, TypeVar

import yaml

from vector_memory.answers import documents
from vector_memory.answers.budget import BYTES_PER_TOKEN, ResponseBudget
from vector_memory.answers.mapping import (
    READ_WITH,
    EvidenceNotes,
    memory_entry,
    observations_on,
    provenance,
    succession_of,
)
from vector_memory.answers.models import AS_DATA, ObservationNote, to_second
from vector_memory.domain import Trust, utc_now
from vector_memory.domain.text import counted
from vector_memory.domain.validation import check_range, parse_id
from vector_memory.errors import NotFoundError, VectorMemoryError, where
from vector_memory.reading.export import ExportFolders
from vector_memory.storage.base import Reader, Storage
from vector_memory.storage.records import Memory, StoredChunk, Told

if TYPE_CHECKING:
    from vector_memory.writing.writer import MemoryWriter  # needs numpy, which the first answers do not wait for

# Counts reads in the background: a read neither waits for the count nor fails with it.

logger = logging.getLogger(__name__)

SECONDS_TO_FLUSH = 3.0


class AccessRecorder:
    """Writes access counts in its own thread, many reads in one transaction."""

    def __init__(self, storage: Storage, told_of: Sequence[Callable[[Told], None]] = ()) -> None:
        self._storage, self._told_of = storage, told_of
        self._counts = True
        self._pending: queue.SimpleQueue[list[int] | Told | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="access-recorder", daemon=True)
        self._thread.start()

    def record(self, memory_ids: Sequence[int]) -> None:
        """Count that memories were returned whole, in the background; do nothing if storage is read-only."""
        if memory_ids and self._counts and not self._storage.read_only:
            self._pending.put(list(memory_ids))

    def told(self, session_id: str, client: str, text: str, memory_ids: Sequence[int], *, is_recap: bool) -> None:
        """Count a recap or recall, and what is read of it later, in the background."""
        if memory_ids and not self._storage.read_only:
            tokens = -(-len(text.encode()) // BYTES_PER_TOKEN)
            self._pending.put(Told(session_id, client, is_recap, tokens, utc_now(), memory_ids))

    def silent(self) -> Self:
        """Return a recorder that counts nothing; do not close it."""
        other = copy(self)
        other._counts = False  # noqa: SLF001 - our own copy
        return other

    def close(self) -> None:
        """Write the pending counts and stop. Waits at most 3 s if another process keeps the file locked."""
        self._pending.put(None)
        self._thread.join(SECONDS_TO_FLUSH)

    def _run(self) -> None:
        while (first := self._pending.get()) is not None:
            batch, more = self._rest([first])
            try:
                all_told = [one for one in batch if isinstance(one, Told)]
                with self._storage.write() as writer:
                    for told in all_told:
                        writer.record_told(told)
                    writer.record_access([at for one in batch if isinstance(one, list) for at in one], utc_now())
                for told in all_told:  # not while others wait to write
                    for note in self._told_of:
                        note(told)
            except Exception as error:  # later counts may succeed
                reason = error if isinstance(error, VectorMemoryError) else where(error)
                logger.warning("Access counts were not written (%s): %s", counted(len(batch), "read"), reason)
            if not more:
                return

    def _rest(self, batch: list[list[int] | Told]) -> tuple[list[list[int] | Told], bool]:
        """Add everything pending to the batch; False if the request to stop was among it."""
        with contextlib.suppress(queue.Empty):
            while (following := self._pending.get_nowait()) is not None:
                batch.append(following)
            return batch, False
        return batch, True


A = TypeVar("A")

MAX_SURROUNDING = 50

TITLE_SHOWN = 60


class Documents:
    """Returns stored memories."""

    def __init__(
        self,
        storage: Storage,
        budget: ResponseBudget,
        access: AccessRecorder,
        exports: ExportFolders,
        writer: "MemoryWriter",
        evidence: EvidenceNotes,
    ) -> None:
        self._storage = storage
        self._budget = budget
        self._access = access
        self._exports = exports
        self._writer = writer
        self._evidence = evidence

    def get(self, memory_id: str | int, offset: int, *, read_with: str = READ_WITH) -> documents.MemoryResult:
        """Return a memory with its content from `offset` on. `read_with`: the tool that reads the rest of a cut one."""
        memory, observations, succession = self._find(memory_id)

        def build(budget: ResponseBudget) -> documents.MemoryResult:
            text, end = budget.cut(memory.content, offset)
            entry = budget.slim(memory_entry(memory).model_copy(update={"content": "", **succession}))
            return documents.MemoryResult(
                memory=entry.model_copy(update={"content": text, "content_end": end}),
                observations=observations,
                message=reading_message(memory, read_with, offset, end),
            )

        return self._read(memory, offset, self._budget.fit(build))

    def reconstruct(self, memory_id: str | int, offset: int) -> documents.DocumentResult:
        """Return a document from `offset` on, exactly as it was stored."""
        memory, observations, succession = self._find(memory_id)
        frame = documents.DocumentResult(
            memory_id=memory.id,
            **provenance(memory),
            **succession,
            chunk_count=memory.chunk_count,
            content_length=len(memory.content),
            content="",
            observations=observations,
        )

        def build(budget: ResponseBudget) -> documents.DocumentResult:
            text, end = budget.cut(memory.content, offset)
            message = reading_message(memory, "reconstruct_document", offset, end)
            return budget.slim(frame).model_copy(update={"content": text, "content_end": end, "message": message})

        return self._read(memory, offset, self._budget.fit(build))

    def export(self, memory_id: str | int, output_path: str, *, overwrite: bool) -> documents.ExportResult:
        """Write a document to a file and return the file's path."""
        self._writer.require_kept(output_path=output_path)
        memory, _, _ = self._find(memory_id)
        data = as_markdown(memory).encode()
        path = self._exports.write(output_path, data, overwrite=overwrite)
        self._access.record([memory.id])
        return documents.ExportResult(
            file_path=str(path),
            memory_id=memory.id,
            bytes_written=len(data),
            message=f"Wrote {memory.memory_type} {memory.id}, {counted(len(data), 'byte')}.",
        )

    def expand(self, chunk_id: str | int, surrounding_chunks: int) -> documents.ExpandedChunkResult:
        """Return a chunk with its neighbours, and the part of the document that they cover."""
        number = parse_id("chunk_id", chunk_id)
        check_range("surrounding_chunks", surrounding_chunks, 0, MAX_SURROUNDING)
        with self._storage.read() as reader:
            target = reader.chunks.get(number)
            if target is None:
                if reader.memories.origins([number]):
                    raise NotFoundError(f"{number} is a memory_id, not a chunk_id: read it with get_memory_by_id.")
                raise NotFoundError(f"There is no chunk {number}: send a chunk_id returned by a search.")
            index = target.chunk.index
            around = reader.chunks.of(target.memory_id, index - surrounding_chunks, index + surrounding_chunks)
            memory = reader.memories.get(target.memory_id)
            noted = {"observations": observations_on(reader, [memory]), **succession_of(reader, memory.id)}

        def build(budget: ResponseBudget) -> documents.ExpandedChunkResult:
            answer = expanded_chunk(budget, memory, target, around, surrounding_chunks)
            return answer.model_copy(update=noted)

        return self._budget.fit(build)

    def describe(self, memory_id: str | int) -> str:
        """Describe a memory in one line, for a question to the user."""
        memory, _, _ = self._find(memory_id)
        # With line breaks, a title could look like part of the question.
        words = "".join(letter if letter.isprintable() else " " for letter in memory.title or "").split()
        title = f" '{shorten(' '.join(words), TITLE_SHOWN, placeholder='...')}'" if words else ""
        return f"{memory.memory_type} {memory.id}{title} ({counted(len(memory.content), 'character')})"

    def _read(self, memory: Memory, offset: int, answer: A) -> A:
        """Count a read. Reading a memory in parts counts once."""
        if offset == 0:
            self._access.record([memory.id])
        return answer

    def _find(self, memory_id: str | int) -> tuple[Memory, list[ObservationNote], dict[str, Any]]:
        """Return a memory, the observations on it, and its succession and evidence."""
        number = parse_id("memory_id", memory_id)
        with self._storage.read() as reader:
            memory = existing_memory(reader, number)
            observations, succession = observations_on(reader, [memory]), succession_of(reader, number)
            evidence = reader.evidence.of([number])
        return memory, observations, succession | {"evidence": self._evidence(evidence).get(number, [])}


def existing_memory(reader: Reader, number: int) -> Memory:
    """Return a memory. Raises NotFoundError; for a chunk's id, it names the tool that reads chunks."""
    chunk = None if reader.memories.origins([number]) else reader.chunks.get(number)
    if chunk is not None and reader.memories.origins([chunk.memory_id]):
        reader.memories.require_unexpired(number)
        raise NotFoundError(f"{number} is a chunk_id, not a memory_id: read it with expand_chunk_context.")
    return reader.memories.get(number)


def expanded_chunk(
    budget: ResponseBudget, memory: Memory, target: StoredChunk, around: Sequence[StoredChunk], surrounding: int
) -> documents.ExpandedChunkResult:
    """Return a chunk with the neighbours that fit. The answer contains each text twice: as a chunk, and joined."""
    window, chunks = fitting_window(budget, target, around, surrounding)
    message = f"{counted(len(chunks), 'chunk')} of {memory.memory_type} {memory.id}.{as_data(memory)}"
    if window < surrounding:
        message += f" Only {window} on each side fit into the answer: read more with get_memory_by_id."
    expanded = memory.content[chunks[0].chunk.start : max(part.chunk.end for part in chunks)]
    text, end = budget.cut(expanded, times=2)
    if end is not None:
        message += " The chunk is cut to fit: continue with get_memory_by_id and offset = content_end."
    frame = documents.ExpandedChunkResult(
        memory_id=memory.id,
        **provenance(memory),
        target_chunk_index=target.chunk.index,
        context_window=window,
        chunks_returned=len(chunks),
        expanded_content="",
        content_end=None if end is None else chunks[0].chunk.start + end,
    )
    shown = [budget.slim(chunk_entry(part, budget.cut(part.chunk.text, times=2).text), 1) for part in chunks]
    return budget.slim(frame).model_copy(update={"expanded_content": text, "chunks": shown, "message": message})


def fitting_window(
    budget: ResponseBudget, target: StoredChunk, around: Sequence[StoredChunk], window: int
) -> tuple[int, Sequence[StoredChunk]]:
    """Return the widest window, up to `window`, whose chunks fit twice, and those chunks."""
    chunks = around
    while window and not budget.fits([chunk_entry(part, part.chunk.text) for part in chunks], times=2):
        window -= 1
        chunks = [part for part in around if abs(part.chunk.index - target.chunk.index) <= window]
    return window, chunks


def chunk_entry(stored: StoredChunk, text: str) -> documents.ChunkEntry:
    """Return a chunk as results show it, with `text` as its text."""
    chunk = stored.chunk
    return documents.ChunkEntry(
        chunk_id=stored.id,
        chunk_index=chunk.index,
        content=text,
        chunk_type=chunk.kind,
        header_path=chunk.header_path,
        level=chunk.level,
    )


def as_data(memory: Memory) -> str:
    """Return a sentence on a memory that is trusted less than others; empty for others."""
    return f" {AS_DATA}" if memory.trust == Trust.LOW.level else ""


def reading_message(memory: Memory, tool: str, offset: int, end: int | None) -> str:
    """Describe which part of the content this is, how to read the next one, and what is only data."""
    length = len(memory.content)
    if end is not None:
        said = f"Characters {offset:,} to {end:,} of {length:,}. Continue with {tool} and offset={end}."
    elif offset == 0:
        said = f"{counted(length, 'character')}, complete."
    else:
        said = f"Characters {offset:,} to {length:,}, the end."
    return said + as_data(memory)


def as_markdown(memory: Memory) -> str:
    """Return a document with its metadata as YAML front matter."""
    fields = {
        "memory_id": memory.id,
        "title": memory.title,
        "memory_type": memory.memory_type,
        "chunk_count": memory.chunk_count,
        "agent_id": memory.agent_id,
        "session_id": memory.session_id,
        "session_iter": memory.session_iter,
        "task_code": memory.task_code,
        "created_at": to_second(memory.created_at),
        "tags": memory.tags,
        "metadata": memory.metadata,
    }
    return front_matter(fields) + memory.content


def front_matter(fields: Mapping[str, Any]) -> str:
    """Format fields as the YAML front matter of a Markdown text."""
    return f"---\n{yaml.safe_dump(dict(fields), sort_keys=False, allow_unicode=True)}---\n\n"
