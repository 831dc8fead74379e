"""Folders with models: which are used, what is refused, and that a folder is data."""

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder import Encoder

from tiny_models import HEADS, WORDS, Tiny, forward, looked_up
from vector_memory.embedding import load_embedder
from vector_memory.embedding.known import ARCTIC_S, ARCTIC_XS, BGE_SMALL, GTE_SMALL, KNOWN, MINILM, KnownModel, by_name
from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.embedding.weights import described, find_model, find_weights
from vector_memory.errors import EmbeddingUnavailableError
from vector_memory.settings import Settings


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path)


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def test_a_folder_is_used_by_its_path_or_beside_a_name_of_its_own(tiny: Tiny) -> None:
    by_path = load_embedder(Settings(embedding_model=str(tiny.folder), embedding_dim=64))
    by_name = load_embedder(Settings(embedding_model="mine", embedding_model_path=tiny.folder, embedding_dim=64))
    assert by_path.fingerprint == by_name.fingerprint
    assert by_path.fingerprint.model.startswith("tiny@")
    assert (by_path.fingerprint.precision, by_path.fingerprint.engine) == ("onnx", "onnxruntime")
    assert (by_path.tokens_per_vector, by_path.fingerprint.dimensions) == (62, 64)
    assert np.array_equal(by_path.embed(["a lease"]), by_name.embed(["a lease"]))


@pytest.mark.parametrize("model", [BGE_SMALL, GTE_SMALL, ARCTIC_XS, ARCTIC_S], ids=lambda model: model.description.name)
def test_vectors_of_a_known_model_have_its_pooling_and_its_prefixes(model: KnownModel, tmp_path: Path) -> None:
    """As its card says. It needs no description, and the hub has it in a folder."""
    told = model.description
    is_cls = model is not GTE_SMALL
    tiny = Tiny(tmp_path, pooling="cls" if is_cls else "mean", name="onnx/model.onnx")
    (tiny.folder / "vector-memory.json").unlink()
    engine = load_embedder(Settings(embedding_model=told.name, embedding_model_path=tmp_path, embedding_dim=64))
    texts = ["a lease", "the queue of a shard"]
    prefix = "Represent this sentence for searching relevant passages: " if is_cls else ""
    wanted = [forward(tiny, tiny.tokens(text)) for text in texts]
    asked = [forward(tiny, tiny.tokens(prefix + text)) for text in texts]
    assert np.abs(engine.embed(texts) - np.stack(wanted)).max() < tiny.tolerance
    computed = np.stack([engine.encode_query(text).vector for text in texts])
    assert np.abs(computed - np.stack(asked)).max() < tiny.tolerance
    assert engine.fingerprint.model.startswith(f"{told.name}@")


def test_a_known_model_is_found_in_the_hub_cache_by_both_names(tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--BAAI--bge-small-en-v1.5" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    Tiny(snapshot, pooling="cls", name="onnx/model.onnx")
    engines = [
        load_embedder(Settings(embedding_model=name, embedding_dim=64))
        for name in ("bge-small-en-v1.5", "BAAI/bge-small-en-v1.5")
    ]
    assert engines[0].fingerprint == engines[1].fingerprint
    assert not np.array_equal(engines[0].encode_query("a lease").vector, engines[0].embed(["a lease"])[0])


@pytest.mark.parametrize("name", [name for name in KNOWN if name != MINILM.description.name])
def test_a_known_model_that_is_not_installed_says_how_to_get_it(name: str) -> None:
    model = replace(by_name(name) or MINILM, package="no_such_package")
    with pytest.raises(EmbeddingUnavailableError, match=rf"{name} is not on this machine. (Run `hf|Install the pack)"):
        find_weights(None, model)


@pytest.mark.parametrize(
    "change",
    [{"pooling": "cls"}, {"query_prefix": "q: "}, {"passage_prefix": ""}, {"tokens": 20, "passage_tokens": 10}],
)
def test_vectors_of_a_folder_are_not_compared_with_others_once_its_arithmetic_changes(
    tiny: Tiny, change: dict[str, object]
) -> None:
    before = OnnxEngine(tiny.model()).fingerprint
    tiny.describe(languages=["en"], scripts=["LATIN"])
    assert OnnxEngine(tiny.model()).fingerprint == before
    tiny.describe(**change)
    assert OnnxEngine(tiny.model()).fingerprint != before


@pytest.mark.parametrize("data", ["model.safetensors", "model.onnx.data", "model.onnx_data"])
@pytest.mark.parametrize("name", ["model.onnx", "onnx/model.onnx"])
def test_vectors_of_a_folder_are_not_compared_with_others_once_its_weights_or_graph_change(
    tmp_path: Path, name: str, data: str
) -> None:
    tiny = Tiny(tmp_path, name=name, data=data)
    fingerprints = {OnnxEngine(tiny.model()).fingerprint}
    (tiny.folder / name).write_bytes(Encoder(tiny.stored, data, HEADS, 1e-6).build())
    fingerprints.add(OnnxEngine(tiny.model()).fingerprint)
    with (tiny.folder / name).with_name(data).open("r+b") as weights:
        weights.seek(-2, os.SEEK_END)
        weights.write(b"x")
    fingerprints.add(OnnxEngine(tiny.model()).fingerprint)
    assert len(fingerprints) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid"),
        ("[]", "not valid"),
        ('{"pooling": "mean"}', "name"),
        ('{"name": "x", "pooling": "max"}', "pooling: .*'mean' or 'cls'"),
        ('{"name": "x", "tokens": 0}', "passage_tokens must be from 1 to tokens"),
        ('{"name": "x@y"}', "name must have"),
        ('{"name": "x", "query_prefix": "' + "a" * 1001 + '"}', "prefix must have"),
        ('{"name": "x", "confidence": {"related": 1}}', "confidence.strong"),
        (" " * 100_001, "longer than 100,000 bytes"),
        ('{"name": "x", "whole_words": -5}', "whole_words must be from 0 to 1"),
        ('{"name": "x", "whole_words": 1e400}', "whole_words"),
        ('{"name": "x", "confidence": {"strong": NaN}}', "confidence must be finite"),
        ('{"name": "x", "foreign": {"strong": 1, "words": Infinity}}', "foreign must be finite"),
    ],
)
def test_a_description_that_is_not_valid_is_refused_with_what_is_wrong(tiny: Tiny, text: str, message: str) -> None:
    (tiny.folder / "vector-memory.json").write_text(text)
    with pytest.raises(EmbeddingUnavailableError, match=message):
        tiny.model()


def test_a_folder_without_a_description_or_that_does_not_exist_is_refused(tiny: Tiny) -> None:
    (tiny.folder / "vector-memory.json").unlink()
    with pytest.raises(EmbeddingUnavailableError, match=r"has no vector-memory\.json"):
        find_model(str(tiny.folder), None)
    with pytest.raises(EmbeddingUnavailableError, match="does not exist"):
        find_model(str(tiny.folder / "nowhere"), None)


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data", "tokenizer.json"])
def test_a_folder_without_one_of_its_files_is_refused(tiny: Tiny, name: str) -> None:
    (tiny.folder / name).unlink()
    with pytest.raises(EmbeddingUnavailableError, match=r"does not contain a whole model|cannot be loaded"):
        OnnxEngine(tiny.model())


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str, int]]:
        return os.mkdir, (str(self.file), 0o700)


def test_nothing_in_a_folder_is_run(tiny: Tiny, tmp_path: Path) -> None:
    """No pickles, no code of the model's own: such files beside the weights are not looked at, or are refused."""
    trap = pickle.dumps(Trap(tmp_path / "sprung"))
    for name in ("pytorch_model.bin", "modeling_tiny.py", "modules.json"):
        (tiny.folder / name).write_bytes(trap)
    (tiny.folder / "config.json").write_text('{"auto_map": {"AutoModel": "modeling_tiny.Tiny"}}')
    OnnxEngine(tiny.model()).embed(["lease"])
    for name, message in (
        ("model.onnx", "cannot be loaded"), ("model.onnx.data", "cannot be loaded"),
        ("tokenizer.json", "not a tokenizer's file"), ("vector-memory.json", "not valid"),
    ):  # fmt: skip
        before = (tiny.folder / name).read_bytes()
        (tiny.folder / name).write_bytes(trap)
        with pytest.raises(EmbeddingUnavailableError, match=message):
            OnnxEngine(tiny.model())
        (tiny.folder / name).write_bytes(before)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data"])
@pytest.mark.parametrize("kept", [0, 4, 500, -1, -10_000])
def test_a_model_that_ends_too_early_is_refused(tiny: Tiny, name: str, kept: int) -> None:
    file = tiny.folder / name
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(EmbeddingUnavailableError, match="cannot be loaded"):
        OnnxEngine(tiny.model())


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data", "tokenizer.json"])
def test_a_file_that_is_too_large_is_refused_before_it_is_read(
    tiny: Tiny, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("vector_memory.embedding.model_folder", fromlist=["x"]).MAX_BYTES, name, 100)
    with pytest.raises(EmbeddingUnavailableError, match=f"{name} .* is larger than"):
        OnnxEngine(tiny.model())


@pytest.mark.parametrize("number", [float("nan"), 3e38, 0.0], ids=["not a number", "too large", "zero"])
def test_weights_of_which_no_vectors_can_be_computed_are_refused(tiny: Tiny, number: float) -> None:
    """A vector that is not a number would be stored, and have no distance from any other."""
    file = tiny.folder / "model.onnx.data"
    file.write_bytes(np.full(file.stat().st_size // 4, number, np.float32).tobytes())
    with pytest.raises(EmbeddingUnavailableError, match="not numbers, or zero"):
        OnnxEngine(tiny.model())


def test_one_word_whose_weights_are_damaged_is_refused_when_it_is_read(tiny: Tiny) -> None:
    file = tiny.folder / "model.onnx.data"
    words = tiny.stored["embeddings.word_embeddings.weight"]
    data = bytearray(file.read_bytes())
    at = words.offset + WORDS.index("queue") * 64 * 4
    data[at : at + 4] = np.float32("nan").tobytes()
    file.write_bytes(data)
    engine = OnnxEngine(tiny.model())
    assert np.isfinite(engine.embed(["a lease"])).all()
    with pytest.raises(EmbeddingUnavailableError, match="not numbers, or zero"):
        engine.embed(["a lease", "the queue"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"unk_token": "[NONE]"}}, "cannot read every text"),
        ({"post_processor": None}, "must put one token before a text"),
    ],
    ids=["none for unknown words", "no special ones"],
)
def test_a_tokenizer_that_does_not_fit_the_weights_or_every_text_is_refused(
    tiny: Tiny, change: dict[str, object], message: str
) -> None:
    file = tiny.folder / "tokenizer.json"
    file.write_text(json.dumps(changed(json.loads(file.read_text()), change)))
    with pytest.raises(EmbeddingUnavailableError, match=message):
        OnnxEngine(tiny.model())


def changed(before: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return the object with changes in it, also deep inside."""
    return before | {
        name: changed(before[name], new) if isinstance(new, dict) and name in before else new
        for name, new in change.items()
    }


def test_a_tokenizer_whose_pattern_takes_forever_fails_on_the_text_and_nothing_else(tiny: Tiny) -> None:
    """The library panics, which is no Exception."""
    file = tiny.folder / "tokenizer.json"
    bomb = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": "x"}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"normalizer": bomb}))
    engine = OnnxEngine(tiny.model())
    with pytest.raises(EmbeddingUnavailableError, match="cannot read every text"):
        engine.embed(["a" * 40 + "!"])
    assert np.isfinite(engine.embed(["lease"])).all()


def test_files_may_be_links_and_nothing_that_a_description_says_is_a_path(tiny: Tiny, tmp_path: Path) -> None:
    """The hub's cache consists of links. A name is only a name, and further fields are not read."""
    wanted = OnnxEngine(tiny.model())
    linked = tmp_path / "linked"
    linked.mkdir()
    for file in ("model.onnx", "model.onnx.data", "tokenizer.json", "vector-memory.json"):
        (linked / file).symlink_to(tiny.folder / file)
    assert OnnxEngine(described(linked, "a test")).fingerprint == wanted.fingerprint
    tiny.describe(name="../../etc/passwd", weights="/etc/passwd", tokenizer="../tokenizer.json")
    named = OnnxEngine(tiny.model())
    assert named.fingerprint.model.startswith("../../etc/passwd@")
    assert np.array_equal(named.embed(["a lease"]), wanted.embed(["a lease"]))


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "vector-memory.json"])
def test_a_link_to_nowhere_or_to_a_device_is_no_file(tiny: Tiny, name: str) -> None:
    for target in ("nowhere", name, "/dev/zero", str(tiny.folder)):
        (tiny.folder / name).unlink()
        (tiny.folder / name).symlink_to(target)
        with pytest.raises(EmbeddingUnavailableError, match=r"not contain a whole model|has no vector-memory\.json"):
            OnnxEngine(tiny.model())


def test_an_onnx_file_cannot_read_files_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    tiny = Tiny(tmp_path / "model", data="../model.onnx.data")
    assert (tmp_path / "model.onnx.data").is_file()
    with pytest.raises(EmbeddingUnavailableError, match=r"model\.onnx .* cannot be loaded"):
        OnnxEngine(tiny.model())


def test_an_onnx_file_with_other_outputs_is_refused(tiny: Tiny) -> None:
    (tiny.folder / "model.onnx").write_bytes(looked_up(np.zeros(len(WORDS), np.float32)))
    with pytest.raises(EmbeddingUnavailableError, match="must be the last hidden states"):
        OnnxEngine(tiny.model())
