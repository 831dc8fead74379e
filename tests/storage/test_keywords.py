"""Keywords: BM25 with the statistics of the scope, compared with a plain one; identifiers; hostile queries."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import permutations, product
from typing import Any, NamedTuple

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from snowballstemmer import stemmer

from engine_memories import scores_by_words
from memory_files import are_words_of_texts
from vector_memory.domain import Chunk, MemoryKind, NewMemory, Scope
from vector_memory.search.rank import covered_by_best
from vector_memory.storage import postings
from vector_memory.storage.postings import indexed
from vector_memory.storage.records import Derived, History
from vector_memory.storage.scoring import K1, B
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.rows import fetch_column, fetch_value
from vector_memory.storage.sqlite.transactions import SqliteReader, SqliteWriter
from vector_memory.texts.terms import query_terms, terms
from waiting import at_once

WORDS = ("alpha", "beta", "gamma", "delta", "store_report", "getUserById", "the", "東京都")
REPORT, PROMPT, SESSIONLESS = MemoryKind.REPORT, MemoryKind.INPUT_PROMPT, MemoryKind.TAGGED
REPORTS = Scope(REPORT)

texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
memories = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([REPORT, PROMPT, SESSIONLESS]),
        "agent_id": st.sampled_from(["a", "b"]),
        "session_id": st.sampled_from(["s", "t"]),
        "session_iter": st.sampled_from([1, 2]),
        "task_code": st.sampled_from([None, "x"]),
        "tags": st.sampled_from([(), ("one",), ("one", "two")]),
        "unit_texts": st.lists(texts, min_size=1, max_size=4),
    }
)
scopes = st.builds(
    Scope,
    kind=st.sampled_from([REPORT, PROMPT, SESSIONLESS]),
    agent_id=st.sampled_from([None, "a"]),
    session_id=st.sampled_from([None, "s", "nowhere"]),
    session_iter=st.sampled_from([None, 2]),
    task_code=st.sampled_from([None, "x"]),
    tags=st.sampled_from([(), ("two",), ("one", "three")]),
)


class Unit(NamedTuple):
    """A chunk, or a memory that is not chunked."""

    id: int
    memory_id: int


class Match(NamedTuple):
    """A unit that has one of the words."""

    id: int
    memory_id: int
    score: float


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = Database(tmp_path_factory.mktemp("keywords") / "memory.db", dimensions=16)
    yield database
    database.close()


@pytest.fixture
def connection(opened: Database) -> Iterator[apsw.Connection]:
    with undone(opened) as connection:
        yield connection


class UndoneError(Exception):
    pass


@contextmanager
def undone(database: Database) -> Iterator[apsw.Connection]:
    """Yield an empty file, and undo all writes."""
    with suppress(UndoneError), database.write() as connection:
        yield connection
        raise UndoneError


def save(connection: apsw.Connection, unit_texts: Sequence[str], kind: MemoryKind = REPORT, **fields: Any) -> int:
    """Store a report with these chunks, or a memory of another kind with the first text."""
    chunked = kind is REPORT
    if kind is SESSIONLESS:
        fields["session_id"] = None
    new = NewMemory(kind=kind, content=unit_texts[0] or "-", **{"agent_id": "a", "session_id": "s", **fields})
    chunks = [as_chunk(*part) for part in enumerate(unit_texts)] if chunked else []
    derived = Derived(chunks=chunks, words=indexed(unit_texts if chunked else unit_texts[:1]))
    return SqliteWriter(connection).add_memory(new, derived, content_hash="", history=History("2026", "2026", "2026"))


def as_chunk(index: int, text: str) -> Chunk:
    return Chunk(
        index=index, text=text, start=0, end=0, kind="text", token_count=0, headings=(), level=0,
        contains_code=False, contains_table=False, oversized=False,
    )  # fmt: skip


def find(connection: apsw.Connection, query: str, scope: Scope = REPORTS) -> list[Match]:
    units, words = scores_by_words(SqliteReader(connection).vectors.candidates, query, scope)
    columns = units.ids[words.entries], units.owners_of(words.entries), words.shares[words.entries]
    matches = [Match(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return sorted(matches, key=lambda match: (-round(match.score, 6), match.id))


def is_in(memory: dict[str, Any], scope: Scope) -> bool:
    session_id = None if memory["kind"] is SESSIONLESS else memory["session_id"]
    same = {name: getattr(scope, name) for name in ("kind", "agent_id", "session_iter", "task_code")}
    return (
        all(wanted in (None, memory[name]) for name, wanted in same.items())
        and scope.session_id in (None, session_id)
        and (not scope.tags or bool(set(scope.tags) & set(memory["tags"])))
    )


def plain_bm25(unit_texts: dict[Unit, list[str]], wanted: list[str]) -> list[Match]:
    """Return what BM25 says, written as in the textbook, over the root of the best times the highest possible score."""
    counted = {key: Counter(found) for key, found in unit_texts.items()}
    mean = sum(map(len, unit_texts.values())) / max(1, len(unit_texts)) or 1
    having = {term: sum(term in other for other in counted.values()) for term in wanted}
    idfs = {term: math.log(1 + (len(unit_texts) - number + 0.5) / (number + 0.5)) for term, number in having.items()}
    matches = []
    for key, counts in counted.items():
        score = 0.0
        for term, idf in idfs.items():
            count = min(counts[term], postings.MAX_COUNT)
            norm = K1 * (1 - B + B * len(unit_texts[key]) / mean)
            score += idf * count * (K1 + 1) / (count + norm) if count else 0.0
        if score:
            matches.append(Match(*key, score))
    divisor = (sum(idfs.values()) * (K1 + 1) * max((match.score for match in matches), default=0)) ** 0.5
    matches = [match._replace(score=match.score / divisor) for match in matches]
    return sorted(matches, key=lambda match: (-round(match.score, 6), match.id))


def same(found: Sequence[Match], wanted: Sequence[Match]) -> bool:
    return [match[:2] for match in found] == [match[:2] for match in wanted] and [
        match.score for match in found
    ] == pytest.approx([match.score for match in wanted], rel=1e-12)


@given(st.lists(memories, max_size=8), st.sets(st.integers(0, 7)), scopes, texts)
def test_scores_are_bm25_over_the_scope_whatever_else_is_or_was_stored(
    opened: Database, stored: list[dict[str, Any]], deleted: set[int], scope: Scope, query: str
) -> None:
    with undone(opened) as connection:
        ids = [save(connection, **memory) for memory in stored]
        for position in deleted & set(range(len(ids))):
            SqliteWriter(connection).delete(ids[position])
        there: dict[Unit, list[str]] = {}
        for position, memory in enumerate(stored):
            if position in deleted or not is_in(memory, scope):
                continue
            chunk_ids = fetch_column(
                connection, "select id from memory_chunks where parent_id = ? order by id", (ids[position],)
            )
            parts = zip(chunk_ids or [None], memory["unit_texts"], strict=False)
            there |= {Unit(chunk or ids[position], ids[position]): terms(text) for chunk, text in parts}
        assert same(find(connection, query, scope), plain_bm25(there, query_terms(query)))
        assert are_words_of_texts(connection)


def test_other_sessions_change_no_score_in_this_one(connection: apsw.Connection) -> None:
    save(connection, ["alpha beta", "beta gamma"])
    save(connection, ["gamma gamma delta"])
    own = Scope(REPORT, session_id="s")
    before = find(connection, "beta gamma", own)
    for number in range(5):
        save(connection, ["alpha gamma gamma " * 20] * 3, session_id=f"t{number}")
        save(connection, ["beta"], SESSIONLESS)
    assert len(before) == 3
    assert find(connection, "beta gamma", own) == before
    assert find(connection, "beta gamma") != before


def test_units_in_a_new_block_are_ranked_like_the_others(connection: apsw.Connection) -> None:
    unit_texts: dict[Unit, list[str]] = {}
    for number in range(postings.UNITS_PER_BLOCK // 20 + 4):
        content = [f"alpha word{number} piece{part}" + " beta" * (part % 3) for part in range(40)]
        memory_id = save(connection, content)
        ids = fetch_column(connection, "select id from memory_chunks where parent_id = ?", (memory_id,))
        unit_texts |= {Unit(chunk, memory_id): terms(text) for chunk, text in zip(ids, content, strict=True)}
    assert fetch_value(connection, "select count(*) from keyword_blocks") > 1
    assert same(find(connection, "beta word3 piece7"), plain_bm25(unit_texts, query_terms("beta word3 piece7")))


def test_very_frequent_terms_of_a_unit_count_like_frequent_ones(connection: apsw.Connection) -> None:
    unit_texts = [["alpha " * 5000], ["alpha " * postings.MAX_COUNT + "beta " * (5000 - postings.MAX_COUNT)]]
    for text in unit_texts:
        save(connection, text, PROMPT)
    first, second = find(connection, "alpha", Scope(PROMPT))
    assert first.score == second.score > 0


IDENTIFIERS = {
    "store_report": ("store_report", "store", "report"),
    "getUserById": ("getuserbyid", "GetUserById", "user", "id"),
    "HTTPServer": ("httpserver", "server", "http"),
    "ECONNREFUSED": ("econnrefused",),
    "task #42": ("#42", "42", "task #42"),
    "v1.2.3": ("v1.2.3", "v1", "1.2.3"),
    "numpy 1.26.4": ("v1.26.4", "1.26.4", "numpy-1.26.4"),
    "numpy-1.26.4": ("1.26.4", "v1.26.4"),
    "3f2a9c8ed01b4c5d6e7f8091a2b3c4d5e6f70819": ("3f2a9c8", "3F2A9C8", "3f2a9c8ed01b"),
    "3f2a9ed": ("3f2a9ed01b4c5d6e7f8091a2b3c4d5e6f70819aa",),
    "1234567a9c8ed01b": ("1234567",),
    "https://www.acme.io/a/b-c.html": ("acme.io/a/b-c.html", "/a/b-c.html", "http://acme.io/a/b-c.html", "acme.io"),
    "see `a/b/c.py`.": ("a/b/c.py", "b/c.py", "c.py", "py"),
    "src/vector_memory/values.py:check_text()": ("check_text", "vector_memory", "values.py", "src/vector_memory"),
    "std::io::Error": ("std::io::error", "Error", "io"),
    "Crème brûlée": ("creme", "BRULEE"),
    "Café_Menü": ("cafe_menu", "CAFÉ"),
    "databases": ("database",),
    "東京都に行く": ("東京", "京都", "都", "行く"),
    "お寿司とラーメン": ("寿司", "ラーメン"),
    "สวัสดีชาวโลก": ("สวัสดี",),
    "한국어를 배운다": ("한국어", "국어"),
}


@pytest.mark.parametrize(
    ("text", "query"), [(text, query) for text, queries in IDENTIFIERS.items() for query in queries]
)
def test_identifiers_and_words_are_found_whole_and_in_parts(connection: apsw.Connection, text: str, query: str) -> None:
    wanted = save(connection, [f"Then {text} was there."])
    save(connection, ["Something else was said about another one."])
    assert [match.memory_id for match in find(connection, query)] == [wanted]


def test_an_identifier_as_a_whole_ranks_before_its_parts(connection: apsw.Connection) -> None:
    parts = save(connection, ["the store made a report"])
    whole = save(connection, ["about store_report it said"])
    assert [match.memory_id for match in find(connection, "store_report")] == [whole, parts]


@pytest.mark.parametrize(
    ("text", "found", "missed"),
    [
        ("an hour has 1,000 calls", ["1000", "1,000"], ["000", "10.000", "Version 10.000"]),
        ("12,345,678 rows, 12,34 or 1,0000", ["12345678"], ["123456", "1234", "10000"]),
        ("on 2026-03-14 it rained", ["March 14, 2026", "14.3.2026", "14 March", "2026/3/14"], ["14 May", "14.3.2025"]),
        ("the mails of the 14th of May", ["May 14", "14.05.2026"], ["March 14", "2026-05-15"]),
        ("ready by Feb. 3 or 31.02.2026", ["2026-02-03", "Feb 3"], ["4 Feb. 2026", "31.3.2026"]),
        ("2026-03-14T10:20:00Z", ["14. M\u00e4rz 2026"], ["14. Mai 2026"]),
    ],
)
def test_numbers_and_days_are_found_in_any_notation(text: str, found: list[str], missed: list[str]) -> None:
    of_text = set(terms(text))
    assert [query for query in found if not of_text & set(query_terms(query))] == []
    assert [query for query in missed if of_text & set(query_terms(query)) - {"version"}] == []


@pytest.mark.parametrize("inside", ["store_report", "#42", "v1.2.3", "a/b/c.py", "std::io"])
def test_an_identifier_is_a_term_as_it_stands(inside: str) -> None:
    assert inside in query_terms(f"what is {inside}?")


def test_identifiers_inside_an_identifier_are_also_terms() -> None:
    assert {"a/b/c.py", "c.py"} <= set(terms("a/b/c.py"))
    assert {"src/values.py:check_text", "values.py", "check_text"} <= set(terms("src/values.py:check_text"))


def test_only_hashes_are_known_by_their_beginning() -> None:
    """A word, a number and a longer name that only contains such characters are not hashes."""
    for text in ("defaced", "12345678", "decade_12345", "3f2a9c", "3f2a9c8xyz", "f" * 70):
        assert text[:7] not in set(terms(text)) - {text}


def test_a_query_that_is_only_a_number_may_be_the_beginning_of_a_hash() -> None:
    assert query_terms(" 24380474 ") == ["24380474", "2438047"]
    assert query_terms("2438047") == ["2438047"]
    assert query_terms("call 24380474") == ["call", "24380474"]


def test_a_short_hash_has_no_stem_in_a_query() -> None:
    assert query_terms("fixed in 3f2a9ed") == ["fix", "3f2a9ed"]


def test_terms_that_name_the_same_count_once_in_what_a_unit_covers() -> None:
    shares = np.array([0.5, 0.1])
    first, none = np.array([0]), np.array([], np.int64)
    for one, other in (("3f2a9c8ed01b", "3f2a9c8"), ("v1.26.4", "1.26.4"), ("24380474", "2438047")):
        assert covered_by_best(shares, [one, other], [(5.0, none), (4.0, first)]) == 1
        assert covered_by_best(shares, [one, other, "word"], [(5.0, none), (4.0, first), (4.0, none)]) == 0.5
        assert covered_by_best(shares, [one, other], [(5.0, none), (5.0, none)]) == 0
    assert covered_by_best(shares, ["v1", "vault", "vaults"], [(1.0, first), (1.0, none), (2.0, none)]) == 0.25


def test_how_much_of_a_query_is_covered_does_not_depend_on_the_order_of_its_terms() -> None:
    words = [(math.sqrt(number + 2), np.zeros(1, np.int64)) for number in range(6)]
    terms = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot"]
    orders = list(permutations(range(6)))
    found = {covered_by_best(np.ones(1), [terms[n] for n in order], [words[n] for n in order]) for order in orders}
    assert found == {1.0}


def test_stop_words_are_dropped_from_queries_of_other_words_only() -> None:
    assert query_terms("What is the cause of it?") == ["caus"]
    assert query_terms("to be or not to be") == ["to", "be", "or", "not"]
    assert query_terms("?!") == []


@pytest.mark.parametrize(
    ("asked", "stored"),
    [("обработать параметры", "Обработка параметров"), ("зависимость", "без зависимостей"), ("еще", "ещё")],
)
def test_words_in_cyrillic_letters_are_found_in_their_other_forms(asked: str, stored: str) -> None:
    found = query_terms(asked)
    assert any(term in terms(stored) for term in found[-1:]), (found, terms(stored))
    assert query_terms(f"{asked} Docker") == [*found, "docker"]


HOSTILE = [
    'alpha" OR beta', "alpha AND beta", "NOT alpha", "content:alpha", "alpha*", "NEAR(alpha beta)", "^alpha", "{alpha}",
    "alpha' --", "alpha; drop table keyword_postings", "(alpha", "alpha\x00beta", "alpha - beta", "+alpha", "%alpha%",
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE)
def test_a_query_has_no_syntax(connection: apsw.Connection, query: str) -> None:
    save(connection, ["alpha"])
    save(connection, ["alphabet"])
    assert [match.memory_id for match in find(connection, query)][:1] == [find(connection, "alpha")[0].memory_id]
    assert len(find(connection, query)) == 1


@given(st.text(st.characters(exclude_characters="\0"), max_size=60))
def test_any_text_can_be_stored_and_finds_itself(opened: Database, text: str) -> None:
    with undone(opened) as connection:
        # Lone surrogates are never stored.
        content = text.encode(errors="ignore").decode()
        memory_id = save(connection, [f"- {content}"])
        save(connection, ["something else"])
        found = find(connection, content)
        assert [match.memory_id for match in found][:1] == ([memory_id] if query_terms(content) else [])
        assert set(query_terms(f"- {content}")) <= set(terms(content))


def test_deleted_memories_are_not_found_and_the_others_are(connection: apsw.Connection) -> None:
    ids = [save(connection, [f"alpha number{number}", "alpha"]) for number in range(5)]
    for memory_id in (ids[1], ids[4]):
        SqliteWriter(connection).delete(memory_id)
    assert {match.memory_id for match in find(connection, "alpha")} == {ids[0], ids[2], ids[3]}
    assert find(connection, "number4") == []
    for memory_id in (ids[0], ids[2], ids[3]):
        SqliteWriter(connection).delete(memory_id)
    for table in ("keyword_blocks", "keyword_memories", "keyword_postings"):
        assert fetch_value(connection, f"select count(*) from {table}") == 0


def test_no_memory_can_be_deleted_while_it_is_in_the_index(connection: apsw.Connection) -> None:
    memory_id = save(connection, ["alpha"], PROMPT)
    with pytest.raises(apsw.ConstraintError):
        connection.execute("delete from session_memories where id = ?", (memory_id,))


def test_no_word_of_a_text_is_in_the_index(connection: apsw.Connection) -> None:
    save(connection, ["zanzibar zanzibar zanzibar"])
    rows = [*connection.execute("select * from keyword_blocks"), *connection.execute("select * from keyword_postings")]
    assert rows
    assert not any(b"zanzi" in value for row in rows for value in row if isinstance(value, bytes))


def test_texts_are_cut_into_terms_by_several_threads_at_once() -> None:
    text = "Some words of store_report, and of others. " * 50
    wanted = terms(text)
    found: list[list[str]] = []
    in_threads(lambda _: found.extend(terms(text) for _ in range(50)))
    assert found == [wanted] * 200


def test_words_are_stemmed_by_several_threads_at_once() -> None:
    words = ["".join(letters) + "иями" for letters in product("бвгджзклмн", "аеиоу", "бвгджзклмн", repeat=1)]
    found: dict[str, list[str]] = {}
    in_threads(lambda number: found.update((word, terms(word)) for word in words[number::4]))
    assert found == {word: [stemmer("russian").stemWord(word)] for word in words}


def in_threads(work: Callable[[int], object]) -> None:
    at_once(*(partial(work, number) for number in range(4)))
