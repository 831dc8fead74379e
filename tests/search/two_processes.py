"""Two processes that store into one file, delete and rebuild its keywords, and what must hold of each search."""

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from inside import database_of, load_index, rebuild_words
from search.test_exact import QUERIES, SCOPES, fill, open_store
from vector_memory.domain import Scope
from vector_memory.errors import DuplicateMemoryError
from vector_memory.storage.sqlite.rows import fetch_column
from vector_memory.store import SessionMemoryStore

Step = tuple[str, object, object]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("store"), st.integers(0, 1), st.integers(0, 2**32)),
        st.tuples(st.just("delete"), st.integers(0, 1), st.integers(0, 2**32)),
        st.tuples(st.just("rebuild"), st.integers(0, 1), st.none()),
        st.tuples(st.just("search"), QUERIES, SCOPES),
    ),
    min_size=3,
    max_size=25,
)


def take(steps: list[Step], path: Path, require: Callable[[SessionMemoryStore, str, Scope], None]) -> None:
    """Take the steps, and call `require` for each search in each of the two."""
    with open_store(path) as one, open_store(path) as other:
        stores = (one, other)
        load_index(one)
        load_index(other)
        ids: list[int] = []
        for step in steps:
            match step:
                case ("store", int(which), int(seed)):
                    with contextlib.suppress(DuplicateMemoryError):
                        fill(stores[which], random.Random(seed), 2)
                    with database_of(one).read() as connection:
                        ids = fetch_column(connection, "select id from session_memories order by id")
                case ("delete", int(which), int(place)) if ids:
                    stores[which].delete_memory(ids.pop(place % len(ids)))
                case ("rebuild", int(which), _):
                    with database_of(stores[which]).write() as connection:
                        rebuild_words(connection)
                    for store in stores:
                        load_index(store)
                case ("search", str(query), Scope() as scope):
                    for store in stores:
                        require(store, query, scope)
