"""Changing the model: all vectors are recomputed beside the old ones, which stay until all memories have new ones."""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from faults.effort import effort
from faults.processes import started, told
from faults.soundness import connected, faults_of
from forked import finished
from lattice import DIMENSIONS, LatticeEmbedder
from memory_files import SETTINGS, bytes_of, create_file, examine, found, said
from servers import MAIN, QUICK, SLOW_MODEL, Server, wait_for
from vector_memory.embedding.embedder import Embedder, Vectors
from vector_memory.embedding.toy_engine import ToyEngine
from vector_memory.errors import DatabaseError, EmbeddingUnavailableError
from vector_memory.settings import Settings
from vector_memory.storage.sqlite import migrations
from vector_memory.storage.sqlite.migrations import Schema
from vector_memory.storage.sqlite.schema import tables_of
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep import backfill
from vector_memory.upkeep.backfill import Backfill
from vector_memory.upkeep.backup import back_up
from vector_memory.upkeep.doctor.report import Level

DOCUMENT = "# Title\n\n" + "\n\n".join(f"## Part {number}\n\n" + f"naïve{number} 数据 " * 15 for number in range(3))
MEMORIES = 8
OLD = LatticeEmbedder()
NEW = ToyEngine(2)
OTHER = ToyEngine(3)


def opened(path: Path, embedder: Embedder) -> SessionMemoryStore:
    settings = Settings(
        embedding_model="toy",
        embedding_dim=embedder.fingerprint.dimensions,
        default_chunk_size=32,
        default_chunk_overlap=8,
    )
    return SessionMemoryStore(path, settings, embedder=embedder)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the old model: reports with chunks, prompts without."""
    path = tmp_path_factory.mktemp("template") / "memory.db"
    with opened(path, OLD) as store:
        for number in range(MEMORIES):
            store.store_memory(
                ("report", "input_prompt")[number % 2], f"{DOCUMENT} memory{number}", session_id=f"s{number % 3}"
            )
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(template, tmp_path / "memory.db"))


class Watched(ToyEngine):
    """An engine that calls `meanwhile` with the number of each of its calls, before it answers."""

    def __init__(self, dimensions: int, meanwhile: Callable[[int], object]) -> None:
        super().__init__(dimensions)
        self.calls = 0
        self._meanwhile = meanwhile

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls += 1
        self._meanwhile(self.calls)
        return super().embed(texts)


def reembed(path: Path, embedder: Embedder) -> str:
    with opened(path, embedder) as store:
        return store.reembed().message


def interrupt_at(path: Path, call: int, dimensions: int = 2) -> None:
    """Let a run be interrupted while it embeds memory number `call`."""

    def interrupt(number: int) -> None:
        if number == call:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reembed(path, Watched(dimensions, interrupt))


def count(path: Path, query: str) -> int:
    with connected(path) as connection:
        return int(connection.execute(f"select count(*) from {query}").fetchall()[0][0])


def models(path: Path) -> int:
    """Return how many models have vectors in a file."""
    return count(path, "embedding_models")


def stored_vectors(path: Path) -> set[bytes]:
    """Return the vectors of the current model."""
    with connected(path) as connection:
        [[model_id]] = connection.execute("select id from embedding_models where is_current").fetchall()
        return {
            bytes(vector)
            for table in tables_of(model_id)[:2]
            for (vector,) in connection.execute(f"select embedding from {table}")
        }


def complete(path: Path) -> int:
    """Return how many memories have all vectors of the current model."""
    current = "(select id from embedding_models where is_current)"
    return count(path, f"session_memories where embedding_model_id = {current}")


def let_lapse(path: Path) -> None:
    """Let the lease of a process that was killed lapse."""
    with connected(path) as connection:
        connection.execute("update upkeep set leased_until = 0")


def found_in(folder: Path, vectors: set[bytes]) -> list[str]:
    """Return the names of the files that hold one of the vectors, or a copy that was not overwritten."""
    return [name for name, data in bytes_of(folder).items() if any(vector in data for vector in vectors)]


def model_of(path: Path) -> Embedder:
    """Return the engine whose vectors are stored."""
    with connected(path) as connection:
        [[dimensions]] = connection.execute("select dimensions from embedding_models where is_current").fetchall()
    return {DIMENSIONS: OLD, 2: NEW, 3: OTHER}[dimensions]


def test_afterwards_all_vectors_are_of_the_new_model_and_the_old_ones_are_gone(path: Path) -> None:
    assert f"{MEMORIES} memories, 0 remaining" in reembed(path, NEW)
    assert faults_of(path, NEW) == []
    assert models(path) == 1
    with opened(path, NEW) as store:
        memory_id = store.store_memory("report", f"{DOCUMENT} later", session_id="s0").memory_id or 0
        store.delete_memory(2)
        store.delete_memory(memory_id)
    assert faults_of(path, NEW) == []


def test_the_model_can_be_changed_again_and_again(path: Path) -> None:
    for model in (NEW, OTHER, OLD, NEW):
        reembed(path, model)
        assert faults_of(path, model) == []
        assert models(path) == 1


def test_if_there_is_nothing_to_do_it_says_so_and_changes_nothing(path: Path) -> None:
    before = bytes_of(path.parent)
    assert "nothing to do" in reembed(path, OLD)
    assert bytes_of(path.parent) == before


def test_a_file_made_for_another_length_of_vectors_can_be_used_after_it(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    create_file(path, DIMENSIONS)
    with opened(path, NEW) as store:
        assert "vector-memory reembed" in (store.store_memory("report", DOCUMENT, session_id="s").message or "")
    assert "1 memory, 0 remaining" in reembed(path, NEW)
    assert faults_of(path, NEW) == []


def test_memories_without_vectors_get_them_too(path: Path) -> None:
    with opened(path, NEW) as store:
        store.store_memory("report", f"{DOCUMENT} unindexed", session_id="s")
    assert f"{MEMORIES + 1} memories, 0 remaining" in reembed(path, NEW)
    assert faults_of(path, NEW) == []


def test_a_run_continues_where_the_previous_one_was_interrupted(path: Path) -> None:
    interrupt_at(path, 5)
    assert faults_of(path, NEW, indexed=False) == []
    assert complete(path) == 4
    engine = Watched(2, lambda _: None)
    steps: list[tuple[int, int]] = []
    with opened(path, engine) as store:
        store.reembed(lambda done, total: steps.append((done, total)))
    assert engine.calls == MEMORIES - 4
    assert steps == [(done, MEMORIES - 4) for done in range(1, MEMORIES - 3)]
    assert faults_of(path, NEW) == []


@pytest.mark.parametrize("model", [OTHER, OLD], ids=["a third model", "the model in use"])
def test_a_run_with_another_model_drops_what_was_unfinished(path: Path, model: Embedder) -> None:
    interrupt_at(path, 5)
    reembed(path, model)
    assert faults_of(path, model) == []
    assert models(path) == 1


def test_a_killed_run_leaves_an_intact_file_and_the_next_one_finishes(template: Path, tmp_path: Path) -> None:
    def killed_before(change: int) -> Path:
        path = tmp_path / str(change) / "memory.db"
        path.parent.mkdir()
        shutil.copy(template, path)
        with started("reembed", path, change) as process:
            events.append(told(process))
        return path

    events: list[list[list[object]]] = []
    killed_before(0)
    [[[_, changes]]] = events
    for change in random.sample(range(1, int(str(changes)) + 1), effort(quick=6, long=150)):
        path = killed_before(change)
        assert events[-1] == [], change
        model = model_of(path)
        assert faults_of(path, model, indexed=model is OLD) == [], change
        made = complete(path) if model is NEW else 0
        let_lapse(path)
        engine = Watched(2, lambda _: None)
        reembed(path, engine)
        assert engine.calls == MEMORIES - made, change
        assert faults_of(path, NEW) == [], change
        assert models(path) == 1, change


def test_servers_with_the_old_model_search_and_store_during_the_change_and_nothing_is_lost(tmp_path: Path) -> None:
    with Server(tmp_path, VECTOR_MEMORY_EMBEDDING_DIM="64", VECTOR_MEMORY_UNDO_HOURS="0") as server:
        path = server.hello().path

        def store(number: int) -> dict[str, Any]:
            return server.call("store_report", content=f"{DOCUMENT} word{number}", session_id="s", agent_id="a")

        for number in range(4):
            store(number)

        def work(call: int) -> None:
            """Search for an old memory, and store one; delete every other one."""
            if call <= 4:
                found = server.call("search_reports_specific_chunks", query=f"naïve word{call - 1}", limit=1)
                assert f"word{call - 1}" in found["results"][0]["chunk_content"], found
                receipt = store(100 + call)
                assert "vector-memory reembed" in receipt["message"]
                found = server.call("search_reports_specific_chunks", query=f"word{100 + call}", limit=1)
                assert f"word{100 + call}" in found["results"][0]["chunk_content"], found
                if call % 2:
                    assert server.call("delete_memory", memory_id=receipt["memory_id"])["success"]

        assert "6 memories, 0 remaining" in reembed(path, Watched(2, work))
        assert faults_of(path, NEW) == []
        assert "vector-memory reembed" in store(200)["message"]
    with Server(tmp_path, VECTOR_MEMORY_EMBEDDING_DIM="2") as server:
        found = server.hello().call("search_reports_specific_chunks", query="word1", limit=1)
        assert found["total_results"] == 1


def test_a_delete_also_removes_vectors_of_an_unfinished_run(path: Path, tmp_path: Path) -> None:
    interrupt_at(path, 5, dimensions=3)
    vectors = stored_vectors(path)
    with opened(path, OLD) as store:
        for memory_id in range(1, MEMORIES + 1):
            assert stored_vectors(path) or memory_id > 4
            store.delete_memory(memory_id)
        assert count(path, "memory_passages") == 0
        assert stored_vectors(path) == set()
        assert found_in(tmp_path, vectors) == []


def test_the_bytes_of_the_old_vectors_are_gone_afterwards(path: Path, tmp_path: Path) -> None:
    vectors = stored_vectors(path)
    assert found_in(tmp_path, vectors)
    with opened(path, NEW) as store:
        store.reembed()
        assert found_in(tmp_path, vectors) == []


def test_a_memory_that_is_deleted_while_it_is_embedded_is_skipped(path: Path) -> None:
    def delete_two(call: int) -> None:
        if call == 3:
            with opened(path, OLD) as store:
                store.delete_memory(3)
                store.delete_memory(4)

    reembed(path, Watched(2, delete_two))
    assert count(path, "session_memories") == MEMORIES - 2
    assert faults_of(path, NEW) == []


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each process take over at once."""
    monkeypatch.setattr(backfill, "LEASE_SECONDS", 0.0)


@pytest.mark.usefixtures("short_leases")
@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("other", [NEW, OTHER], ids=["the same model", "another model"])
def test_a_second_run_does_no_harm_and_ends_the_first_if_its_model_is_another(
    path: Path, other: Embedder, finished: bool
) -> None:
    def run_another(call: int) -> None:
        if call == 3 and finished:
            reembed(path, other)
        elif call == 3:
            interrupt_at(path, 3, other.fingerprint.dimensions)

    with nullcontext() if other is NEW else pytest.raises(DatabaseError, match="choose one model"):
        reembed(path, Watched(2, run_another))
    assert faults_of(path, other, indexed=finished or other is NEW) == []
    reembed(path, other)
    assert (faults_of(path, other), models(path)) == ([], 1)


@pytest.mark.usefixtures("short_leases")
def test_a_run_that_another_one_ends_at_its_last_step_does_not_say_that_the_model_failed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin_another(_: Backfill, _last_id: int) -> bool:
        interrupt_at(path, 1, dimensions=3)
        return False

    monkeypatch.setattr(Backfill, "_is_coming", begin_another)
    with pytest.raises(DatabaseError, match="choose one model"):
        reembed(path, NEW)


def test_a_run_does_not_wait_for_what_is_stored_in_the_meantime(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[int] = []

    def promise(_: object) -> None:
        """Another server has computed the vectors of the last memory, and promises those of a new one."""
        assert len(stored) < 30
        with opened(path, OLD) as store:
            stored.append(store.store_memory("input_prompt", f"Memory {len(stored)}", session_id="s").memory_id or 0)
        with connected(path) as connection:
            connection.execute("delete from pending_vectors")
            connection.execute("insert into pending_vectors values (?, 'x', unixepoch() + 50, 0, 0)", stored[-1:])

    monkeypatch.setattr(backfill.time, "sleep", promise)
    reembed(path, Watched(2, lambda call: promise(call) if call == MEMORIES else None))
    assert models(path) == 1


def test_a_file_whose_model_is_changed_while_it_is_opened_is_not_taken_for_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(models: tuple[int, ...]) -> Schema:
        monkeypatch.undo()
        reembed(path, NEW)
        return migrations.expected_schema(models)

    monkeypatch.setattr(migrations, "expected_schema", changed)
    with opened(path, OLD) as store:
        assert store.get_memory_stats().total_memories == MEMORIES
    assert models(path) == 1


def test_without_the_model_nothing_is_changed(path: Path, tmp_path: Path) -> None:
    before = bytes_of(tmp_path)
    with (
        SessionMemoryStore(path, Settings(embedding_model_path=tmp_path)) as store,
        pytest.raises(EmbeddingUnavailableError),
    ):
        store.reembed()
    assert bytes_of(tmp_path) == before


class Failing(ToyEngine):
    """An engine that fails on texts with a word."""

    def __init__(self, word: str) -> None:
        super().__init__(2)
        self._word = word

    def embed(self, texts: Sequence[str]) -> Vectors:
        if any(self._word in text for text in texts):
            raise RuntimeError(self._word)
        return super().embed(texts)


def test_a_memory_on_which_the_engine_fails_does_not_stop_the_others(path: Path) -> None:
    assert f"{MEMORIES - 1} memories, 1 remaining" in reembed(path, Failing("memory5"))
    assert faults_of(path, NEW, indexed=False) == []
    with opened(path, NEW) as store:
        assert store.backfill_embeddings().memories_processed == 1
    assert faults_of(path, NEW) == []


def test_after_an_engine_that_fails_on_most_memories_the_old_vectors_are_still_there(path: Path) -> None:
    with pytest.raises(EmbeddingUnavailableError, match=f"failed on {MEMORIES} of {MEMORIES} memories"):
        reembed(path, Failing("naïve"))
    assert "nothing to do" in reembed(path, OLD)
    assert faults_of(path, OLD) == []
    reembed(path, NEW)
    assert faults_of(path, NEW) == []


def test_a_backup_of_an_unfinished_run_can_be_finished(path: Path, tmp_path: Path) -> None:
    interrupt_at(path, 5)
    back_up(path, tmp_path / "copy.db")
    engine = Watched(2, lambda _: None)
    reembed(tmp_path / "copy.db", engine)
    assert engine.calls == MEMORIES - 4
    assert faults_of(tmp_path / "copy.db", NEW) == []


def test_the_doctor_reports_an_unfinished_run_not_as_damage_and_says_how_to_continue(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with SessionMemoryStore(path, SETTINGS) as store:
        store.store_memory("report", DOCUMENT, session_id="s")
        store.store_memory("input_prompt", DOCUMENT, session_id="s")
    interrupt_at(path, 2)
    report = examine(path)
    assert found(report) == {
        "reembedding": Level.WARNING, "unindexed": Level.WARNING, "fingerprint": Level.PROBLEM
    }  # fmt: skip
    assert "vector-memory reembed" in said(report, "reembedding")
    reembed(path, NEW)
    assert "vector-memory reembed" in said(examine(path), "fingerprint")


WORDS = ("reembed", "--embedding-dim", "2", "--database-path")


def test_the_command_says_what_it_did(path: Path) -> None:
    for said_so in (f"{MEMORIES} memories", "nothing to do"):
        assert said_so in finished(*WORDS, path, env=os.environ | QUICK).stdout
    assert faults_of(path, NEW) == []


def test_without_a_memory_the_command_creates_none(tmp_path: Path) -> None:
    ended = finished(*WORDS, tmp_path / "no.db", env=os.environ | QUICK)
    assert ended.returncode == 2
    assert "There is no memory" in ended.stderr
    assert not (tmp_path / "no.db").exists()


def test_an_interrupted_command_says_that_it_can_be_repeated(path: Path, tmp_path: Path) -> None:
    with opened(path, OLD) as store:
        store.store_memory("input_prompt", "This is embedded slowly.", session_id="s")
    slow = {"VECTOR_MEMORY_EMBEDDING_MODEL": "slow", "PYTHONPATH": str(SLOW_MODEL)}
    # A shell starts what it runs in the background with interrupts ignored, which would be inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        [sys.executable, MAIN, "reembed", "--database-path", path],
        env=os.environ | QUICK | slow,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        signal.signal(signal.SIGINT, before)
        wait_for(tmp_path / "embedding")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert "run the same command again" in errors
    assert (complete(path), models(path)) == (MEMORIES, 2)
