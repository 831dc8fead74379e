"""Passages of memories with their vectors, and the states of their tokens."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from vector_memory.domain import TRAITS, Fingerprint, MemoryKind
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.storage.connection import Queries, Query, Steps, read
from vector_memory.storage.damaged import DamagedError
from vector_memory.storage.records import Memory, StoredPassage

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    import numpy as np
    from numpy.typing import NDArray

    from vector_memory.storage.queries.candidates import Candidates
    from vector_memory.storage.scoring import Vectors

PASSAGES = """
select p.id, p.memory_id, c.chunk_index as chunk, p.start_char as start, p.end_char as end, {states} as states
from memory_passages p {with_states} left join memory_chunks c on c.id = p.chunk_id
where p.memory_id {among:ids}
"""


class Model(NamedTuple):
    """A model with vectors in the memory.

    `is_current`: new vectors come from it; others' are removed after `reembed`.
    """

    id: int
    fingerprint: Fingerprint
    is_current: bool


class Lacking(NamedTuple):
    """The memories `m` that lack vectors of a model. `hint`: which index a query for them uses, after their table."""

    hint: str
    condition: str


def model_from_row(*, id: int, is_current: bool, **fingerprint: Any) -> Model:  # noqa: A002 - the name of a column
    """Return a model for a row."""
    return Model(id, Fingerprint(**fingerprint), bool(is_current))


FIRST_MODEL = 1
"""The id of the first model of a memory."""

MODELS = "select * from embedding_models order by id {exempt:how all vectors are made}"


class Passage(NamedTuple):
    """A part of a memory's content that has its own vector. `chunk_id`: None if the memory is not chunked."""

    chunk_id: int | None
    start: int
    end: int


class PassageRow(NamedTuple):
    """A stored passage: its id, its memory, the number of its chunk there, its place in the text, and its states."""

    id: int
    memory_id: int
    chunk: int | None
    start: int
    end: int
    states: bytes | None


class TextOf(NamedTuple):
    """A text of a memory."""

    id: int
    value: str


TokenStates = Sequence[bytes | None] | None
"""The states of the tokens of some passages; None: those are not kept, of one or of all of them."""


class States(NamedTuple):
    """The states of the tokens of a passage of a unit; None: they are not kept."""

    unit_id: int
    states: bytes | None


LACKING = Lacking("{indexed_by:idx_embedding_model}", "m.embedding_model_id is null")
"""The memories that lack vectors, while all vectors are from one model."""


class PassageQueries(Queries, ABC):
    """Reads the passages of the current model, or of another one chosen by `require_comparable`.

    Each engine implements the abstract methods.
    """

    _chosen: Fingerprint | None = None

    @property
    @abstractmethod
    def room(self) -> int:
        """The length of vectors for which the memory was created."""

    @abstractmethod
    def models(self) -> list[Model]:
        """Return the models that have vectors: one, unless the model is being changed; none before the first vector."""

    @abstractmethod
    def forget_models(self) -> None:
        """Read the models again, because this transaction has changed them."""

    @property
    @abstractmethod
    def candidates(self) -> "Candidates":
        """What searches compare."""

    def begin_ahead(self, fingerprint: Fingerprint | None) -> bool:
        """Begin to read before the memory's state is known: vectors of this fingerprint; None: no vectors.

        Returns False if there are no vectors of the fingerprint.
        """
        try:
            if fingerprint is not None:
                self.require_comparable(fingerprint)
        except EmbeddingUnavailableError:
            return False
        return True

    def end_ahead(self) -> bool:
        """Return whether the reads since `begin_ahead` are valid."""
        return True

    @property
    def current(self) -> Model | None:
        """The model whose vectors are stored."""
        return next((model for model in self.models() if model.is_current), None)

    @property
    def model(self) -> Model | None:
        """The model whose vectors are read."""
        return next((model for model in self.models() if model.fingerprint == self._chosen), self.current)

    @property
    def dimensions(self) -> int:
        """The length of the vectors that are read."""
        return self.room if self.model is None else self.model.fingerprint.dimensions

    @property
    def lacking(self) -> Lacking:
        """The memories that lack vectors of the model that is read."""
        model, is_changed = self.model, len(self.models()) > 1
        if model is None or not is_changed:
            return LACKING
        if model.is_current:  # from an index: in the rows, this column is behind the text
            sql = f"select id from session_memories where embedding_model_id is distinct from {model.id}"
            return Lacking("", f"m.id in ({sql})")
        sql = f"select 1 from memory_passages where memory_id = m.id and model_id = {model.id}"
        return Lacking("", f"not exists ({sql})")

    @property
    def passages_read(self) -> str:
        """The condition that a passage `p` is of the model that is read."""
        model = self.model
        return f"p.model_id = {FIRST_MODEL if model is None else model.id}"

    def fingerprint(self) -> Fingerprint | None:
        """Return the fingerprint of the current model, or None if there are no vectors."""
        return None if self.current is None else self.current.fingerprint

    def require_comparable(self, fingerprint: Fingerprint) -> None:
        """Read the vectors of this fingerprint from now on. Raises EmbeddingUnavailableError if there are none.

        If there are no vectors at all, these would be the first ones.
        """
        self._chosen = fingerprint
        model = self.model
        if model is None or model.fingerprint != fingerprint:
            self.require_current(fingerprint)

    def require_current(self, fingerprint: Fingerprint) -> None:
        """Raise EmbeddingUnavailableError unless vectors with this fingerprint may be stored."""
        current = self.current
        fingerprint.require_comparable(self.fingerprint(), self.room if current is None else fingerprint.dimensions)

    def passages(self, memory_ids: Sequence[int]) -> dict[int, list[StoredPassage]]:
        """Return the passages with their vectors, in order, of those memories that have all their vectors."""
        sql = f"select m.id from session_memories m where m.id {{among:ids}} and not ({self.lacking.condition})"
        complete = self.connection.fetch_column(sql, {"ids": list(memory_ids)})
        found: dict[int, list[StoredPassage]] = {memory_id: [] for memory_id in complete}
        sql = f"{PASSAGES} and {self.passages_read} order by p.id"
        rows = self.connection.fetch(PassageRow, sql, {"ids": complete}) if complete else []
        if not rows:
            return found
        ids, vectors = self.candidates.vectors([row.id for row in rows])
        if len(ids) < len(rows):
            raise DamagedError("A passage has no vector: run `vector-memory doctor --fix`.")
        for row, vector in zip(rows, vectors, strict=True):
            found[row.memory_id].append(StoredPassage(row.chunk, row.start, row.end, vector, row.states))
        return found

    def passages_of(self, memory: Memory) -> list[StoredPassage]:
        """Return the passages of a memory with their vectors, in order; none if it does not have all its vectors."""
        return self.passages([memory.id]).get(memory.id, [])

    def passage_texts(self, memory_ids: Sequence[int]) -> dict[int, dict[int, str]]:
        """Return the texts of the passages of memories by id, in order; not the states of tokens, which are longer."""
        sql = f"""
            select p.memory_id as id, {{json_lists:p.id, p.start_char, p.end_char}} as value from memory_passages p
            where {{visible_id:p.memory_id}} and p.memory_id {{among:ids}} and {self.passages_read} group by p.memory_id
        """
        contents = "select m.id, m.content as value from session_memories m where {visible:m} and m.id {among:ids}"
        known = {"ids": list(memory_ids)}
        places, texts = map(dict, self.connection.batch(Query(TextOf, sql, known), Query(TextOf, contents, known)))
        return {
            memory_id: {number: texts[memory_id][start:end] for number, start, end in sorted(json.loads(own))}
            for memory_id, own in places.items()
            if memory_id in texts
        }

    def mean_vectors(self, memory_ids: Sequence[int]) -> "tuple[NDArray[np.int64], NDArray[np.float32]]":
        """Return the ids of the memories that have all vectors, ascending, and their means, shape (ids, dimensions)."""
        import numpy as np  # noqa: PLC0415

        # Without the states of tokens, which are much longer than the vectors.
        sql = f"""
            select p.id, p.memory_id from memory_passages p join session_memories m on m.id = p.memory_id
            where m.id {{among:ids}} and {self.passages_read} and not ({self.lacking.condition})
        """
        rows: list[dict[str, int]] = self.connection.fetch(dict, sql, {"ids": list(memory_ids)})
        owners = {row["id"]: row["memory_id"] for row in rows}
        ids, vectors = self.candidates.vectors(list(owners))
        owned = np.array([owners[number] for number in ids.tolist()], np.int64)
        order = owned.argsort(kind="stable")
        found, starts, counts = np.unique(owned[order], return_index=True, return_counts=True)
        if not found.size:
            return found, np.zeros((0, self.dimensions), np.float32)
        sums: NDArray[np.float32] = np.add.reduceat(vectors[order], starts, axis=0)
        return found, sums / counts.astype(np.float32)[:, np.newaxis]

    @read
    def token_states(self, kind: MemoryKind, unit_ids: Sequence[int]) -> Steps[dict[int, list[bytes | None]]]:
        """Return the token states of each passage of units of a kind, by unit; None: not kept, or damaged."""
        unit = "chunk_id" if TRAITS[kind].chunked else "memory_id"
        sql = f"""
            select p.{unit} as unit_id, {{readable_states}} as states from memory_passages p {{with_states}}
            where {{visible_id:p.memory_id}} and p.{unit} {{among:ids}} and {self.passages_read}
            order by p.id
        """
        found: dict[int, list[bytes | None]] = {}
        rows = yield Query(States, sql, {"ids": list(unit_ids)})
        for row in rows:
            found.setdefault(row.unit_id, []).append(row.states)
        return found


class OverVectors(Queries):
    """Queries that depend on the model whose vectors are read."""

    def __init__(self, vectors: PassageQueries) -> None:
        super().__init__(vectors.connection)
        self.vectors = vectors


class PassageChanges(Queries, ABC):
    """Adds and deletes passages. Each engine implements the abstract methods."""

    vectors: PassageQueries

    @abstractmethod
    def make_room(self, model: Model) -> None:
        """Prepare the tables for the vectors of a model."""

    @abstractmethod
    def remove_room(self, model: Model) -> None:
        """Undo `make_room`. There must be no vectors of the model."""

    def adopt_fingerprint(self, fingerprint: Fingerprint) -> int:
        """Return the id of the current model, which has this fingerprint; it may be the first one.

        Raises EmbeddingUnavailableError if the current model is another one.
        """
        self.vectors.require_current(fingerprint)
        return self.add_model(fingerprint) if self.vectors.current is None else self.vectors.current.id

    def add_model(self, fingerprint: Fingerprint) -> int:
        """Add a model, which becomes the current one, and return its id."""
        model = Model(max((other.id for other in self.vectors.models()), default=0) + 1, fingerprint, is_current=True)
        self.make_room(model)
        self.connection.later("update embedding_models set is_current = %(no)s where is_current", {"no": False})
        sql = """
            insert into embedding_models (id, model, dimensions, precision, engine, is_current)
            values (%(id)s, %(model)s, %(dimensions)s, %(precision)s, %(engine)s, %(is_current)s)
        """
        self.connection.later(sql, {"id": model.id, "is_current": True, **asdict(fingerprint)})
        self.vectors.forget_models()
        return model.id

    @abstractmethod
    def add_passages(
        self, memory: Memory, passages: Sequence[Passage], vectors: "Vectors", states: TokenStates, model_id: int
    ) -> None:
        """Add a stored memory's passages, their vectors, and the states of their tokens if they are kept."""

    def discard_vectors(self, memory_id: int | None) -> None:
        """Delete the current vectors of a memory that does not have all of them; None: of all such memories."""
        if self.vectors.current is None:
            return
        sql = f"""
            delete from memory_passages where model_id = {self.vectors.current.id} and memory_id in (
                select m.id from session_memories m
                where ({self.vectors.lacking.condition}) and (m.id = %(memory)s or %(memory)s is null)
            )
        """
        self.connection.later(sql, {"memory": memory_id})
