"""A misspelt word that the searched memories do not have is read as the nearest that they have, and that is said."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from fastmcp import Client

from vector_memory.domain import Page, Scope, SearchMode
from vector_memory.search.question import plain_words
from vector_memory.server.app import create_server
from vector_memory.settings import Answers, ServerOptions
from vector_memory.storage.spelling import one_letter_off
from vector_memory.store import SessionMemoryStore

TEXTS = (
    "An error occurred when the gateway restarted.",
    "Errors are retried, and an error is logged.",
    "We receive messages from the queue.",
    "Two separate locks are held by the backup.",
)
HERE = Scope("working_memory", session_id="s")
SAID = "No 'eror'; searched 'error'."


@pytest.fixture
def filled(store: SessionMemoryStore) -> SessionMemoryStore:
    for text in TEXTS:
        store.store_memory("working_memory", text, session_id="s", agent_id="a")
    store.store_memory("working_memory", "The eror was in an emperor's mirror.", session_id="t", agent_id="a")
    return store


def asked(store: SessionMemoryStore, query: str, scope: Scope = HERE) -> tuple[list[str], str]:
    answer = store.search_chunks(query, scope, Page(limit=9), mode=SearchMode.KEYWORD)
    return [chunk.chunk_content for chunk in answer.results], answer.message or ""


@pytest.mark.parametrize(
    ("typed", "word", "place"),
    [("eror", "error", 0), ("recieve", "receive", 2), ("gatway", "gateway", 0), ("Seperate", "separate", 3),
     ("qeue", "queue", 2), ("backkup", "backup", 3), ("occutred", "occurred", 0), ("mesaages", "messages", 2),
     ("sepatate", "separate", 3), ("reztarted", "restarted", 0)],
)  # fmt: skip
def test_a_misspelt_word_finds_what_the_right_one_finds(
    filled: SessionMemoryStore, typed: str, word: str, place: int
) -> None:
    found, said = asked(filled, typed)
    assert TEXTS[place] in found
    assert found == asked(filled, word)[0]
    assert f"No '{typed}'; searched '{word}'." in said


def test_it_ranks_as_the_right_word_would(filled: SessionMemoryStore) -> None:
    assert asked(filled, "eror of the gateway")[0] == asked(filled, "error of the gateway")[0]


def test_its_meaning_is_compared_as_that_of_the_right_word(filled: SessionMemoryStore) -> None:
    def similarities(query: str) -> list[tuple[str, float | None]]:
        answer = filled.search_chunks(query, HERE, Page(limit=9), mode=SearchMode.HYBRID)
        return [(chunk.chunk_content, chunk.similarity) for chunk in answer.results]

    assert similarities("eror of the gateway") == similarities("error of the gateway")
    assert similarities("separate nowhere") != similarities("separate")


def test_long_names_and_possessives_are_read_as_others_too(filled: SessionMemoryStore) -> None:
    filled.store_memory("working_memory", "Caroline met Joan.", session_id="s", agent_id="a")
    assert "searched 'caroline'" in asked(filled, "did Carloine meet Jaon")[1]
    assert "Jaon" not in asked(filled, "did Carloine meet Jaon")[1]
    assert "searched 'gateway'" in asked(filled, "the gatway's state")[1]


def test_no_word_is_read_as_one_with_the_stem_of_a_stop_word(filled: SessionMemoryStore) -> None:
    filled.store_memory("working_memory", "So it is.", session_id="s", agent_id="a")
    assert "searched" not in asked(filled, "shoing")[1]


def test_a_word_that_the_scope_has_is_searched_as_it_is(filled: SessionMemoryStore) -> None:
    found, said = asked(filled, "eror", Scope("working_memory", session_id="t"))
    assert len(found) == 1
    assert "searched" not in said
    assert "searched" not in asked(filled, "receiving")[1]


@pytest.mark.parametrize(
    "query", ["getEror", "eror_2", "eror/1.py", "e2ror", "EROR", "src/eror", "eror.log", "lok", "held-bi"]
)
def test_names_numbers_and_short_words_are_not_read_as_others(filled: SessionMemoryStore, query: str) -> None:
    assert "searched" not in asked(filled, query)[1]


@pytest.mark.parametrize(
    ("text", "query"),
    [("Banks close at noon.", "how do I bake bread"), ("We met at the stations.", "statio"), ("Errors occur.", "eror"),
     ("The error_count and ErrorPage.", "eror"), ("Die Straßen sind leer.", "strase")],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["working_memory", "session_context"])
def test_a_word_that_stands_in_no_text_is_not_searched(
    store: SessionMemoryStore, kind: str, text: str, query: str
) -> None:
    """The index has only its stem, which other words have, too."""
    store.store_memory(kind, text, session_id="s")
    said = store.search_memories(query, Scope(kind, session_id="s"), mode=SearchMode.KEYWORD).message or ""
    assert "searched" not in said


def test_a_misspelt_stop_word_is_not_read_as_another(filled: SessionMemoryStore) -> None:
    assert "their" in one_letter_off("thier")
    filled.store_memory("working_memory", "A tier of servers.", session_id="s", agent_id="a")
    assert "searched" not in asked(filled, "thier locks")[1]


def test_the_most_frequent_of_the_nearest_words_is_searched(filled: SessionMemoryStore) -> None:
    for number in range(2):
        filled.store_memory("working_memory", f"The motor {number} stands still.", session_id="u", agent_id="a")
    filled.store_memory("working_memory", "The moter is a word of nobody.", session_id="u", agent_id="a")
    assert "searched 'motor'" in asked(filled, "motr", Scope("working_memory", session_id="u"))[1]


def test_only_plain_words_are_doubted() -> None:
    assert list(plain_words("Why does `getUser` fail in a.py, is it Joan eror, please?").values()) == [
        "fail", "eror", "please",
    ]  # fmt: skip


def test_a_word_that_the_model_knows_is_not_misspelt(tmp_path: Path) -> None:
    with SessionMemoryStore(tmp_path / "real.db") as real:
        real.store_memory("working_memory", "The tradition of the hikers is an error.", session_id="s", agent_id="a")
        told = [real.search_chunks(word, HERE, Page()).message or "" for word in ("traits", "hiker", "eror")]
    assert ["searched" in one for one in told] == [False, False, True]


def test_it_is_said_of_notes_and_of_whole_documents(filled: SessionMemoryStore) -> None:
    filled.tagged.store("An error of the printer.")
    assert SAID in (filled.tagged.search("eror").message or "")
    filled.store_memory("report", "# Errors\n\nAn error of the printer.", session_id="s", agent_id="a")
    assert (filled.search_documents("eror", Scope("report"), order="relevance").message or "").count(SAID) == 1


@pytest.fixture
async def lean(filled: SessionMemoryStore) -> AsyncIterator[Client]:
    async with Client(create_server(lambda: nullcontext(filled), ServerOptions(answers=Answers.LEAN))) as client:
        yield client


@pytest.mark.anyio
async def test_lean_answers_say_it_too(lean: Client) -> None:
    answer = await lean.call_tool("search_working_memory_specific_chunks", {"query": "eror", "session_id": "s"})
    assert SAID in str(answer.structured_content)
