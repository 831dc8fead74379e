"""Whole memories: the rows of `session_memories`."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vector_memory.domain import STORED, CameFrom, Chunk, MemoryKind, Scope, Trust, utc_now
from vector_memory.domain.fields import MEMORY_COLUMNS
from vector_memory.domain.validation import LARGEST
from vector_memory.errors import DatabaseError, expired_memory, no_memory
from vector_memory.storage.connection import Counted, Queries, Query, Steps, read, value_of
from vector_memory.storage.damaged import object_in, texts_in, texts_in_each
from vector_memory.storage.queries.filters import (
    CURRENT,
    DELETED,
    EXPIRED,
    HIDDEN,
    PINNED,
    SUPERSEDED,
    UNDELETED,
    UNEXPIRED,
    UNPINNED,
    memory_filter,
)
from vector_memory.storage.queries.lifecycle import MOST_COUNTED, PENDING, Supersession
from vector_memory.storage.queries.passages import OverVectors, PassageChanges
from vector_memory.storage.records import (
    CanonicalTag,
    ChunkOutline,
    CountedBy,
    Cursor,
    Derivation,
    Expendable,
    Imprint,
    ListPosition,
    Memory,
    Neighbour,
    Neighbours,
    Observation,
    Order,
    Origin,
    StoredChunk,
    TagVectors,
    Told,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


ORIGIN = ", ".join(f"m.{one.name}" for one in fields(Origin))

SELECTED = {one.name: f"m.{one.name}" for one in MEMORY_COLUMNS} | {"tags": "{tags:m} as tags"}

COLUMNS = f"""
m.id, {", ".join(SELECTED.values())},
(select l.expires_at from memory_lifecycle l where l.memory_id = m.id) as expires_at,
{PINNED} as pinned
"""

LISTED = "(m.session_iter, m.turn, m.created_at, m.id)"
AFTER = "(%(listed_session_iter)s, %(listed_turn)s, %(listed_created_at)s, %(listed_id)s)"

COUNTED = {
    "kind": "select m.memory_type as name from session_memories m where {visible:m} and {condition}",
    "category": "select coalesce({category:m}, '') as name from session_memories m where {visible:m} and {condition}",
    "tag": "select tag.value as name from session_memories m, {each_tag:m} where {visible:m} and {condition}",
}


KNOWN_WAYS = lru_cache(maxsize=1_024)(object_in)
"""Reads how a memory came: most of them in one of a few ways. Nobody changes what it returns."""


def origin_from_row(*, came_from: str, **columns: Any) -> Origin:
    """Return an Origin for a row of ORIGIN."""
    return Origin(came_from=cast("CameFrom", KNOWN_WAYS(came_from)), **columns)


def memory_from_row(
    *, tags: str, metadata: str, came_from: str, auto_chunk: int, pinned: int, **columns: Any
) -> Memory:
    """Return a Memory for a row of COLUMNS."""
    read = {"chunked": bool(auto_chunk), "pinned": bool(pinned), "came_from": KNOWN_WAYS(came_from), **columns}
    return Memory(tags=texts_in(tags), metadata=object_in(metadata), **read)


class Hidden(NamedTuple):
    """How many memories of a scope an answer leaves out."""

    superseded: int = 0
    pending: int = 0


def derivation_from_row(*, id: int, came_from: str, metadata: str) -> Derivation:  # noqa: A002 - a column
    """Return a Derivation for a row."""
    about = object_in(metadata).get("parent_report_id")
    return Derivation(id, object_in(came_from), about if isinstance(about, int) else None)


def imprint_from_row(*, id: int, content_hash: str, metadata: str) -> Imprint:  # noqa: A002 - a column
    """Return an Imprint for a row."""
    return Imprint(id, content_hash, object_in(metadata))


def observation_from_row(*, metadata: str, **columns: Any) -> Observation:
    """Return an Observation for a row. Callers may store anything under the name `corrects`."""
    return Observation(corrects=object_in(metadata).get("corrects") is True, **columns)


def on_side(side: str, order: str) -> str:
    """Return the query for the neighbours on one side of a memory.

    The index of sessions has the memories of a session, kind and iteration in the order of storing.
    """
    return f"""
        (select {{json_lists:id, beginning}} from (
            select n.id, substr(n.content, 1, %(characters)s) as beginning from session_memories n
            where n.session_id = m.session_id and n.memory_type = m.memory_type and n.session_iter = m.session_iter
                and {{project:n}} is not null and (not %(same_agent)s or n.agent_id = m.agent_id)
                and {CURRENT.replace("m.id", "n.id")}
                and (n.turn, n.created_at, n.id) {side} (m.turn, m.created_at, m.id)
            order by n.turn {order}, n.created_at {order}, n.id {order} limit %(count)s
        ) beside)
    """


NEIGHBOURS = f"""
select m.id, {on_side("<", "desc")} as before, {on_side(">", "asc")} as after from session_memories m
where {{visible:m}} and m.id {{among:ids}} and m.chunk_count <= 1 and {{project:m}} is not null
"""


def neighbours_from_row(*, id: int, before: str, after: str) -> tuple[int, Neighbours]:  # noqa: A002 - a column
    """Return a memory's neighbours."""
    return id, Neighbours([*starmap(Neighbour, json.loads(before))][::-1], [*starmap(Neighbour, json.loads(after))])


class MemoryQueries(OverVectors):
    """Reads memories."""

    def get(self, memory_id: int) -> Memory:
        """Return a memory. Raises NotFoundError, which says so if it has expired."""
        sql = f"select {COLUMNS} from session_memories m where {{visible:m}} and m.id = %(id)s and {UNEXPIRED}"
        memory = self.connection.fetch_one(memory_from_row, sql, {"id": memory_id})
        if memory is None:
            self.require_unexpired(memory_id)
            raise no_memory(memory_id)
        return memory

    def derivations(self) -> list[Derivation]:
        """Return how each memory came, and the report that it is about, in the order of ids; expired ones too."""
        sql = """
            select m.id, m.came_from, m.metadata from session_memories m
            where {visible:m} and (m.came_from <> %(nothing)s or m.memory_type = %(observation)s) order by m.id
        """
        parameters = {"nothing": "{}", "observation": str(MemoryKind.REPORT_OBSERVATION)}
        return self.connection.fetch(derivation_from_row, sql, parameters)

    def least_trust(self, memory_ids: Sequence[int]) -> int:
        """Return the lowest level of trust of memories, held ones too; of none of them, the highest."""
        sql = "select coalesce(min(m.trust), 1) from session_memories m where {visible:m} and m.id {among:ids}"
        return int(self.connection.fetch_value(sql, {"ids": list(memory_ids)})) if memory_ids else Trust.HIGH.level

    def require_unexpired(self, memory_id: int) -> None:
        """Raise NotFoundError if a memory has expired or is held back, not if it was deleted."""
        sql = f"""
            select case when l.held is null then l.expires_at else '' end
            from memory_lifecycle l join session_memories m on m.id = l.memory_id
            where {{visible:m}} and l.memory_id = %(id)s and {EXPIRED} and l.held is distinct from '{DELETED}'
        """
        if (at := self.connection.fetch_value(sql, {"id": memory_id})) is not None:
            raise expired_memory(memory_id, at)

    @read
    def get_all(self, memory_ids: Sequence[int], most_characters: int | None = None) -> Steps[dict[int, Memory]]:
        """Return the memories that exist, by id, in this order, optionally without those with more characters."""
        sql = f"select {COLUMNS} from session_memories m where {{visible:m}} and m.id {{among:ids}} and {UNEXPIRED}"
        if most_characters is not None:
            sql += " and {characters:m} <= %(most)s"
        rows = yield Query(memory_from_row, sql, {"ids": list(memory_ids), "most": most_characters})
        found = {memory.id: memory for memory in rows}
        return {number: found[number] for number in memory_ids if number in found}

    @read
    def origins(self, memory_ids: Sequence[int]) -> Steps[dict[int, Origin]]:
        """Return the origins of the memories that exist, by id, in this order, without reading texts."""
        sql = f"select {ORIGIN} from session_memories m where {{visible:m}} and m.id {{among:ids}} and {UNEXPIRED}"
        rows = yield Query(origin_from_row, sql, {"ids": list(memory_ids)})
        found = {origin.id: origin for origin in rows}
        return {number: found[number] for number in memory_ids if number in found}

    def imprints(self, scope: Scope) -> list[Imprint]:
        """Return the hashes and metadata of the memories of a scope, sorted by id, without reading texts."""
        condition = memory_filter(scope)
        sql = f"select m.id, m.content_hash, m.metadata from session_memories m where {condition.sql} order by m.id"
        return self.connection.fetch(imprint_from_row, sql, condition.parameters)

    @read
    def observations_on(
        self, report_ids: Sequence[int], limit: int, characters: int, scope: Scope
    ) -> Steps[list[Observation]]:
        """Return the last observations of a scope on these reports: corrections first, then the oldest first."""
        condition, seen = memory_filter(scope), report_ids
        if self.connection.sessions is not None:
            seen = list((yield from self.origins.steps(report_ids)))
        sql = f"""
            select m.id, cast({{about_report:m}} as bigint) as report_id, m.agent_id, m.created_at, m.metadata,
                m.trust, substr(m.content, 1, %(characters)s) as beginning
            from session_memories m {{indexed_by:idx_observed_report}}
            where {{visible:m}} and m.memory_type = '{MemoryKind.REPORT_OBSERVATION}'
                and {{about_report:m}} {{among_texts:reports}} and {condition.sql}
            order by coalesce({{corrects:m}}, false) desc, m.id desc limit %(limit)s
        """
        parameters = condition.parameters | {"reports": list(seen), "limit": limit, "characters": characters}
        found = yield Query(observation_from_row, sql, parameters)
        return sorted(found, key=lambda one: (not one.corrects, one.id))

    @read
    def neighbours(
        self, memory_ids: Sequence[int], count: int, characters: int, *, same_agent: bool
    ) -> Steps[dict[int, Neighbours]]:
        """Return the beginnings of memories' neighbours, within their kind, session and iteration.

        Only memories of conversations, stored by hooks and imports, have neighbours: their metadata names a project.
        """
        parameters = {"ids": list(memory_ids), "count": count, "characters": characters, "same_agent": same_agent}
        found = yield Query(neighbours_from_row, NEIGHBOURS, parameters)
        return dict(found)

    def page(
        self, scope: Scope, limit: int, offset: int = 0, *, order: Order = "newest", after: ListPosition | None = None
    ) -> list[Memory]:
        """Return up to `limit` memories of a scope after a position, and then after the first `offset`."""
        condition, direction = memory_filter(scope), "desc" if order == "newest" else "asc"
        beyond = "" if after is None else f"and {LISTED} {'<' if order == 'newest' else '>'} {AFTER}"
        sql = f"""
            select {COLUMNS} from session_memories m where {{visible:m}} and {condition.sql} {beyond}
            order by m.session_iter {direction}, m.turn {direction}, m.created_at {direction}, m.id {direction}
            limit %(limit)s offset %(offset)s
        """
        parameters = condition.parameters | {"limit": limit, "offset": offset}
        parameters |= {} if after is None else {f"listed_{name}": value for name, value in after._asdict().items()}
        return self.connection.fetch(memory_from_row, sql, parameters)

    def pinned(self, scope: Scope, limit: int) -> list[Memory]:
        """Return up to `limit` pinned memories of a scope, the newest first."""
        condition = memory_filter(scope)
        sql = f"""
            select {COLUMNS} from memory_lifecycle p join session_memories m on m.id = p.memory_id
            where {{visible:m}} and p.pinned and {condition.sql}
            order by m.turn desc, m.created_at desc, m.id desc limit %(limit)s
        """
        return self.connection.fetch(memory_from_row, sql, condition.parameters | {"limit": limit})

    def ids(self, scope: Scope) -> list[int]:
        """Return the ids of the memories of a scope, ascending."""
        condition = memory_filter(scope)
        sql = f"select m.id from session_memories m where {condition.sql} order by m.id"
        return self.connection.fetch_column(sql, condition.parameters)

    def find_copy(self, key: Mapping[str, Any]) -> int | None:
        """Return the id of the memory with this text, kind, session, iteration, agent and task, or None.

        Of several, the one of this time, or else the first. `key`: by column; without a kind, a report's.
        """
        sql = f"""
            select m.id from session_memories m
            where m.content_hash = %(content_hash)s and m.memory_type = %(memory_type)s and m.agent_id = %(agent_id)s
                and m.session_id is not distinct from %(session_id)s and m.session_iter = %(session_iter)s
                and m.task_code is not distinct from %(task_code)s and {UNEXPIRED}
            order by case when m.created_at = %(created_at)s then 0 else 1 end, m.id limit 1
        """
        parameters = {"memory_type": str(MemoryKind.REPORT), "created_at": None, **key}
        found = self.connection.fetch_value(sql, parameters)
        return None if found is None else int(found)

    @read
    def count(self, scope: Scope, *, since: str | None = None, without_vectors: bool = False) -> Steps[int]:
        """Return the number of memories in a scope, optionally created at `since` or later, or `without_vectors`."""
        condition = memory_filter(scope)
        sql = f"select count(*) from session_memories m where {{visible:m}} and {condition.sql}"
        if without_vectors:
            sql = f"""
                select count(*) from session_memories m {self.vectors.lacking.hint}
                where {{visible:m}} and {self.vectors.lacking.condition} and {condition.sql}
            """
        elif since is None and scope.as_of in HIDDEN and condition.parameters.keys() <= {"kind"}:
            # Checking the lifecycle of each of a million memories takes ten times as long.
            return sum((yield from self._count_kinds(scope)).values())
        if since is not None:
            sql += " and m.created_at >= %(since)s"
        found = yield Query(value_of, sql, condition.parameters | {"since": since})
        return int(found[0])

    @read
    def count_hidden(self, scope: Scope) -> Steps[Hidden]:
        """Count the memories that a scope leaves out: superseded now, or awaiting review. Each at most MOST_COUNTED."""
        if scope.as_of is not None:
            return Hidden()
        condition = memory_filter(replace(scope, as_of=STORED))
        order = "l cross join session_memories m" if scope.session_id is None else "l join session_memories m on true"
        rows = f"select 1 from memory_lifecycle {order} where {{visible:m}} and m.id = l.memory_id and {condition.sql}"
        sql = f"""
            select (
                select count(*) from (
                    {rows} and {SUPERSEDED} and ({EXPIRED}) is not true limit {MOST_COUNTED}
                ) superseded
            ) as superseded, (
                select count(*) from (
                    {rows} and l.held is not null and l.held = '{PENDING}' limit {MOST_COUNTED}
                ) pending
            ) as pending
        """
        found: list[Hidden] = yield Query(Hidden, sql, condition.parameters)
        return found[0]

    def count_all(self) -> int:
        """Return the number of memories, hidden ones included, but for deleted ones."""
        sql = f"""
            select (select count(*) from session_memories) -
                (select count(*) from memory_lifecycle where held is not null and held = '{DELETED}')
            {{exempt:how full the memory is, is said to everybody}}
        """
        return int(self.connection.fetch_value(sql))

    @read
    def count_by(self, scope: Scope, by: CountedBy) -> Steps[dict[str, int]]:
        """Return the number of memories by kind, tag or category ("" if it has none that is text), sorted by name."""
        condition = memory_filter(scope)
        if by == "kind" and scope.as_of in HIDDEN:
            return (yield from self._count_kinds(scope))
        named = COUNTED[by].replace("{condition}", condition.sql)
        sql = f"select name, count(*) as number from ({named}) counted group by name order by name"
        found = yield Query(Counted, sql, condition.parameters)
        return dict(found)

    def _count_kinds(self, scope: Scope) -> Steps[dict[str, int]]:
        """Count all memories of a scope, and subtract those no longer current: few memories have a lifecycle."""
        stored = memory_filter(replace(scope, as_of=STORED))
        sql = f"""
            select name, cast(sum(number) as bigint) as number from (
                select m.memory_type as name, count(*) as number from session_memories m
                where {{visible:m}} and {stored.sql}
                group by m.memory_type
                union all
                select m.memory_type, -count(*) from memory_lifecycle l join session_memories m on m.id = l.memory_id
                where {{visible:m}} and {HIDDEN[scope.as_of]} and {stored.sql} group by m.memory_type
            ) counted group by name having sum(number) > 0 order by name
        """
        found = yield Query(Counted, sql, stored.parameters)
        return dict(found)

    def expendable(self, scope: Scope) -> list[Expendable]:
        """Return unpinned memories of a scope: tagged ones the least read first, others the oldest first."""
        condition = memory_filter(scope)
        sql = f"""
            select m.id, (select count(*) from memory_chunks where parent_id = m.id) as chunk_count
            from session_memories m
            where (m.memory_type = '{MemoryKind.TAGGED}') = %(tagged)s and {UNPINNED} and {condition.sql}
            order by case when %(tagged)s then m.access_count else 0 end, m.created_at, m.id
        """
        parameters = condition.parameters | {"tagged": scope.kind is MemoryKind.TAGGED}
        return self.connection.fetch(Expendable, sql, parameters)

    def corrections(self, memory_ids: Collection[int]) -> list[Supersession]:
        """Return those of these memories that correct part of an existing report."""
        sql = f"""
            select m.id, m.content_hash, m.metadata from session_memories m
            where m.id {{among:ids}} and m.memory_type = '{MemoryKind.REPORT_OBSERVATION}'
        """
        found = self.connection.fetch(imprint_from_row, sql, {"ids": list(memory_ids)})
        links = [
            Supersession(report, one.id)
            for one in found
            if one.metadata.get("corrects") is True
            and type(report := one.metadata.get("parent_report_id")) is int
            and 0 < report <= LARGEST
        ]
        existing = self.origins([link.older_id for link in links])
        return [link for link in links if link.older_id in existing]

    def changes(self, scope: Scope, limit: int) -> list[tuple[Cursor, Memory]]:
        """Return the first `limit` memories of a scope, in the order of their commits, and the cursor after each.

        That is the order of ids, which are assigned under the writers' lock, and never twice. Those that a person has
        released come where that was.
        """
        condition = memory_filter(scope)
        sql = f"""
            select {COLUMNS}, c.place from (
                select * from (
                    select m.id, m.id as place from session_memories m
                    where {{visible:m}} and {condition.sql} and not exists (
                        select 1 from memory_lifecycle g where g.memory_id = m.id and g.given_at is not null
                    ) order by m.id limit %(limit)s
                ) stored union all select * from (
                    select m.id, g.given_at as place from memory_lifecycle g cross join session_memories m
                    where {{visible:m}} and {condition.sql} and m.id = g.memory_id and g.given_at > %(since)s
                    order by g.given_at limit %(limit)s
                ) released
            ) c join session_memories m on m.id = c.id where {{visible:m}} order by c.place limit %(limit)s
        """
        parameters = condition.parameters | {"since": scope.since_id or 0, "limit": limit}
        return self.connection.fetch(lambda place, **row: (Cursor(place), memory_from_row(**row)), sql, parameters)


SECONDS_TO_USE = 24 * 3600
"""What a recap or recall has shown is used if it is read within this time."""


class MemoryChanges(Queries):
    """Changes rows of memories."""

    def set_tags(self, memory_id: int, tags: Sequence[str], now: str) -> None:
        """Replace the tags of a memory."""
        sql = "update session_memories set tags = %(tags)s, updated_at = %(now)s where id = %(id)s"
        self.connection.later(sql, {"tags": list(tags), "now": now, "id": memory_id})

    def record_access(self, memory_ids: Sequence[int], now: str) -> None:
        """Count one read of each memory. An id that is given twice was read twice."""
        sql = """
            update session_memories as m set access_count = m.access_count + read.times,
                accessed_at = case when m.accessed_at < %(now)s then %(now)s else m.accessed_at end
            from (select each.value as id, count(*) as times from {each:ids} group by each.value) read
            where m.id = read.id
        """
        self.connection.later(sql, {"ids": list(memory_ids), "now": now})
        sql = "update recalls set is_used = true where memory_id {among:ids} and told_at >= %(since)s and not is_used"
        self.connection.later(sql, {"ids": list(memory_ids), "since": utc_now(SECONDS_TO_USE)})

    def record_told(self, told: Told) -> None:
        """Count a recap or recall. Memories that were deleted meanwhile are left out."""
        sql = """
            insert into recalls (memory_id, session, told_at, client, is_recap, tokens)
            select id, %(session)s, %(told_at)s, %(client)s, %(is_recap)s, %(tokens)s
            from session_memories where id {among:memory_ids}
        """
        session = blake2b(told.session_id.encode(), digest_size=7).digest()  # fits into an id
        self.connection.later(sql, {**told._asdict(), "session": int.from_bytes(session)})


# The chunks of memories: the rows of `memory_chunks`.


CHUNK_COLUMNS = """
    c.id, c.parent_id, c.chunk_index, c.content, c.chunk_type, c.start_char, c.end_char, c.token_count,
    c.section_hierarchy, c.level, c.contains_code, c.contains_table, c.is_oversized, c.is_contextually_enriched
"""


def chunk_from_row(**row: Any) -> StoredChunk:
    """Return a StoredChunk for a row of CHUNK_COLUMNS."""
    chunk = Chunk(
        index=row["chunk_index"],
        text=row["content"],
        start=row["start_char"],
        end=row["end_char"],
        kind=row["chunk_type"],
        token_count=row["token_count"],
        headings=tuple(texts_in(row["section_hierarchy"])),
        level=row["level"],
        contains_code=bool(row["contains_code"]),
        contains_table=bool(row["contains_table"]),
        oversized=bool(row["is_oversized"]),
    )
    return StoredChunk(row["id"], row["parent_id"], chunk, bool(row["is_contextually_enriched"]))


class OutlineRow(NamedTuple):
    """A row of a chunk's outline, with its headings as JSON."""

    id: int
    memory_id: int
    start: int
    end: int
    headings: str


class ChunkQueries(Queries):
    """Reads chunks."""

    def get(self, chunk_id: int) -> StoredChunk | None:
        """Return a chunk, or None: also if an agent deleted its memory."""
        sql = f"select {CHUNK_COLUMNS} from memory_chunks c where {{visible_id:c.parent_id}} and c.id = %(id)s and "
        sql += UNDELETED.replace("m.id", "c.parent_id")
        return self.connection.fetch_one(chunk_from_row, sql, {"id": chunk_id})

    @read
    def get_all(self, chunk_ids: Sequence[int]) -> Steps[dict[int, StoredChunk]]:
        """Return the chunks, by id. Raises DatabaseError if one is missing: the ids come from an index."""
        sql = f"select {CHUNK_COLUMNS} from memory_chunks c where {{visible_id:c.parent_id}} and c.id {{among:ids}}"
        rows = yield Query(chunk_from_row, sql, {"ids": list(chunk_ids)})
        found = {chunk.id: chunk for chunk in rows}
        if len(found) < len(set(chunk_ids)) and self.connection.sessions is None:
            raise DatabaseError("The index refers to a missing chunk: run `vector-memory doctor --fix`.")
        return found

    def of(self, memory_id: int, first: int = 0, last: int | None = None) -> list[StoredChunk]:
        """Return a document's chunks at the positions `first` to `last`, inclusive, in order; default: all."""
        sql = f"""
            select {CHUNK_COLUMNS} from memory_chunks c
            where {{visible_id:c.parent_id}} and c.parent_id = %(memory)s and c.chunk_index >= %(first)s
                and (c.chunk_index <= %(last)s or %(last)s is null)
            order by c.chunk_index
        """
        return self.connection.fetch(chunk_from_row, sql, {"memory": memory_id, "first": first, "last": last})

    @read
    def outlines(self, memory_ids: Sequence[int]) -> Steps[list[ChunkOutline]]:
        """Return all chunks of the documents without their texts, ordered by document and position."""
        sql = """
            select c.id, c.parent_id as memory_id, c.start_char as start, c.end_char as end,
                c.section_hierarchy as headings
            from memory_chunks c where {visible_id:c.parent_id} and c.parent_id {among:ids}
            order by c.parent_id, c.chunk_index
        """
        rows: list[OutlineRow] = yield Query(OutlineRow, sql, {"ids": list(memory_ids)})
        headings = texts_in_each({row.headings for row in rows})  # many chunks have the same
        return [ChunkOutline(chunk, memory, start, end, headings[text]) for chunk, memory, start, end, text in rows]


BYTES_PER_NUMBER = 4


class TagQueries(OverVectors):
    """Reads the vocabulary."""

    def canonical(self, among: Collection[str] | None = None) -> list[CanonicalTag]:
        """Return the canonical tags, optionally only those in `among`: most frequent first, then alphabetically."""
        condition = "true" if among is None else "tag {among:among}"
        sql = f"select tag, frequency, created_at from canonical_tags where {condition} order by frequency desc, tag"
        return self.connection.fetch(CanonicalTag, sql, {"among": list(among or ())})

    def vectors_of(self, dimensions: int) -> TagVectors:
        """Return the canonical tags with their vectors of the model that is read; the others count as missing."""
        import numpy as np  # noqa: PLC0415

        is_read = self.vectors.passages_read.replace("p.", "")
        sql = f"select tag, case when {is_read} then embedding end as embedding from canonical_tags order by id"
        known: list[dict[str, Any]] = self.connection.fetch(dict, sql)
        missing = bytes(dimensions * BYTES_PER_NUMBER)
        found = [one["embedding"] or missing for one in known]
        stored = [vector if len(vector) == len(missing) else missing for vector in found]
        vectors = np.frombuffer(b"".join(stored), np.float32).reshape(len(known), dimensions)
        return TagVectors([one["tag"] for one in known], vectors)


class TagChanges(PassageChanges):
    """Changes the vocabulary."""

    def forget_tags(self, tags: Sequence[str]) -> None:
        """Delete canonical tags. Memories keep theirs."""
        self.connection.later("delete from canonical_tags where tag {among_texts:tags}", {"tags": list(tags)})

    def count_tag(self, tag: str, vector: "NDArray[np.float32] | None", now: str) -> None:
        """Count one more memory with a tag, and make the tag canonical if it is new."""
        sql = """
            insert into canonical_tags (tag, embedding, model_id, frequency, created_at)
            values (%(tag)s, %(vector)s, %(model)s, 1, %(now)s)
            on conflict (tag) do update set frequency = canonical_tags.frequency + 1
        """
        stored = None if vector is None else vector.tobytes()
        model_id = None if vector is None or self.vectors.current is None else self.vectors.current.id
        self.connection.later(sql, {"tag": tag, "vector": stored, "model": model_id, "now": now})
