"""Reads rows of the keyword index (`storage.postings`)."""

import numpy as np

from vector_memory.storage.postgres.arrays import as_numbers
from vector_memory.storage.postgres.connection import Connection
from vector_memory.storage.postings import FoundPostings, in_order
from vector_memory.storage.scoring import Numbers


def read_postings(connection: Connection, wanted: Numbers) -> FoundPostings:
    """Return the postings of those rows that exist, in the given order.

    The query returns them in one row: handing over thousands of rows takes longer than reading them. It gets their ids
    sorted, so that PostgreSQL reads neighbouring rows after each other, and cannot choose to read the whole table.
    """
    sql = """
        select string_agg(int8send(id), ''::bytea), string_agg(int8send(length(postings)::bigint), ''::bytea),
            string_agg(postings, ''::bytea)
        from keyword_postings where id = any(%s::bigint[])
    """
    ids, places = np.unique(np.asarray(wanted, np.int64), return_inverse=True)
    found, sizes, joined = connection.execute(sql, (ids,), binary=True).fetchall()[0]
    rows, postings = in_order(np.searchsorted(ids, as_numbers(found)), as_numbers(sizes), joined or b"")
    ends = np.searchsorted(rows, np.arange(len(ids) + 1))
    counts = np.diff(ends)[places]
    before = np.cumsum(counts) - counts
    order = np.repeat(ends[:-1][places] - before, counts) + np.arange(counts.sum())
    return FoundPostings(np.repeat(np.arange(len(places)), counts), postings[order])
