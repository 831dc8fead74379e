"""The files that memories are about: the table `file_evidence`."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from vector_memory.domain import Evidence, Scope
from vector_memory.storage.connection import Queries, Steps, ask, read
from vector_memory.storage.queries.filters import memory_filter

COLUMNS = ", ".join(f"e.{one.name}" for one in fields(Evidence))

EvidenceOf = Mapping[int, Sequence[Evidence]]
"""The evidence of memories, by their ids."""


class EvidenceQueries(Queries):
    """Reads evidence."""

    @read
    def of(self, memory_ids: Collection[int]) -> Steps[EvidenceOf]:
        """Return the evidence of memories that have some."""
        if not memory_ids:
            return {}
        sql = f"""
            select e.memory_id, {COLUMNS} from file_evidence e
            where {{visible_id:e.memory_id}} and e.memory_id {{among:ids}} order by e.memory_id, e.place
        """
        return by_memory_id((yield from ask(numbered, sql, {"ids": list(memory_ids)})))

    def within(self, scope: Scope) -> EvidenceOf:
        """Return the evidence of the memories of a scope, by ascending ids."""
        condition = memory_filter(scope)
        sql = f"""
            select e.memory_id, {COLUMNS} from file_evidence e join session_memories m on m.id = e.memory_id
            where {{visible:m}} and {condition.sql} order by e.memory_id, e.place
        """
        return by_memory_id(self.connection.fetch(numbered, sql, condition.parameters))


class EvidenceChanges(Queries):
    """Adds evidence."""

    def add_evidence(self, memory_id: int, evidence: Sequence[Evidence]) -> None:
        """Add the evidence of a new memory."""
        rows = [{"memory_id": memory_id, "place": place, **asdict(one)} for place, one in enumerate(evidence)]
        self.connection.insert("file_evidence", rows)


def numbered(*, memory_id: int, **columns: Any) -> tuple[int, Evidence]:
    """Return a row, and whose it is."""
    return memory_id, Evidence(**columns)


def by_memory_id(rows: Sequence[tuple[int, Evidence]]) -> EvidenceOf:
    """Group rows by their memories."""
    found = defaultdict[int, list[Evidence]](list)
    for memory_id, evidence in rows:
        found[memory_id].append(evidence)
    return found
