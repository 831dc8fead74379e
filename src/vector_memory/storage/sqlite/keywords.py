"""Reads rows of the keyword index (`storage.postings`)."""

import json
from typing import Any

import apsw
import numpy as np

from vector_memory.storage.postings import FoundPostings, in_order
from vector_memory.storage.scoring import Numbers


def read_postings(connection: apsw.Connection, wanted: Numbers) -> FoundPostings:
    """Return the postings of those rows that exist, in the given order.

    The query returns them in one row: handing over thousands of rows takes longer than reading them.
    """
    sql = """
        select cast(group_concat(p.postings, '') as blob), group_concat(wanted.key), group_concat(length(p.postings))
        from json_each(?) wanted cross join keyword_postings p on p.id = wanted.value
    """
    rows: list[Any] = connection.execute(sql, (json.dumps(wanted.tolist()),)).fetchall()
    joined, positions, sizes = rows[0]
    return in_order(
        np.fromstring(positions or "", np.int64, sep=","), np.fromstring(sizes or "", np.int64, sep=","), joined or b""
    )
