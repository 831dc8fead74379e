"""Where not all passages are compared: which ones are chosen, and how much is read."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inside import compare_all, compare_likeliest, database_of
from lattice import LatticeEmbedder
from search.by_force import found_by
from search.test_equal_units import add_report
from search.test_exact import fill, open_store
from vector_memory.domain import Fingerprint, Page, Scope
from vector_memory.embedding.embedder import Vectors
from vector_memory.search import rank
from vector_memory.search.rank import best_of_memories
from vector_memory.settings import Settings
from vector_memory.storage.connection import Steps, read
from vector_memory.storage.queries.candidates import Likely
from vector_memory.storage.sqlite.candidates import SqliteCandidates
from vector_memory.store import SessionMemoryStore

REPORTS = Scope("report")


class Normal(LatticeEmbedder):
    """Gives each text any vector, and a question the vector of a text with some noise."""

    fingerprint = Fingerprint("normal", 100, "exact", "test")

    def embed(self, texts: list[str]) -> Vectors:  # type: ignore[override]
        vectors = np.stack([self.drawn(text) + self.drawn(text.partition(" ")[0]) for text in texts])
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def drawn(self, text: str) -> Vectors:
        return np.random.default_rng(crc32(text.encode())).standard_normal(100, np.float32)


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_among_a_few_of_thousands_of_passages_are_nearly_all_of_the_best(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, embedder = Settings(embedding_model="toy", embedding_dim=100), Normal()
    with SessionMemoryStore(tmp_path / "memory.db", settings, embedder=embedder) as store:
        add_report(store, [f"topic{number % 150} word{number}" for number in range(3_000)], embedder)
        found = []
        for compare in (compare_all, lambda patch: compare_likeliest(patch, 100)):
            compare(monkeypatch)
            found += [found_by(store, f"topic{number} word{number}", REPORTS, mode, 10) for number in range(1, 40)]
    shares = [len({*exact} & {*likely}) / 10 for exact, likely in zip(found[:39], found[39:], strict=True)]
    assert np.mean(shares) > 0.95
    assert all(exact[0] == likely[0] for exact, likely in zip(found[:39], found[39:], strict=True))


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0.1, 0.2, 0.3, 0.4])), max_size=30), st.integers(1, 8))
def test_whole_memories_are_chosen_by_their_best_units(units: list[tuple[int, float]], count: int) -> None:
    owners = np.array([owner for owner, _ in units], np.int64)
    scores = np.array([score for _, score in units])
    ids, similarities = np.arange(len(units)), np.where(scores > 0.2, scores, np.nan)
    best = {
        owner: max((score, -place) for place, (other, score) in enumerate(units) if other == owner) for owner in owners
    }
    expected = sorted(best, key=lambda owner: (-best[owner][0], owner))[:count]
    chosen, nearest = best_of_memories(scores, ids, owners, similarities, count)
    assert [(owners[place], place) for place in chosen] == [(owner, -best[owner][1]) for owner in expected]
    highest = [best[owner][0] if best[owner][0] > 0.2 else None for owner in owners]
    assert [None if np.isnan(value) else value for value in nearest] == highest


def test_close_matches_elsewhere_are_counted_with_few_vectors_and_only_among_the_newest_memories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared, likeliest = list[int](), vars(SqliteCandidates)["likeliest"].steps

    @read
    def counted(source: SqliteCandidates, scope: Scope, *args: Any) -> Steps[Likely]:
        found: Likely = yield from likeliest(source, scope, *args)
        compared.append(len(found.vectors) if scope.session_id is None else 0)
        return found

    monkeypatch.setattr(SqliteCandidates, "likeliest", counted)
    monkeypatch.setattr(rank, "MOST_COMPARED", 12)
    with open_store(tmp_path / "memory.db") as store:
        for number in range(40):
            store.store_memory("report", "w1 w2 w3 w4" if number % 8 else "a b c d", session_id=f"s{number}")
        store.store_memory("report", "w1 w2 w3 w4", session_id="here")
        for probed, wanted in ((1_000, 5), (20, 2)):
            monkeypatch.setattr(rank, "PROBED", probed)
            answer = store.search_chunks("a b c d", Scope("report", session_id="here"), Page(limit=5))
            assert answer.elsewhere == {"other_sessions": wanted}
    assert 0 < max(compared) <= 4 * 12


def statements_of(store: SessionMemoryStore, search: Callable[[], object]) -> list[str]:
    """Return the statements that a search runs on the connection that it is given."""
    with database_of(store).read() as connection:
        guard = connection.exec_trace
    statements: list[str] = []

    def trace(cursor: apsw.Cursor, sql: str, bindings: Any) -> bool:
        statements.append(" ".join(sql.split()))
        return bool(guard(cursor, sql, bindings))

    connection.exec_trace = trace
    try:
        search()
    finally:
        connection.exec_trace = guard
    return statements


@pytest.mark.usefixtures("way")
def test_a_search_reads_in_one_transaction_checks_the_model_once_and_reads_units_and_words_at_once(
    store: SessionMemoryStore,
) -> None:
    scope = Scope("report", session_id="s1", agent_id="a1", session_iter=1)
    fill(store, random.Random(3), 10)
    for search in (store.search_chunks, store.search_sections):
        # Nothing is near, so that other scopes are searched as well.
        statements = statements_of(store, lambda search=search: search("zzz", scope))
        assert statements.count("begin") == 1
        assert sum("from embedding_models" in sql for sql in statements) == 1
    for query, where in (("a", REPORTS), ("b c d e f g", scope)):
        statements = statements_of(store, lambda: store.search_chunks(query, where, mode="keyword"))  # noqa: B023
        assert sum("keyword_" in sql for sql in statements) == 1
