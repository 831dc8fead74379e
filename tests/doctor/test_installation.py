"""The installation: packages, SQLite, the extension, the model, the token counter."""

import re
from pathlib import Path

import pytest

import vector_memory.storage.sqlite.connecting
import vector_memory.texts.tokens
import vector_memory.upkeep.doctor.place
from memory_files import examine, found, said
from vector_memory.settings import Settings
from vector_memory.upkeep.doctor.report import Level


def test_a_package_that_is_missing_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_memory.upkeep.doctor.place, "PACKAGES", ("vector-memory", "no-such-package"))
    report = examine(path)
    assert found(report) == {"versions": Level.PROBLEM}
    assert "no-such-package" in said(report, "versions")


def test_an_unsafe_sqlite_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_memory.storage.sqlite.connecting, "SAFE_SQLITE", (99, 0, 0))
    assert found(examine(path)) == {"sqlite": Level.PROBLEM}


def test_an_extension_that_cannot_be_loaded_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_memory.storage.sqlite.connecting, "vector_search_library", lambda: "/nowhere/vec0")
    assert "vector-search" in found(examine(path))


def test_a_missing_model_is_a_problem(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_memory.texts.tokens, "has_cl100k", lambda: False)
    report = examine(path, Settings(embedding_model_path=tmp_path))
    assert found(report) == {"model": Level.PROBLEM, "tokens": Level.WARNING}
    assert "VECTOR_MEMORY_EMBEDDING_MODEL_PATH" in said(report, "model")


def test_weights_that_are_not_the_official_ones_are_a_problem(path: Path, tmp_path: Path) -> None:
    for name in ("model.onnx", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_bytes(b"{}")
    assert "not the official file" in said(examine(path, Settings(embedding_model_path=tmp_path)), "model")


def test_the_real_model_is_run_and_the_token_counter_is_reported(tmp_path: Path) -> None:
    report = examine(tmp_path / "memory.db", Settings())
    assert "computes vectors of 384 numbers. Its files match the official ones." in said(report, "model")
    assert re.search("cl100k_base|word pieces", said(report, "tokens"))
