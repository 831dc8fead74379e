"""Stores a memory: hash, chunk, embed, then one write transaction over all tables."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from vector_memory import errors
from vector_memory.answers.mapping import HASH_SHOWN
from vector_memory.answers.models import StoreMemoryResult, VectorsState
from vector_memory.domain import Chunk, Fingerprint, MemoryKind, NewMemory, Scope, Trust, utc_now
from vector_memory.domain.fields import NAMED, WRITTEN
from vector_memory.domain.text import counted
from vector_memory.domain.times import AT_ONCE_SECONDS, after_days
from vector_memory.domain.validation import as_title
from vector_memory.settings import Redact, Settings, pending_rules, trust_rules
from vector_memory.storage.base import Reader, Storage, Writer
from vector_memory.storage.queries.deletions import covers
from vector_memory.storage.records import Embedded, History, Links, Memory
from vector_memory.texts.redaction import redact, redact_within, require_no_secret, secrets_in
from vector_memory.texts.structure import title_of
from vector_memory.writing.background import BackgroundVectors
from vector_memory.writing.indexer import EmbeddingProgress, Indexer, is_chunked
from vector_memory.writing.pending import screened, settled

JsonValue = TypeVar("JsonValue")

InTransaction = Callable[[Writer, NewMemory, str], NewMemory]
"""Called inside the transaction that adds a memory, with the memory and the time; returns the memory to add.

An error rolls the transaction back.
"""


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A memory that was stored. `problem`: why it cannot be found by meaning yet; None if it can.

    `token_count`: tokens of the whole content; None for kinds that are not chunked. `passage_count`: passages with
    vectors. `is_pending`: the vectors follow in the background. `redacted`: places that were replaced in the text.
    """

    memory: NewMemory
    id: int
    content_hash: str
    token_count: int | None
    chunk_count: int
    passage_count: int
    created_at: str
    is_pending: bool
    problem: str | None
    redacted: int


@dataclass(slots=True)
class MemoryLimit:
    """Maximum number of memories; None: no limit."""

    most: int | None = None

    def require(self, reader: Reader) -> None:
        """Raise QuotaExceededError if a reader's snapshot has this many."""
        if self.most is not None:
            require_room(reader.memories.count_all(), self.most)


class MemoryWriter:
    """Stores memories."""

    def __init__(
        self, storage: Storage, indexer: Indexer, background: BackgroundVectors, settings: Settings, room: MemoryLimit
    ) -> None:
        self.room = room
        self._rules = pending_rules(settings.pending), trust_rules(settings.trust)
        self._storage = storage
        self._indexer = indexer
        self._background = background
        self._redacted = settings.redact

    def store(
        self, memory: NewMemory, on_progress: EmbeddingProgress | None = None, *, captured: bool = False
    ) -> StoreMemoryResult:
        """Store a memory and return the receipt. Raises the errors of `write`."""
        stored = self.write(memory, on_progress=on_progress, captured=captured)
        return receipt(stored, [] if captured else self.warnings(stored.memory))

    def warnings(self, memory: NewMemory) -> list[str]:
        """Say whether a stored text has what looks like a secret, and what to do."""
        if self.redacts() or not (kinds := secrets_in(memory.content)):
            return []
        said = (
            f"The text has what looks like a secret ({', '.join(kinds)}) and was stored as it is: delete the memory if "
        )
        return [f"{said}it is one. VECTOR_MEMORY_REDACT=all removes secrets before texts are stored."]

    def hash_of_stored(self, content: str) -> str:
        """Return the hash that the memory of a text has, or would have."""
        return hash_of(self.kept(content))

    def kept(self, value: JsonValue) -> JsonValue:
        """Remove secrets and private parts from an agent's text or other JSON value."""
        return redact_within(value)[0] if self.redacts() else value

    def scope(self, scope: Scope) -> Scope:
        """Return a scope whose tags and category are as they are stored. Raises ValidationError."""
        asked = Scope.checked(scope)
        if not self.redacts() or not (asked.tags or asked.category):
            return asked
        return replace(asked, tags=tuple(self.kept(list(asked.tags))), category=self.kept(asked.category))

    def require_kept(self, **names: str | None) -> None:
        """Raise ValidationError for a name that would have to be stored without a secret."""
        if self.redacts():
            require_no_secret(**names)

    def graded(self, memory: NewMemory, trust: int | None, most: Trust) -> NewMemory:
        """Return an imported memory with its mark, trusted as its export says, or by the rules, at `most` so far."""
        marked = screened(memory, (), self._rules[1])
        return replace(marked, trust=min(marked.trust if trust is None else trust, most.level))

    def amended(self, memory: Memory) -> tuple[Memory, str | None]:
        """Return a memory with the mark and the trust of its title and description, and what it awaits for them."""
        new = NewMemory(
            kind=MemoryKind(memory.memory_type),
            agent_id=memory.agent_id,
            session_id=memory.session_id,
            content=memory.content,
            metadata=memory.metadata,
            title=memory.title,
            description=memory.description,
            came_from=memory.came_from,
        )
        marked = screened(new, *self._rules)
        if marked.came_from == memory.came_from:
            return memory, None
        return replace(memory, came_from=marked.came_from, trust=min(memory.trust, marked.trust)), marked.awaits

    def redacts(self, *, captured: bool = False) -> bool:
        """Whether secrets are removed from what is stored. `captured`: by a hook or an import, not by an agent."""
        return self._redacted is Redact.ALL or (captured and self._redacted is Redact.CAPTURED)

    def recall(self, memory_ids: Sequence[int]) -> None:
        """Remember these memories' vectors, so that texts in common with the next ones are not embedded again."""
        with self._storage.read() as reader:
            stored = reader.vectors.fingerprint()
            for memory in reader.memories.get_all(memory_ids).values():
                if stored is not None:
                    self._indexer.remember(memory, reader.vectors.passages_of(memory), stored)

    def write(
        self,
        memory: NewMemory,
        finish: InTransaction | None = None,
        on_progress: EmbeddingProgress | None = None,
        *,
        replacing: Collection[int] = (),
        captured: bool = False,
        from_source: bool = False,
    ) -> StoredMemory:
        """Store a memory with its chunks, words and vectors, and delete the memories that it replaces.

        Both happen in one transaction, and it supersedes what these superseded. `captured`: by a hook or an import,
        not by an agent. `from_source`: from a file, which may be read again. Without a usable model the text is stored
        anyway, and its vectors are computed once there is a model. Raises DuplicateMemoryError, DeletedEarlierError,
        NotFoundError (a report, or what it supersedes), QuotaExceededError, ChunkingError, DatabaseError.
        """
        self._storage.require_time_to_write()
        forms = forms_of(memory.content) if captured or from_source else ()
        memory, redacted = self._without_secrets(memory, captured=captured)
        content_hash, at = hash_of(memory.content), memory.created_at if captured else None
        is_pending = self._background.defers
        with self._sure_of_duplicates(), self._storage.read() as reader:
            if captured or from_source or not is_pending:  # often stored, or expensive: checked in advance too
                require_storable(reader, memory, content_hash, replacing, at=at, forms=forms)
            stored = reader.vectors.fingerprint()
        wait = not (captured and is_pending)  # hooks and imports do not wait for a model
        memory = with_title(memory)
        token_count = self._indexer.token_counter(wait=wait)(memory.content) if is_chunked(memory.kind) else None
        derived = self._indexer.derived(memory.kind, memory.title, memory.content, wait=wait)
        embedded, problem = self._embed(memory, derived.chunks, on_progress, stored, defer=is_pending, wait=wait)
        created_at = memory.created_at or utc_now()
        history = History(created_at, created_at, created_at, is_dated=created_at < utc_now(AT_ONCE_SECONDS))
        derived = replace(derived, links=Links() if embedded is None else self._links_of(memory, embedded))
        with self._sure_of_duplicates(), self._storage.write() as writer:
            require_storable(writer, memory := in_place_of(writer, memory, replacing), content_hash, at=at, forms=forms)
            memory = settled(writer, memory, content_hash)
            self.room.require(writer)
            embedded, late_problem = usable(writer, embedded)
            memory = memory if finish is None else finish(writer, memory, history.created_at)
            if memory.ttl_days is not None:
                memory = replace(memory, ttl_days=None, expires_at=after_days(writer.now(), memory.ttl_days))
            derived = replace(derived, embedded=embedded)
            memory_id = writer.add_memory(memory, derived, content_hash=content_hash, history=history)
            if is_pending:
                self._background.defer(writer, memory_id, promised=problem is None)
        if is_pending := is_pending and problem is None:
            self._background.begin()
        return StoredMemory(
            memory=memory,
            id=memory_id,
            content_hash=content_hash,
            token_count=token_count,
            chunk_count=len(derived.chunks),
            passage_count=0 if embedded is None else len(embedded.passages),
            created_at=history.created_at,
            is_pending=is_pending,
            problem=problem or late_problem,
            redacted=redacted,
        )

    def _without_secrets(self, memory: NewMemory, *, captured: bool) -> tuple[NewMemory, int]:
        """Return a memory as it may be stored, and the number of places that were replaced in it.

        Raises ValidationError for a name with a secret. In a captured memory it is replaced, because nobody could send
        another name.
        """
        memory = screened(memory, *self._rules)
        if not self.redacts(captured=captured):
            return memory, 0
        names = {name: getattr(memory, name) for name in NAMED}
        if not captured:
            require_no_secret(**names)
        texts = {name: getattr(memory, name) for name in WRITTEN}
        kept, count = redact_within({**names, **texts, "tags": list(memory.tags)})
        return replace(memory, **{**kept, "tags": tuple(dict.fromkeys(kept["tags"]))}), count

    @contextmanager
    def _sure_of_duplicates(self) -> Iterator[None]:
        """Raise DuplicateMemoryError when a failover cannot lose the stored memory: it acknowledges the store."""
        try:
            yield
        except errors.DuplicateMemoryError:
            self._storage.confirm()
            raise

    def _links_of(self, memory: NewMemory, embedded: Embedded) -> Links:
        with self._storage.read() as reader:
            return self._indexer.links_of(reader, memory.kind, memory.content, embedded)

    def _embed(
        self,
        memory: NewMemory,
        chunks: Sequence[Chunk],
        on_progress: EmbeddingProgress | None,
        stored: Fingerprint | None,
        *,
        defer: bool,
        wait: bool,
    ) -> tuple[Embedded | None, str | None]:
        """Return the vectors unless they are deferred, or None and why there will be none.

        `stored`: the fingerprint of the stored vectors. Without `wait`, a model that is not loaded is assumed to be
        usable.
        """
        if not (wait or self._indexer.is_ready):
            return None, None
        try:
            if stored != self._indexer.fingerprint:
                with self._storage.read() as reader:
                    reader.vectors.require_current(self._indexer.fingerprint)
            if defer:
                return None, None
            units = self._indexer.unit_texts(memory.kind, memory.title, memory.content, chunks)
            return self._indexer.embed(units, on_progress), None
        except errors.EmbeddingUnavailableError as error:
            return None, str(error)


def in_place_of(writer: Writer, memory: NewMemory, replaced: Collection[int]) -> NewMemory:
    """Delete what a memory replaces, and return it as superseding what these superseded."""
    inherited = [older for number in replaced for older in writer.bypass(number)]
    for number in replaced:
        writer.delete(number, for_good=False)
    older = dict.fromkeys([*memory.supersedes, *inherited])
    return replace(memory, supersedes=tuple(number for number in older if number not in replaced))


def require_room(memories: int, most: int) -> None:
    """Raise QuotaExceededError if the memory is full."""
    if memories >= most:
        raise errors.QuotaExceededError(
            f"This namespace may hold {most:,} memories and is full: delete some, or ask for a higher limit."
        )


def forms_of(content: str) -> set[str]:
    """Return the hashes of a text as it is and without secrets: the memory that was deleted may have had either."""
    return {hash_of(content), hash_of(redact(content).text)}


def is_deleted(reader: Reader, memory: NewMemory, forms: Collection[str]) -> bool:
    """Return whether a source's text, with these hashes, belongs to a deleted memory."""
    return any(covers(trace, memory) for trace in reader.deletions.of(memory, forms))


def require_storable(
    reader: Reader,
    memory: NewMemory,
    content_hash: str,
    replacing: Collection[int] = (),
    *,
    at: str | None = None,
    forms: Collection[str] = (),
) -> None:
    """Raise an error if the memory is stored and not replaced, or if its report or what it supersedes does not exist.

    `at`: a memory of the same time is the same, whatever happened to it; a prompt of another time is another one.
    `forms`: hashes of a source's text, which must not have been deleted.
    """
    existing = reader.find_duplicate(memory, content_hash, at)
    if existing is None and at is not None and memory.kind is not MemoryKind.INPUT_PROMPT:
        existing = reader.find_duplicate(memory, content_hash)
    if existing is not None and existing not in {*replacing, *memory.supersedes}:
        raise errors.DuplicateMemoryError(existing, in_session=memory.kind is not MemoryKind.TAGGED)
    if forms and is_deleted(reader, memory, forms):
        raise errors.DeletedEarlierError
    report_id = memory.parent_report_id
    if report_id is not None and not is_of_kind(reader, report_id, MemoryKind.REPORT):
        raise errors.NotFoundError(
            f"There is no report {report_id}: send the memory_id of a stored report, or omit it."
        )
    require_existing(reader, memory.supersedes)


def require_existing(reader: Reader, memory_ids: Collection[int]) -> None:
    """Raise NotFoundError if one of the memories that are to be superseded does not exist."""
    missing = set(memory_ids).difference(reader.memories.origins(list(memory_ids))) if memory_ids else ()
    if missing:
        raise errors.NotFoundError(
            f"There is no memory {min(missing)} to supersede: send ids of stored memories, or omit it."
        )


def hash_of(content: str) -> str:
    """Return the hash by which equal texts are recognized."""
    return hashlib.sha256(content.encode()).hexdigest()


def is_of_kind(reader: Reader, memory_id: int, kind: MemoryKind) -> bool:
    """Return whether the memory exists and is of this kind."""
    return any(origin.memory_type == kind for origin in reader.memories.origins([memory_id]).values())


def usable(reader: Reader, embedded: Embedded | None) -> tuple[Embedded | None, str | None]:
    """Return the vectors, or None and the reason if another process has just stored another model's."""
    try:
        if embedded is not None:
            reader.vectors.require_current(embedded.fingerprint)
    except errors.EmbeddingUnavailableError as error:
        return None, str(error)
    return embedded, None


def with_title(memory: NewMemory) -> NewMemory:
    """Give an untitled document the title in its text."""
    if memory.title is not None or not is_chunked(memory.kind):
        return memory
    return replace(memory, title=as_title(title_of(memory.content)))


def receipt(stored: StoredMemory, warnings: Sequence[str]) -> StoreMemoryResult:
    """Describe what was stored, and how it can be found."""
    memory, (vectors, how) = stored.memory, index_state(stored)
    said = f"Stored {memory.kind} {stored.id}: {length_message(stored)}{how}"
    notes = [supersedes_message(memory)] if memory.supersedes else []
    notes += [f"It corrects report {memory.parent_report_id}."] if memory.metadata.get("corrects") is True else []
    notes += ["It is held back until a person has accepted it."] if memory.awaits else []
    return StoreMemoryResult(
        message=" ".join([said, *notes, *warnings]),
        memory_id=stored.id,
        memory_type=memory.kind,
        agent_id=memory.agent_id,
        session_id=memory.session_id,
        content_hash=stored.content_hash[:HASH_SHOWN],
        chunks_created=stored.chunk_count,
        passages_created=stored.passage_count,
        vectors=vectors,
        token_count=stored.token_count,
        redacted=stored.redacted,
        created_at=stored.created_at,
        expires_at=memory.expires_at,
    )


def supersedes_message(memory: NewMemory) -> str:
    """Say which memories are no longer current."""
    return f"It supersedes {', '.join(map(str, memory.supersedes))}."


def length_message(stored: StoredMemory) -> str:
    """Say how long the content is."""
    tokens = "" if stored.token_count is None else f", {counted(stored.token_count, 'token')}"
    return counted(len(stored.memory.content), "character") + tokens


def index_state(stored: StoredMemory) -> tuple[VectorsState, str]:
    """Return whether the content can be found by meaning, with a message. Words can be found in any case."""
    chunks = f"{counted(stored.chunk_count, 'chunk')}, " if stored.chunk_count else ""
    if stored.is_pending:
        return "pending", f", {chunks}searchable by words now, and by meaning in a moment."
    if stored.problem is None:
        return "ready", f", all of it indexed: {chunks}{counted(stored.passage_count, 'passage')}."
    return "unavailable", f", {chunks}searchable by words, but not yet by meaning. {stored.problem}"
