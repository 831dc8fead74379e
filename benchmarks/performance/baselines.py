"""What search is compared with: the original server's algorithm, vec0 by itself, and a matrix product as the floor."""

import tempfile
from pathlib import Path
from typing import NamedTuple, Self

import apsw
import numpy as np
from files import opened, vectors_of, with_vectors
from numpy.typing import NDArray

from vector_memory.domain import Scope

WANTED = 10
MAX_K = 4_096
"""sqlite-vec refuses a higher `k`."""

MAX_BATCH = 5_000
GROW_BELOW = 0.05

FLAT_TABLE = "create virtual table flat using vec0(id integer primary key, embedding float[384])"
PLACE_TABLE = """
    create table place (id integer primary key, chunk_id, memory_type, agent_id, session_id, session_iter, task_code);
    insert into place
    select p.id, p.chunk_id, m.memory_type, m.agent_id, m.session_id, m.session_iter, m.task_code
    from source.memory_passages p join source.session_memories m on m.id = p.memory_id where p.chunk_id is not null
"""
FLAT_SQL = "select id from flat where embedding match ? and k = ?"
ORIGINAL_SQL = """
    select f.id, f.distance, c.content, p.memory_type, p.agent_id, p.session_id, p.session_iter, p.task_code
    from flat f join place p on p.id = f.id join source.memory_chunks c on c.id = p.chunk_id
    where f.embedding match ? and f.k = ?
    order by f.distance limit ? offset ?
"""

FIELDS = ("kind", "agent_id", "session_id", "session_iter", "task_code")


class Answer(NamedTuple):
    """The passages that were found, best first; `complete`: whether all that were wanted could be had."""

    ids: list[int]
    complete: bool


class Baselines:
    """The passages of a memory file in a flat vec0 table with texts and positions, and in a numpy array."""

    def __init__(self, source: Path) -> None:
        self._folder = tempfile.TemporaryDirectory()
        with opened(source) as connection:
            self._ids, self._vectors = vectors_of(connection)
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        self._connection = apsw.Connection(str(Path(self._folder.name) / "flat.db"), flags=flags)
        with_vectors(self._connection)
        self._connection.pragma("synchronous", 0)
        self._fill(source)
        self._members = self._vectors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._folder.cleanup()

    def _fill(self, source: Path) -> None:
        self._connection.execute("attach ? as source", (f"file:{source}?mode=ro",))
        with self._connection:
            self._connection.execute(FLAT_TABLE)
            self._connection.execute(PLACE_TABLE)
            self._connection.executemany(
                "insert into flat values (?, ?)",
                ((int(number), vector.tobytes()) for number, vector in zip(self._ids, self._vectors, strict=True)),
            )

    def original(self, query: NDArray[np.float32], scope: Scope, wanted: int = WANTED) -> Answer:
        """Search as the original server does: pages of a growing k over everything, filters in Python.

        Where it asks for more than the 4,096 neighbours of sqlite-vec it would fail; here it stops.
        """
        batch, offset = max(100, wanted * 50), 0
        kept: list[int] = []
        while len(kept) < wanted:
            if batch + offset > MAX_K:
                return Answer(kept, complete=False)
            rows = self._connection.execute(ORIGINAL_SQL, (query.tobytes(), batch + offset, batch, offset)).fetchall()
            if not rows:
                break
            passed = [row[0] for row in rows if passes(row[3:], scope)]
            kept += passed[: wanted - len(kept)]
            offset += batch
            if len(passed) < len(rows) * GROW_BELOW:
                batch = min(batch * 2, MAX_BATCH)
        return Answer(kept, complete=True)

    def flat(self, query: NDArray[np.float32], wanted: int = WANTED) -> Answer:
        """Ask vec0 for the nearest of everything, without any filter."""
        return Answer([row[0] for row in self._connection.execute(FLAT_SQL, (query.tobytes(), wanted))], complete=True)

    def floor(self, query: NDArray[np.float32], wanted: int = WANTED) -> Answer:
        """Multiply the vectors of the prepared scope with the query and take the best: exact, all in memory."""
        scores = self._members @ query
        best = np.argpartition(scores, -min(wanted, len(scores)))[-wanted:]
        return Answer(best[np.argsort(-scores[best])].tolist(), complete=True)

    def prepare(self, scope: Scope) -> None:
        """Collect the vectors of a scope for `floor`, outside the measured time."""
        conditions = {
            "memory_type": scope.kind and str(scope.kind),
            "agent_id": scope.agent_id,
            "session_id": scope.session_id,
            "session_iter": scope.session_iter,
            "task_code": scope.task_code,
        }
        given = {name: value for name, value in conditions.items() if value is not None}
        sql = " and ".join(f"{name} = ?" for name in given)
        rows = self._connection.execute(f"select id from place where {sql}", tuple(given.values()))  # noqa: S608
        wanted = np.isin(self._ids, np.fromiter((row[0] for row in rows), np.int64))
        self._members = self._vectors if wanted.all() else self._vectors[wanted]


def passes(row: tuple[object, ...], scope: Scope) -> bool:
    """Tell whether a row's kind, agent, session, iteration and task are those of the scope."""
    return all(getattr(scope, field) in (None, value) for field, value in zip(FIELDS, row, strict=True))
