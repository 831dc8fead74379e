"""Where the model's files are looked for, and that no others are accepted."""

import os
import shutil
import sys
from importlib.machinery import PathFinder
from importlib.metadata import requires
from pathlib import Path

import numpy as np
import pytest

from vector_memory.embedding import weights as module
from vector_memory.embedding.known import MINILM
from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.embedding.weights import find_weights, hub_cache
from vector_memory.errors import EmbeddingUnavailableError

OURS = "vector_memory_model"
REPOSITORY = "models--sentence-transformers--all-MiniLM-L6-v2"


def put(source: Path, target: Path) -> None:
    """Make `target` a file with the content of `source`: a hard link where that is possible, it is 90 MB."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


@pytest.fixture(autouse=True)
def _no_cache_but_this(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def snapshots(tmp_path):
    return tmp_path / "hub" / REPOSITORY / "snapshots"


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setattr(module, "PACKAGES", {})


def pretend(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in MINILM.sha256:
        (folder / name).write_text("{}")
    return folder


def test_our_package_of_weights_is_installed_with_the_server():
    assert find_weights(None).folder.parent.name == OURS
    assert requires("vector-memory-model") is None, "no torch"


@pytest.mark.parametrize("present", [list(module.PACKAGES), list(module.PACKAGES)[1:]], ids=["both", "the other"])
def test_the_first_package_of_weights_is_found_without_importing_any(monkeypatch, tmp_path, present):
    for package in present:
        pretend(tmp_path / package / module.PACKAGES[package])
        (tmp_path / package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    for package in module.PACKAGES:
        monkeypatch.delitem(sys.modules, package, raising=False)
    assert find_weights(None).folder == tmp_path / present[0] / module.PACKAGES[present[0]]


def test_the_cache_comes_before_the_package_and_a_configured_folder_before_both(tmp_path, snapshots):
    cached, configured = pretend(snapshots / "abc"), pretend(tmp_path / "mine")
    assert find_weights(None).folder == cached
    assert find_weights(configured).folder == configured


def test_of_several_cached_revisions_the_pinned_one_comes_first_then_main(snapshots):
    pretend(snapshots / "aaa")
    main = pretend(snapshots / "bbb")
    (snapshots.parent / "refs").mkdir()
    (snapshots.parent / "refs" / "main").write_text("bbb\n")
    assert find_weights(None).folder == main
    pinned = pretend(snapshots / MINILM.revision)
    assert find_weights(None).folder == pinned


def test_a_cached_revision_without_all_files_is_passed_over(snapshots):
    (pretend(snapshots / "abc") / "tokenizer.json").unlink()
    assert find_weights(None).folder.parent.name == OURS


@pytest.mark.parametrize(
    ("variable", "value", "where"),
    [
        ("HF_HUB_CACHE", "/a", "/a"),
        ("HUGGINGFACE_HUB_CACHE", "/a", "/a"),
        ("HF_HOME", "/a", "/a/hub"),
        ("XDG_CACHE_HOME", "/a", "/a/huggingface/hub"),
        ("HF_HOME", "$SOME_PLACE/b", "/a/b/hub"),
    ],
)
def test_the_cache_is_where_the_hub_client_has_it(monkeypatch, variable, value, where):
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert hub_cache() == Path.home() / ".cache" / "huggingface" / "hub"
    monkeypatch.setenv("SOME_PLACE", "/a")
    monkeypatch.setenv(variable, value)
    assert hub_cache() == Path(where)


@pytest.mark.usefixtures("no_package")
def test_without_any_model_the_error_says_how_to_get_one():
    with pytest.raises(
        EmbeddingUnavailableError, match=r"vector-memory fetch-model.*VECTOR_MEMORY_EMBEDDING_MODEL_PATH"
    ):
        find_weights(None)


def test_a_configured_folder_without_the_model_is_an_error_that_names_it(tmp_path):
    with pytest.raises(EmbeddingUnavailableError) as caught:
        find_weights(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "VECTOR_MEMORY_EMBEDDING_MODEL_PATH" in str(caught.value)


@pytest.mark.parametrize("name", MINILM.sha256)
def test_a_file_that_differs_from_the_official_one_is_refused(weights, tmp_path, name):
    for each in MINILM.sha256:
        put(weights.file(each), tmp_path / each)
    wrong = bytearray((tmp_path / name).read_bytes())
    wrong[-1] ^= 1
    (tmp_path / name).unlink()  # not to write through the hard link
    (tmp_path / name).write_bytes(wrong)
    with pytest.raises(
        EmbeddingUnavailableError, match=rf"{name} in VECTOR_MEMORY_EMBEDDING_MODEL_PATH .* not the official file"
    ):
        OnnxEngine(find_weights(tmp_path))


def test_the_refusal_of_a_cached_file_says_what_to_do_and_shows_no_path(snapshots, tmp_path):
    pretend(snapshots / "abc")
    with pytest.raises(EmbeddingUnavailableError, match="vector-memory fetch-model") as caught:
        OnnxEngine(find_weights(None))
    assert str(tmp_path) not in str(caught.value)


def test_a_cache_made_of_symlinks_to_blobs_is_used(weights, engine, snapshots):
    blobs = snapshots.parent / "blobs"
    (snapshots / "abc").mkdir(parents=True)
    for name, digest in MINILM.sha256.items():
        put(weights.file(name), blobs / digest)
        (snapshots / "abc" / name).symlink_to(Path("../../blobs") / digest)
    cached = OnnxEngine(find_weights(None))
    assert np.array_equal(cached.embed(["lease"]), engine.embed(["lease"]))


def test_a_weights_file_of_any_name_that_a_link_leads_to_is_used(weights, engine, tmp_path):
    target = tmp_path / ("w" * 100 + " é")
    put(weights.file("model.safetensors"), target)
    put(weights.file("tokenizer.json"), tmp_path / "model" / "tokenizer.json")
    (tmp_path / "model" / "model.safetensors").symlink_to(target)
    linked = OnnxEngine(find_weights(tmp_path / "model"))
    assert np.array_equal(linked.embed(["lease"]), engine.embed(["lease"]))
