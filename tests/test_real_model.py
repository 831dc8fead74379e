"""The whole way with the real model: store, find by meaning, rebuild."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from inside import database_of, storage_of
from vector_memory.domain import Page, Scope
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.writing import indexer
from waiting import eventually

TOPICS = {
    "Network": "The proxy forwards each request to the region that answered fastest during the last minute.",
    "Storage": "Snapshots are written every hour and kept for a fortnight on a second volume.",
    "Billing": "Invoices are grouped by customer before the nightly export creates one file per currency.",
    "Search": "The index is rebuilt from the event log whenever a shard reports a missing segment.",
    "Login": "A session ends when its token is older than a day or was used from two countries.",
}
LAST = "The outage ended when an engineer replaced the broken cooling fan in the second rack."


def long_report() -> str:
    """Return a report of about 6,750 tokens in five long sections; its last paragraph says something no other does."""
    parts = ["# Review of the platform\n"]
    for topic, sentence in TOPICS.items():
        parts.append(f"## {topic}\n")
        parts += [f"{sentence} This was observed on day {day} and confirmed later.\n" for day in range(1, 50)]
    parts.append(LAST)
    return "\n".join(parts)


@pytest.fixture(scope="module")
def model() -> EmbeddingModel:
    return EmbeddingModel(lambda: load_embedder(Settings()))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, model: EmbeddingModel) -> Iterator[SessionMemoryStore]:
    with SessionMemoryStore(tmp_path_factory.mktemp("real") / "memory.db", model=model) as opened:
        yield opened


@pytest.fixture(scope="module")
def memory_id(store: SessionMemoryStore) -> int:
    receipt = store.store_memory("report", long_report(), session_id="review", agent_id="explorer")
    assert 15 <= (receipt.chunks_created or 0) <= 22
    return receipt.memory_id or 0


def test_the_last_sentence_of_a_long_report_is_found_by_its_meaning(store: SessionMemoryStore, memory_id: int) -> None:
    best = store.search_chunks(
        "hardware failure: overheating because a ventilator broke", Scope("report", session_id="review"), Page(limit=3)
    ).results[0]
    assert best.memory_id == memory_id
    assert LAST in best.chunk_content


def test_a_section_is_found_by_its_meaning(store: SessionMemoryStore, memory_id: int) -> None:
    scope = Scope("report", session_id="review")
    best = store.search_sections("how long are backups retained", scope, Page(limit=1)).results[0]
    assert best.memory_id == memory_id
    assert best.section_header == "# Review of the platform > ## Storage"


def test_the_report_is_rebuilt_exactly(store: SessionMemoryStore, memory_id: int) -> None:
    assert store.reconstruct_document(memory_id).content == long_report()


def test_every_word_of_the_report_is_in_a_passage(store: SessionMemoryStore, memory_id: int) -> None:
    report = long_report()
    with database_of(store).read() as connection:
        spans = connection.execute(
            "select start_char, end_char from memory_passages where memory_id = ?", (memory_id,)
        ).fetchall()
    covered = bytearray(len(report))
    for start, end in spans:
        covered[start:end] = b"\1" * (end - start)
    assert all(covered[index] or report[index].isspace() for index in range(len(report)))


def test_vectors_that_are_stored_in_batches_equal_those_that_are_computed_at_once(
    store: SessionMemoryStore, model: EmbeddingModel, memory_id: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "BATCH", 7)
    with SessionMemoryStore(tmp_path / "batches.db", model=model) as other:
        other.defer_vectors()
        other.store_memory("report", long_report(), session_id="review", agent_id="explorer")
        eventually(lambda: not other.get_memory_stats().without_vectors)
        found = []
        for one, number in ((store, memory_id), (other, 1)):
            with storage_of(one).read() as reader:
                found.append(
                    [
                        (*part[:3], part.vector.tobytes())
                        for part in reader.vectors.passages_of(reader.memories.get(number))
                    ]
                )
    assert found[0] == found[1]
    assert len(found[0]) > 7


@pytest.mark.parametrize(
    ("note", "query", "confidence"),
    [
        ("The index idx_orders_created is unused since March.", "which index is unused", "strong"),
        ("The N+1 query in OrderList took 4 s per page: the database was slow.", "slow database", "strong"),
        ("Run VACUUM after deleting a tenant: the file shrinks from 9 GB to 2 GB.", "VACUUM", "strong"),
        ("Customer Adelmann wants the export as CSV with semicolons.", "Adelmann", "strong"),
        ("The index idx_orders_created is unused since March.", "recipe for lentil soup", "related"),
        ("Customer Adelmann wants the export as CSV with semicolons.", "how do volcanoes erupt", "weak"),
    ],
)
def test_the_words_of_a_question_count_in_whether_an_answer_is_called_a_close_match(
    store: SessionMemoryStore, note: str, query: str, confidence: str
) -> None:
    session = f"{query} {confidence}"
    store.store_memory("working_memory", note, session_id=session, agent_id="explorer")
    answer = store.search_chunks(query, Scope("working_memory", session_id=session), Page(limit=1))
    assert answer.confidence == confidence


def test_a_name_is_found_among_other_words_before_texts_that_resemble_it(store: SessionMemoryStore) -> None:
    """The vectors of these are nearer: the model cuts a name into pieces."""
    names = {"Network": "MARKET_TICKET_70", "Storage": "ticket_folder99.rs"}
    texts = [f"{TOPICS[topic]} {TOPICS['Login']} It failed with {name}, as before." for topic, name in names.items()]
    texts += ["acme.session.ticket_market", "Look at src/index/ticket_config10.rs."]
    for text in texts:
        store.store_memory("working_memory", text, session_id="names")
    for name in names.values():
        found = store.search_memories(name, Scope("working_memory", session_id="names")).results
        assert name in found[0].content
        assert max(memory.similarity or 0 for memory in found) > (found[0].similarity or 1)
