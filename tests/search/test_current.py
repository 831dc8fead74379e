"""A question about a state has first what is so now, but nothing that asks, plans, denies or is about another thing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from paging import pages
from vector_memory.domain import Page, Scope
from vector_memory.search.gate import answers_instead, asks_for_state, leaves_open, replaces
from vector_memory.store import SessionMemoryStore
from vector_memory.writing.links import is_other_thing, is_settled

SCOPE = Scope("working_memory")
OLD = "The cart service listens on port 8081. The cart service and its port are in the chart."
NEWER = {
    "moved": "The cart service listens on port 9081 since the move.",
    "asks": "Should the cart service listen on port 9081?",
    "plans": "It is planned that the cart service listens on port 9081.",
    "denies": "The cart service listens on port 9081: that is a rumour.",
    "other": "The mail service listens on port 8083. The mail service and its port are in the chart.",
}


def stored(folder: Path, *texts: str) -> SessionMemoryStore:
    store = SessionMemoryStore(folder / "memory.db")
    for number, text in enumerate((OLD, *texts)):
        store.store_memory("working_memory", text, session_id=f"s{number}", agent_id=f"a{number}")
    return store


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionMemoryStore]:
    with stored(tmp_path_factory.mktemp("moved"), NEWER["moved"]) as store:
        yield store


def ids(store: SessionMemoryStore, question: str) -> list[int]:
    return [result.memory_id for result in store.search_chunks(question, SCOPE).results]


@pytest.mark.parametrize("grain", ["search_chunks", "search_sections", "search_documents"])
def test_what_is_so_now_leads_and_the_earlier_one_follows_and_names_it(moved: SessionMemoryStore, grain: str) -> None:
    results = getattr(moved, grain)("On which port does the cart service listen?", SCOPE).results
    assert [result.memory_id for result in results] == [2, 1]
    assert [one.id for one in results[1].later] == [2]


def test_a_question_about_the_past_moves_nothing(moved: SessionMemoryStore) -> None:
    assert ids(moved, "On which port was the cart service listening before?")[0] == 1


def test_pages_with_what_is_so_now_first_have_every_result_once(moved: SessionMemoryStore) -> None:
    question = "On which port does the cart service listen?"
    seen = pages(lambda offset: moved.search_chunks(question, SCOPE, Page(limit=1, offset=offset)))
    assert [result.memory_id for answer in seen for result in answer.results] == [2, 1]


@pytest.mark.parametrize("newer", ["asks", "plans", "denies", "other"])
def test_what_does_not_say_what_is_so_is_not_named_and_stays_behind(tmp_path: Path, newer: str) -> None:
    with stored(tmp_path, NEWER[newer]) as store:
        results = store.search_chunks("In which chart are the cart service and its port?", SCOPE).results
    assert results[0].memory_id == 1
    assert results[0].later == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Who owns the parser?", True),
        ("how many shards does the index have", True),
        ("Which version is in use now?", True),
        ("Who decides on changes to the parser?", True),
        ("Who owned the parser before?", False),
        ("Where was the log kept?", False),
        ("Why is the parser slow?", False),
        ("What is due on March 14?", False),
        ("parser owner", False),
    ],
)
def test_a_question_for_a_state_is_in_the_present(query: str, expected: bool) -> None:
    assert asks_for_state(query) is expected


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        ("The cart service listens on 8081.", "The mail service listens on 8083.", True),
        ("Import, step 1: parser done.", "Import, step 2: parser tested.", True),
        ("Error 4012 of the shop means a lock.", "Error 4021 of the shop means a leak.", True),
        ("SHOP-201 waits for the team of Ann.", "SHOP-210 waits for the team of Bob.", True),
        ("The cart service listens on 8081.", "The cart service listens on 9081.", False),
        (
            "The shop runs Postgres 13.11 with two extensions.",
            "The shop runs Postgres 16.4 with two extensions.",
            False,
        ),
        ("Images come from the CDN Fastly with a TTL.", "Images come from the CDN Bunny with a TTL.", False),
        ("Tokens live two hours in the cache.", "Tokens live ten hours in the cache.", False),
    ],
)
def test_another_name_in_the_same_sentence_is_another_thing(older: str, newer: str, expected: bool) -> None:
    assert is_other_thing(older, newer) is expected


def test_a_text_that_mostly_says_what_is_so_is_settled() -> None:
    assert is_settled("Moved to S3. It took a day. Should we tell the team? The bucket is `shop`. All tests pass.")
    assert not is_settled("Moved to S3? Or should we wait?")


def test_a_newer_text_says_instead_what_has_the_words_of_the_question_that_the_older_one_has() -> None:
    assert answers_instead("Where are sessions stored?", "Sessions are in Redis.", "The sessions moved to Postgres.")
    assert not answers_instead("Where are sessions stored?", "Sessions are in Redis.", "Carts are in Postgres.")
    assert not answers_instead("Who has #42?", "Ann has #42.", "Bob has #24.")


@pytest.mark.parametrize(
    "newer",
    [
        "Prices in the cart were not set to 300 seconds. The change was closed.",
        'A mail reads "prices in the cart live 300 seconds". It is about another shop.',
        "Pricing wants 300 seconds for prices in the cart. Sales has to agree.",
        "Prices in the cart have their currency in a column. The table has 300 rows.",
    ],
)
def test_a_text_whose_nearest_sentence_denies_quotes_wishes_or_has_no_number_replaces_none(newer: str) -> None:
    older, query = "Prices in the cart live 60 seconds.", "How are prices cached in the cart?"
    assert not replaces(query, older, newer)
    assert replaces(query, older, "Prices in the cart live 300 seconds, not 60. The cache was not to blame.")
    assert replaces(query, older, "Prices in the cart do not live 60 seconds any more, but 300.")


def test_a_text_that_only_asks_what_the_question_asks_is_open() -> None:
    query = "Which cart wins when a guest signs in?"
    assert leaves_open(query, "Open question: which cart should win when a guest signs in?")
    assert not leaves_open(query, "When a guest signs in, the cart of the account wins. Should we tell them?")
    assert not leaves_open(query, "Should the cart be blue?")


def test_what_says_what_is_so_comes_before_a_text_that_asks_the_same(tmp_path: Path) -> None:
    says = "When a guest signs in, the cart of the account wins and guest lines are added."
    asks = "Open question: which cart should win when a guest signs in and both have the same article?"
    with stored(tmp_path, says, asks) as store:
        assert ids(store, "Which cart wins when a guest signs in?")[:2] == [2, 3]
        assert ids(store, "Which cart won before when a guest signed in?")[:2] == [3, 2]
