"""What `vector-memory fetch-model` downloads and how it fails; the downloader is a fake, nothing leaves the machine."""

import logging
from hashlib import sha256

import huggingface_hub
import pytest

import vector_memory.embedding.weights
from vector_memory.embedding.weights import OF_HUB, download_file, download_model
from vector_memory.errors import EmbeddingUnavailableError

CONTENT = {name: name.encode() for name in OF_HUB}


@pytest.fixture(autouse=True)
def _official(monkeypatch):
    digests = {name: sha256(content).hexdigest() for name, content in CONTENT.items()}
    monkeypatch.setattr(vector_memory.embedding.weights, "OF_HUB", digests)


class Hub:
    """Hands out the official files; those in `broken` only when asked again, those in `lost` never."""

    def __init__(self, folder, broken=(), lost=()):
        self.folder, self.broken, self.lost = folder, broken, lost
        self.asked = []

    def file(self, name, *, again):
        self.asked.append((name, again))
        is_wrong = name in self.lost or (name in self.broken and not again)
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_bytes(b"half a fi" if is_wrong else CONTENT[name])
        return self.folder / name


def test_exactly_the_needed_files_are_fetched_once_each_and_then_the_token_encoding(tmp_path):
    hub, said, encodings = Hub(tmp_path), [], []
    folder = download_model(said.append, hub.file, lambda: encodings.append(1))
    assert hub.asked == [("onnx/model.onnx", False), ("tokenizer.json", False)]
    assert encodings == [1]
    assert folder == tmp_path
    assert [line.split()[0] for line in said] == [*OF_HUB, "token"]


def test_a_broken_file_in_the_cache_is_fetched_again(tmp_path):
    hub = Hub(tmp_path, broken=["tokenizer.json"])
    download_model(lambda _: None, hub.file, lambda: None)
    assert hub.asked[1:] == [("tokenizer.json", False), ("tokenizer.json", True)]


def test_a_file_that_is_still_wrong_is_refused(tmp_path):
    hub = Hub(tmp_path, lost=["onnx/model.onnx"])
    with pytest.raises(EmbeddingUnavailableError, match="not the official file"):
        download_model(lambda _: None, hub.file, lambda: None)


def test_without_a_connection_the_error_says_what_else_can_be_done():
    def unreachable(*_, **__):
        raise ConnectionError("no route")

    with pytest.raises(EmbeddingUnavailableError, match=r"HF_ENDPOINT.*vector-memory-model"):
        download_model(lambda _: None, unreachable, lambda: None)


def test_a_missing_token_encoding_is_reported_but_is_not_a_failure(tmp_path):
    def unreachable():
        raise ConnectionError("no route")

    said = []
    download_model(said.append, Hub(tmp_path).file, unreachable)
    assert "model's tokenizer" in said[-1]


def test_the_real_downloader_asks_the_hub_for_the_pinned_revision(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        huggingface_hub, "hf_hub_download", lambda *args, **named: asked.append((args, named)) or str(tmp_path)
    )
    assert download_file("tokenizer.json", again=True) == tmp_path
    repository, revision = "sentence-transformers/all-MiniLM-L6-v2", "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
    assert asked == [((repository, "tokenizer.json"), {"revision": revision, "force_download": True})]


def test_the_hub_client_says_nothing_of_its_own(monkeypatch, caplog):
    """Offline it would log every attempt, each with the whole address."""

    def offline(*_, **__):
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying")
        raise OSError

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    with pytest.raises(EmbeddingUnavailableError, match="could not be downloaded"):
        download_model(lambda _: None, download_file, lambda: None)
    assert not caplog.records
