"""The states of tokens that are kept: complete after `reembed`, gone with their memory, and harmless if damaged."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from engines import execute
from inside import storage_of
from lattice import DIMENSIONS
from memory_files import bytes_of, change, said
from search.test_late_interaction import WithStates, opened, place
from vector_memory.domain import Fingerprint, MemoryKind, Page, Scope
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.embedder import Encoded
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore
from vector_memory.upkeep.doctor import Doctor
from vector_memory.upkeep.doctor.report import Report

__all__ = ["place"]

REPORTS = Scope(MemoryKind.REPORT, session_id="s")
MEMORIES = 4
SETTINGS = Settings(embedding_model="toy", embedding_dim=DIMENSIONS)


class OtherModel(WithStates):
    """Another model of the same length."""

    fingerprint = Fingerprint("other", DIMENSIONS, "exact", "test")


class Interrupted(OtherModel):
    """An embedder whose user stops the command at its second call."""

    calls = 0

    def encode(self, texts: Sequence[str]) -> Encoded:
        self.calls += 1
        if self.calls == 2:
            raise KeyboardInterrupt
        return super().encode(texts)


def fill(store: SessionMemoryStore) -> None:
    for number in range(MEMORIES):
        store.store_memory("report", f"{number} a b c d e f g", session_id="s")


def found(store: SessionMemoryStore) -> int:
    return len(store.search_chunks("a b", REPORTS, Page(limit=MEMORIES)).results)


def are_missing(store: SessionMemoryStore) -> bool:
    with storage_of(store).read() as reader:
        return bool(reader.upkeep.change.without_states())


def doctor(path: Path, settings: Settings = SETTINGS) -> Doctor:
    return Doctor(path, settings, EmbeddingModel(WithStates))


def repaired(path: Path) -> Report:
    report = doctor(path).examine(deep=True)
    assert report.fixable()
    return doctor(path).repair_all(report)[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with opened(tmp_path / "memory.db") as store:
        fill(store)
    return tmp_path / "memory.db"


def test_a_reembed_begun_without_states_and_repeated_with_them_adds_all(place: Path | str) -> None:
    with opened(place, late_interaction=False) as store:
        fill(store)
    with opened(place, Interrupted(), late_interaction=False) as store, pytest.raises(KeyboardInterrupt):
        store.reembed()
    with opened(place, OtherModel()) as store:
        store.reembed()
        assert not are_missing(store)


@pytest.mark.parametrize("states", ["x''", "x'00'", "x'000000'"])
def test_damaged_states_do_not_break_a_search(path: Path, states: str) -> None:
    change(path, f"update token_states set states = {states} where passage_id = 1")
    with opened(path) as store:
        assert found(store) == MEMORIES


def test_states_that_one_bit_has_made_a_text_do_not_break_a_search(path: Path) -> None:
    with opened(path) as store, storage_of(store).read() as reader:
        states = reader.vectors.token_states(MemoryKind.REPORT, [1])[1][0]
    blob, text = (bytes([3, 0, 12 + 2 * len(states) + is_text]) + states for is_text in (False, True))
    assert blob in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(blob, text))
    with opened(path) as store:
        assert found(store) == MEMORIES


def test_the_doctor_removes_damaged_states_and_reembed_adds_them_again(path: Path) -> None:
    change(path, "update token_states set states = x'00' where passage_id = 1")
    assert repaired(path).healthy
    with opened(path) as store:
        store.reembed()
        assert not are_missing(store)


def test_reembed_replaces_states_that_were_cut_in_postgresql(place: Path | str) -> None:
    if isinstance(place, Path):
        pytest.skip("the doctor removes them")
    with opened(place) as store:
        fill(store)
        execute(store, r"update memory_passages set states = '\x00' where id = 1")
        assert found(store) == MEMORIES
        assert are_missing(store)
        store.reembed()
        assert not are_missing(store)


def test_the_doctor_tells_of_missing_states_only_if_they_are_wanted(path: Path) -> None:
    change(path, "delete from token_states")
    without = SETTINGS.model_copy(update={"late_interaction": False})
    assert "reembed" in said(doctor(path).examine(deep=True), "fingerprint")
    assert "reembed" not in said(doctor(path, without).examine(deep=True), "fingerprint")


def test_kinds_with_and_without_states_are_compared_with_each_other_without_them(place: Path | str) -> None:
    def changes(store: SessionMemoryStore) -> list[tuple[int, float | None]]:
        results = store.search_changes(Scope(session_id="s"), query="a b c", page=Page(limit=9)).results
        return [(one.id, one.score) for one in results]

    with opened(place, late_interaction=False) as store:
        store.store_memory("system_memory", "a b c x", session_id="s")
    with opened(place) as store:
        fill(store)
        found = changes(store)
    with opened(place, late_interaction=False) as store:
        assert found == changes(store)


def test_the_states_of_a_deleted_memory_are_overwritten(path: Path) -> None:
    marker = sha256(b"states").digest()
    change(path, f"update token_states set states = x'{marker.hex()}' where passage_id = 1")
    assert any(marker in data for data in bytes_of(path.parent).values())
    with opened(path) as store:
        store.delete_memory(1)
    assert not any(marker in data for data in bytes_of(path.parent).values())
