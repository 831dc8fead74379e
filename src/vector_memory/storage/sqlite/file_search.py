"""Finds chunks in the index of a folder of Markdown files: the nearest, and those that have the words of a query."""

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from vector_memory.storage.sqlite.file_index import PASSAGES
from vector_memory.storage.sqlite.rows import fetch, fetch_value
from vector_memory.storage.terms import query_terms

MAX_K = 4096
"""sqlite-vec answers no query for more neighbours."""

K1 = 1.2
"""That of FTS5's bm25()."""

SMALLEST_IDF = 1e-6
"""What FTS5's bm25() takes for a term that is in more than half of the rows."""


class StoredChunk(NamedTuple):
    """A chunk as searches show it."""

    id: int
    path: str
    text: str
    start_line: int
    end_line: int


class Measured(NamedTuple):
    """The id of a passage or chunk, and a distance or score."""

    id: int
    measure: float


def nearest(connection: apsw.Connection, query: NDArray[np.float32], *, daily: bool | None) -> list[tuple[int, float]]:
    """Return the 4,096 nearest passages as chunk ids and cosines, nearest first.

    `daily`: only daily logs, or only others; None: all.
    """
    condition = "" if daily is None else "and daily = :daily"
    rows = connection.execute(
        f"select id, distance from chunks_vec where embedding match :query and k = :count {condition}",
        {"query": query.tobytes(), "count": MAX_K, "daily": daily},
    )
    return [(row.id // PASSAGES, 1.0 - row.measure) for row in map(Measured._make, rows.fetchall())]


def cosines(connection: apsw.Connection, query: NDArray[np.float32], chunk_ids: Sequence[int]) -> dict[int, float]:
    """Return the cosine of the best passage of each of the chunks that have vectors."""
    rows = connection.execute(
        """
        with recursive passage (chunk, id, last) as (
            select c.id, c.id * :passages, c.id * :passages + c.passages - 1
            from json_each(:ids) wanted join chunks c on c.id = wanted.value where c.passages > 0
            union all select chunk, id + 1, last from passage where id < last
        )
        select p.chunk, min(vec_distance_cosine(v.embedding, :query))
        from passage p join chunks_vec v on v.id = p.id group by p.chunk
        """,
        {"ids": json.dumps(list(chunk_ids)), "passages": PASSAGES, "query": query.tobytes()},
    )
    return {row.id: 1.0 - row.measure for row in map(Measured._make, rows.fetchall())}


def word_scores(connection: apsw.Connection, query: str, *, daily: bool | None) -> dict[int, float]:
    """Return the BM25 score of each chunk that has a word of the query, as a share of what a text can have at most.

    FTS5's scores are the more negative the better. A text full of all the words would come close to the sum of
    `idf * (K1 + 1)`; with words that no chunk has, even the best one is far from it.
    """
    wanted = query_terms(query)
    if not wanted:
        return {}
    match = " OR ".join('"{}"'.format(term.replace('"', '""')) for term in wanted)
    rows = connection.execute(
        """
        select c.id, bm25(chunks_fts) from chunks_fts f join chunks c on c.id = f.rowid
        where chunks_fts match :match and (:daily is null or c.daily = :daily)
        """,
        {"match": match, "daily": daily},
    )
    possible = sum(_idf(connection, term) for term in wanted) * (K1 + 1)
    return {row.id: min(1.0, -row.measure / possible) for row in map(Measured._make, rows.fetchall())}


def chunks_with(connection: apsw.Connection, ids: Sequence[int]) -> list[StoredChunk]:
    """Return those of the chunks that exist, in the given order."""
    sql = """
        select c.id, c.path, c.text, c.start_line, c.end_line
        from json_each(?) wanted join chunks c on c.id = wanted.value order by wanted.key
    """
    return fetch(connection, StoredChunk, sql, (json.dumps(list(ids)),))


def _idf(connection: apsw.Connection, term: str) -> float:
    """Return the weight that FTS5's bm25() gives a term."""
    having = fetch_value(connection, "select doc from chunks_terms where term = ?", (term,)) or 0
    total = fetch_value(connection, "select count(*) from chunks")
    return max(SMALLEST_IDF, math.log((total - having + 0.5) / (having + 0.5)))
