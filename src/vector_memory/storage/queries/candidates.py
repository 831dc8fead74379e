"""What a search compares, in one snapshot: the units of a scope, their words, and the vectors of their passages."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from vector_memory.domain import Scope
from vector_memory.storage.connection import Connection, Queries, Query, Steps, ask, read, value_of
from vector_memory.storage.postings import PostingRows, Units, units_in
from vector_memory.storage.queries.filters import HIDDEN, memory_filter
from vector_memory.storage.queries.passages import FIRST_MODEL, Lacking, Model
from vector_memory.storage.scoring import Numbers, Vectors

WIDESPREAD = {
    "as_of", "kind", "agent_id", "own_agent_id", "session_iter", "created_after", "created_before", "min_trust",
}  # fmt: skip
"""Conditions that match memories in most blocks, if in any."""


class IndexedScope(NamedTuple):
    """What the keyword index has of a scope: its units, and the rows of some buckets of postings of their blocks."""

    units: Units
    postings: PostingRows


def indexed_scope(
    members: str | None, hidden: str | None, posting_sizes: str | None, postings: bytes, **blocks: Any
) -> IndexedScope:
    """Return a scope's part of a row. `members`: the ids of its memories; None: all of its kind but the `hidden`."""
    units = units_in(**blocks)
    if members is not None:
        units = units.of_memories(json.loads(members))
    elif hidden is not None:
        units = units.without(json.loads(hidden))
    return IndexedScope(units, PostingRows(posting_sizes, postings))


class ComparedPassages(NamedTuple):
    """All passages of a scope that have vectors: the ids of their units, and their rounded cosines."""

    unit_ids: Numbers
    cosines: NDArray[np.float64]


class Likely(NamedTuple):
    """The likeliest passages of a scope: the ids of their units, and their vectors. `complete`: there are no others."""

    unit_ids: Numbers
    vectors: Vectors
    complete: bool


class Weights(Protocol):
    """The bonus of units' passages for their words, as cosines. `left_out`: memories outside the scope."""

    left_out: Sequence[int]

    def of(self, unit_ids: Numbers) -> Vectors:
        """Return the bonus of passages, given the ids of their units; -inf outside the scope."""

    def best(self, count: int) -> Numbers:
        """Return the ids of up to `count` units with the highest bonus."""


class Candidates(Queries, ABC):
    """Reads what searches compare: the vectors of one model. Raises DamagedError.

    Each engine implements the abstract methods. `lacking`: the memories that lack vectors of the model.
    `is_read`: the condition that a passage `p` is of the model.
    """

    def __init__(self, connection: Connection, model: Model | None, lacking: Lacking, is_read: str = "") -> None:
        super().__init__(connection)
        self.model, self._lacking = model, lacking
        self.model_id = FIRST_MODEL if model is None else model.id
        self._is_read = is_read or f"p.model_id = {self.model_id}"

    POSTINGS: ClassVar[str]
    """Selects the rows of postings in `buckets`, of the blocks that fulfil the condition `{blocks}`, as one row."""

    @read
    def indexed(self, scope: Scope, buckets: list[int]) -> Steps[IndexedScope]:
        """Return the units of a scope, which must have a kind, and the rows of postings in these buckets.

        In one row: handing over thousands of rows takes longer than reading them. The scope is evaluated once.
        """
        condition = memory_filter(scope)
        fields = {*condition.parameters, *([] if self.connection.sessions is None else ["sessions"])}
        members = "null" if fields == {"kind"} else "(select coalesce({listed:id}, '[]') from member)"
        hidden = "null"
        if fields == {"kind"} and scope.as_of in HIDDEN:
            hidden = f"""(
                select {{listed:id}} from (
                    select memory_id as id from memory_lifecycle l where {HIDDEN[scope.as_of]}
                ) h
            )"""
        blocks = "kind = %(kind)s" if fields <= WIDESPREAD else "id in (select block_id from member)"
        sql = f"""
            with member as materialized (
                select m.id, k.block_id from session_memories m join keyword_memories k on k.memory_id = m.id
                where {{visible:m}} and {condition.sql}
            )
            select {members} as members, {hidden} as hidden, block.*, posting.* from (
                select {{listed:id}} as ids, {{listed:units}} as units,
                    {{joined:memory_ids}} as memory_ids, {{joined:sizes}} as sizes,
                    {{joined:unit_ids}} as unit_ids, {{joined:lengths}} as lengths
                from (
                    select id, units, memory_ids, sizes, unit_ids, lengths from keyword_blocks
                    where {blocks} order by id
                ) b
            ) block cross join ({self.POSTINGS.replace("{blocks}", blocks)}) posting
        """
        found: list[IndexedScope] = yield Query(indexed_scope, sql, condition.parameters | {"buckets": buckets})
        return found[0]

    @read
    def memories_in(self, scope: Scope) -> Steps[list[int]]:
        """Return the ids of the memories of a scope."""
        condition = memory_filter(scope)
        sql = f"select m.id from session_memories m where {{visible:m}} and {condition.sql}"
        return ask(value_of, sql, condition.parameters)

    @read
    def oldest_of_newest(self, scope: Scope, passages: int) -> Steps[int]:
        """Return the id of the memory with the oldest of so many newest passages; 0: there are no more."""
        condition = memory_filter(scope)
        sql = f"""
            select p.memory_id from memory_passages p join session_memories m on m.id = p.memory_id
            where {{visible:m}} and {condition.sql} and {self._is_read} order by p.id desc limit 1 offset %(count)s
        """
        if not condition.parameters and self.connection.sessions is None:
            sql = f"""
                select memory_id from memory_passages p where {self._is_read}
                    and id <= (select max(id) from memory_passages p where {self._is_read}) - %(count)s
                order by id desc limit 1
            """
        found = yield Query(value_of, sql, condition.parameters | {"count": passages})
        return int(found[0]) if found else 0

    def units_with_vectors(self, memory_ids: list[int]) -> list[int]:
        """Return the ids of those units of memories that have passages with vectors."""
        sql = f"""
            select distinct coalesce(p.chunk_id, p.memory_id) as id from memory_passages p
            where {{visible_id:p.memory_id}} and p.memory_id {{among:ids}} and {self._is_read}
        """
        return self.connection.fetch_column(sql, {"ids": memory_ids})

    def without_vectors(self, scope: Scope) -> list[int]:
        """Return the ids of the memories of a scope that lack vectors."""
        condition = memory_filter(scope)
        sql = f"""
            select m.id from session_memories m {self._lacking.hint}
            where {{visible:m}} and {condition.sql} and {self._lacking.condition}
        """
        return self.connection.fetch_column(sql, condition.parameters)

    @abstractmethod
    def vectors(self, passage_ids: list[int]) -> tuple[Numbers, Vectors]:
        """Return the ids of the passages that have vectors, ascending, and the vectors, shape (ids, dimensions)."""

    @abstractmethod
    def compared(self, scope: Scope, *queries: Vectors) -> ComparedPassages:
        """Compare queries, unit vectors, shape (dimensions,), with all passages of a scope; the nearest one counts."""

    @read
    def compared_ahead(self, scope: Scope, query: Vectors) -> Steps[ComparedPassages | None]:  # noqa: ARG002
        """Return what `compared` returns, if reading it together with everything else is faster."""
        yield from ()
        return None

    @read
    def likeliest_ahead(
        self, scope: Scope, query: Vectors, limit: int, newest: int, besides: str | None
    ) -> Steps[Likely | None]:
        """Return what `likeliest` returns, if reading it before the units are known is faster.

        `besides`: a session that is not in a scope that names none.
        """
        del scope, query, limit, newest, besides
        yield from ()
        return None

    @read
    @abstractmethod
    def likeliest(
        self, scope: Scope, query: Vectors, worth: Weights, limit: int, newest: int | None = None
    ) -> Steps[Likely]:
        """Return about `limit` passages of a scope that are likeliest to have the highest sums of cosine and worth.

        One in four is chosen by its cosine alone. `newest`: only about so many of the newest passages are considered.
        """
