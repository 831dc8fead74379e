"""The second engine. Most of this runs only where the extra `sentence-transformers` is installed."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from imported import imported
from servers import SLOW_MODEL
from vector_memory.domain import Fingerprint
from vector_memory.embedding import load_embedder
from vector_memory.embedding.sentence_transformers_engine import SentenceTransformersEngine
from vector_memory.errors import ConfigurationError, EmbeddingUnavailableError
from vector_memory.settings import Settings

needs_extra = pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None,
    reason="the extra is not installed: `uv sync --extra sentence-transformers`",
)
pytestmark = pytest.mark.filterwarnings("default")  # torch and its friends warn

WITHOUT_NETWORK = """
import contextlib, pathlib, socket, sys

asked = []
def refuse(*address, **_):
    asked.append(address)
    raise OSError("no network in this test")
socket.getaddrinfo = socket.socket.connect = refuse

from vector_memory.embedding.sentence_transformers_engine import SentenceTransformersEngine
SentenceTransformersEngine("my/model", pathlib.Path(sys.argv[1])).embed(["lease"])
with contextlib.suppress(Exception):
    SentenceTransformersEngine("no-such-model")
print("asked:", asked)
"""


@pytest.fixture(autouse=True)
def _environment_is_put_back(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def second(weights):
    return SentenceTransformersEngine("my/model", weights.folder)


def test_without_the_extra_the_error_says_which_command_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbeddingUnavailableError, match="uv sync --extra sentence-transformers"):
        load_embedder(Settings(embedding_model="all-mpnet-base-v2"))


@pytest.mark.parametrize("number", [0.0, float("nan")], ids=["zero", "not a number"])
def test_vectors_that_have_no_direction_are_refused(number, monkeypatch):
    """The distance of zeros to any question is that of a cosine of 0.5."""
    library = imported(SLOW_MODEL / "sentence_transformers.py")  # the extra is not needed for this
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    engine = SentenceTransformersEngine("somebody/elses-model")
    monkeypatch.setattr(library.SentenceTransformer, "encode", lambda _, texts, **__: np.full((len(texts), 4), number))
    with pytest.raises(EmbeddingUnavailableError, match="not numbers, or zero"):
        engine.embed(["lease"])


@needs_extra
def test_both_engines_compute_the_same_vectors_for_the_same_model(second, engine, golden_texts):
    texts = list(golden_texts.values())[::3]
    assert np.abs(second.embed(texts) - engine.embed(texts)).max() < 1e-6


@needs_extra
def test_both_engines_find_the_same_word_pieces(second, engine, golden_texts):
    for text in golden_texts.values():
        assert second.token_spans(text) == engine.token_spans(text)


@needs_extra
def test_the_second_engine_describes_itself_by_what_the_model_says(second):
    assert second.fingerprint == Fingerprint("my/model", 384, "fp32", "sentence-transformers")
    assert second.tokens_per_vector == 254


@needs_extra
def test_the_second_engine_gives_a_text_the_same_bits_in_every_batch(second):
    batch = ["lease", "a much longer text about the renewal of leases", "queue"]
    assert np.array_equal(second.embed(batch), np.concatenate([second.embed([text]) for text in batch]))
    assert second.embed([]).shape == (0, 384)


@needs_extra
def test_a_model_that_is_not_here_is_not_downloaded_and_the_error_says_how_to_get_it(tmp_path):
    with pytest.raises(EmbeddingUnavailableError, match="hf download sentence-transformers/no-such-model"):
        SentenceTransformersEngine("no-such-model")
    with pytest.raises(EmbeddingUnavailableError, match="VECTOR_MEMORY_EMBEDDING_MODEL_PATH"):
        SentenceTransformersEngine("mine", tmp_path)


@needs_extra
def test_the_network_is_never_asked_for_anything(weights):
    program = [sys.executable, "-c", WITHOUT_NETWORK, str(weights.folder)]
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    asked = subprocess.run(program, env=environment, capture_output=True, check=True, text=True).stdout
    assert asked.splitlines()[-1] == "asked: []"


@needs_extra
def test_a_wrong_number_of_dimensions_is_refused_and_the_right_one_named(weights):
    chosen = Settings(embedding_model="my/model", embedding_model_path=weights.folder, embedding_dim=512)
    with pytest.raises(ConfigurationError, match="set VECTOR_MEMORY_EMBEDDING_DIM=384"):
        load_embedder(chosen)
