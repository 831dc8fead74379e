"""Where the model's files are looked for, and that no others are accepted."""

import os
import shutil
import sys
from dataclasses import replace
from hashlib import sha256
from importlib.machinery import PathFinder
from importlib.metadata import requires
from pathlib import Path

import numpy as np
import pytest

from tiny_models import WORDS, Tiny, looked_up
from vector_memory.embedding import model_folder
from vector_memory.embedding.known import E5_SMALL, GTE_SMALL, MINILM
from vector_memory.embedding.model_folder import remembered_digest
from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.embedding.weights import find_weights, hub_cache
from vector_memory.errors import EmbeddingUnavailableError

PACKAGED, OF_HUB = (official.sha256 for official in MINILM.official)


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
    return tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2" / "snapshots"


ELSEWHERE = replace(MINILM, package="no_such_package")


def pretend(folder: Path, names=OF_HUB) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    return folder


def test_our_package_of_weights_is_installed_with_the_server():
    assert find_weights(None).folder.parent.name == MINILM.package
    assert requires("vector-memory-model") is None, "no torch"


@pytest.mark.parametrize("model", [MINILM, E5_SMALL], ids=lambda model: model.description.name)
def test_a_package_of_weights_is_found_without_importing_it(monkeypatch, tmp_path, model):
    folder = pretend(tmp_path / model.package / model.description.name, model.official[0].sha256)
    (tmp_path / model.package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    monkeypatch.delitem(sys.modules, model.package, raising=False)
    assert find_weights(None, model).folder == folder


def test_the_package_comes_before_the_cache_and_a_configured_folder_before_both(tmp_path, snapshots):
    cached, configured = pretend(snapshots / "abc"), pretend(tmp_path / "mine")
    assert find_weights(None, ELSEWHERE).folder == cached
    assert find_weights(None).folder.parent.name == MINILM.package
    assert find_weights(configured).folder == configured


def test_of_several_cached_revisions_the_pinned_one_comes_first_then_main(snapshots):
    pretend(snapshots / "aaa")
    main = pretend(snapshots / "bbb")
    (snapshots.parent / "refs").mkdir()
    (snapshots.parent / "refs" / "main").write_text("bbb\n")
    assert find_weights(None, ELSEWHERE).folder == main
    pinned = pretend(snapshots / MINILM.revision)
    assert find_weights(None, ELSEWHERE).folder == pinned


@pytest.mark.parametrize("files", [PACKAGED, OF_HUB], ids=["as in the package", "as in the hub"])
def test_a_folder_without_all_files_is_passed_over(snapshots, files):
    for name in files:
        (pretend(snapshots / "abc", files) / name).unlink()
        with pytest.raises(EmbeddingUnavailableError, match="is not on this machine"):
            find_weights(None, ELSEWHERE)
    folder = pretend(snapshots / "abc", files)
    assert find_weights(None, ELSEWHERE).folder == folder


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


def test_without_any_model_the_error_says_how_to_get_one():
    with pytest.raises(
        EmbeddingUnavailableError, match=r"vector-memory fetch-model.*VECTOR_MEMORY_EMBEDDING_MODEL_PATH"
    ):
        find_weights(None, ELSEWHERE)


def test_a_configured_folder_without_the_model_is_an_error_that_names_it(tmp_path):
    with pytest.raises(EmbeddingUnavailableError) as caught:
        find_weights(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "VECTOR_MEMORY_EMBEDDING_MODEL_PATH" in str(caught.value)


@pytest.mark.parametrize("name", PACKAGED)
def test_a_file_that_differs_from_the_official_one_is_refused(weights, tmp_path, name):
    for each in PACKAGED:
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
        OnnxEngine(find_weights(None, ELSEWHERE))
    assert str(tmp_path) not in str(caught.value)


def test_a_folder_of_links_into_another_is_used(weights, engine, tmp_path):
    """As an installer with links makes it."""
    for name in PACKAGED:
        put(weights.file(name), tmp_path / "cache" / name)
        (tmp_path / name).symlink_to(tmp_path / "cache" / name)
    assert np.array_equal(OnnxEngine(find_weights(tmp_path)).embed(["lease"]), engine.embed(["lease"]))


def test_a_cache_made_of_links_to_blobs_is_used(tmp_path):
    """The file of the hub has its weights in it, and is a link to a blob of another name."""
    snapshot = tmp_path / "hub" / "models--thenlper--gte-small" / "snapshots" / "abc"
    blobs = snapshot.parents[1] / "blobs"
    for folder in (blobs, snapshot / "onnx"):
        folder.mkdir(parents=True)
    Tiny(blobs)
    table = np.random.default_rng(1).normal(0, 1, (len(WORDS), 8)).astype(np.float32)
    (blobs / "53aa").write_bytes(looked_up(table))
    (snapshot / "onnx" / "model.onnx").symlink_to(Path("../../../blobs/53aa"))
    (snapshot / "tokenizer.json").symlink_to(Path("../../blobs/tokenizer.json"))
    engine = OnnxEngine(find_weights(None, GTE_SMALL))
    mean = table[[WORDS.index(word) for word in ("[CLS]", "lease", "[SEP]")]].mean(axis=0)
    assert np.abs(engine.embed(["lease"])[0] - mean / np.linalg.norm(mean)).max() < 1e-6


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Files that were hashed; what is remembered of them is in a folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found: list[Path] = []
    digest_of = model_folder.digest_of
    monkeypatch.setattr(model_folder, "digest_of", lambda file: (found.append(file), digest_of(file))[1])
    return found


def written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return sha256(content).hexdigest()


def test_weights_are_hashed_once_until_they_change(hashed: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    for content in (b"weights", b"changed"):
        digest = written(file, content)
        assert [remembered_digest(file) for _ in range(3)] == [digest] * 3
    assert hashed == [file, file]


def test_a_hash_is_not_that_of_a_file_overwritten_with_the_same_size_and_time(
    hashed: list[Path], tmp_path: Path
) -> None:
    file = tmp_path / "model.onnx"
    written(file, b"weights")
    remembered_digest(file)
    before = file.stat()
    digest = written(file, b"changed")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # as `cp -p`, `tar -x` and `rsync --inplace -t` do
    assert remembered_digest(file) == digest
    assert hashed == [file, file]


@pytest.mark.parametrize("damage", [b"", b"\xff", b"a b", b"0" * 64])
def test_what_is_damaged_of_a_remembered_hash_is_computed_again(
    hashed: list[Path], tmp_path: Path, damage: bytes
) -> None:
    file = tmp_path / "model.onnx"
    digest = written(file, b"weights")
    remembered_digest(file)
    [kept] = (tmp_path / "state").rglob("digests/*")
    kept.write_bytes(kept.read_bytes().replace(digest.encode(), damage[:64]))
    assert [remembered_digest(file) for _ in range(2)] == [digest] * 2
    assert hashed == [file, file]


def test_a_hash_that_cannot_be_remembered_is_computed_each_time(hashed: list[Path], tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    file = tmp_path / "model.onnx"
    digest = written(file, b"weights")
    assert [remembered_digest(file) for _ in range(2)] == [digest] * 2
    assert hashed == [file, file]
