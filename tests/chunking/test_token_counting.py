"""Which tokens are counted, and that looking for them never touches the network."""

import base64
import hashlib
import math
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import tiktoken.registry
from hypothesis import given
from hypothesis import strategies as st

from vector_memory.domain import Span
from vector_memory.texts import tokens
from vector_memory.texts.chunks import chunk_document
from vector_memory.texts.tokens import CL100K_FILE, estimate_tokens, find_token_counter, has_cl100k

needs_cl100k = pytest.mark.skipif(
    not has_cl100k(), reason="tiktoken's cl100k_base file is not on disk; fetch-model fetches it"
)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every attempt to connect an error."""

    def refuse(*_args: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let tiktoken look into an empty folder."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def cl100k() -> Callable[[str], int]:
    return find_token_counter(None)


@pytest.mark.usefixtures("cache")
def test_without_the_encoding_on_disk_the_model_s_own_tokenizer_counts() -> None:
    counter = find_token_counter(lambda text: len(text.split()))
    assert (counter.name, counter("one two three")) == ("model", 3)


@pytest.mark.usefixtures("cache")
def test_without_encoding_and_model_four_bytes_count_as_a_token() -> None:
    counter = find_token_counter(None)
    assert counter.name == "estimate"
    assert [counter(text) for text in ("", "a", "abcd", "abcde", "漢字", "\ud800")] == [0, 1, 1, 2, 2, 1]


def test_a_file_of_the_right_name_with_other_content_is_neither_used_nor_deleted(cache: Path) -> None:
    (cache / CL100K_FILE).write_bytes(b"IQ== 0\n")
    assert find_token_counter(None).name == "estimate"
    assert (cache / CL100K_FILE).exists()


def test_an_empty_variable_switches_tiktoken_s_cache_off_so_the_encoding_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / CL100K_FILE).write_bytes(b"")
    monkeypatch.setattr(tokens, "CL100K_SHA256", hashlib.sha256(b"").hexdigest())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert not has_cl100k()


def test_the_folders_are_the_ones_that_tiktoken_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"the encoding"
    monkeypatch.setattr(tokens, "CL100K_SHA256", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    folders = [tmp_path / "data-gym-cache", tmp_path / "two", tmp_path / "three"]
    for folder, variable in zip(folders, ["", "DATA_GYM_CACHE_DIR", "TIKTOKEN_CACHE_DIR"], strict=True):
        if variable:
            monkeypatch.setenv(variable, str(folder))
        assert not has_cl100k()
        folder.mkdir()
        (folder / CL100K_FILE).write_bytes(content)
        assert has_cl100k()


def test_the_file_name_is_the_one_that_the_installed_tiktoken_looks_for() -> None:
    source = Path(pytest.importorskip("tiktoken_ext.openai_public").__file__).read_text()
    address = next(part for part in source.split('"') if part.endswith("/cl100k_base.tiktoken"))
    assert hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest() == CL100K_FILE
    assert tokens.CL100K_SHA256 in source


@pytest.mark.usefixtures("cache")
def test_an_endless_word_that_the_model_cannot_read_still_counts_by_its_length(
    token_spans: Callable[[str], list[Span]],
) -> None:
    counter = find_token_counter(lambda text: len(token_spans(text)))
    assert len(token_spans("x" * 10_000)) == 1
    assert counter("x" * 10_000) == 625
    assert counter("ordinary words in a row") == 5


@given(st.lists(st.text(max_size=30), max_size=30).map(" ".join), st.integers(1, 200))
def test_countingin_slices_changes_no_count_of_ordinary_words(
    token_spans: Callable[[str], list[Span]], text: str, repeats: int
) -> None:
    text = f"{text}. The quick brown fox, it's 12345 times. " * repeats
    assert tokens.in_slices(lambda part: len(token_spans(part)))(text) == len(token_spans(text))


@pytest.mark.usefixtures("cache")
def test_no_slice_is_longer_than_the_tokenizer_can_take_and_none_is_lost() -> None:
    seen: list[str] = []
    counter = find_token_counter(lambda part: seen.append(part) or 0)
    for text in ("x" * 500_000, "word " * 100_000, " " * 10_000, "\n\n" * 5_000 + "x"):
        seen.clear()
        counter(text)
        assert "".join(seen) == text
        assert max(map(len, seen)) <= 4096


@given(st.text())
def test_the_estimate_is_a_quarter_of_the_bytes_rounded_up(text: str) -> None:
    assert estimate_tokens(text) == math.ceil(len(text.encode()) / 4)


@needs_cl100k
def test_cl100k_base_counts_when_its_file_is_on_disk(cl100k: tokens.TokenCounter) -> None:
    assert cl100k.name == "cl100k_base"
    assert [cl100k(text) for text in ("", "hello world", "hello  world\n\n", "漢字")] == [0, 2, 4, 3]


@needs_cl100k
def test_special_tokens_in_a_text_count_as_the_plain_text_they_are(cl100k: tokens.TokenCounter) -> None:
    assert cl100k("<|endoftext|>") == 7


@needs_cl100k
@given(st.lists(st.text(max_size=30), max_size=30).map(" ".join), st.integers(1, 200))
def test_countingin_slices_changes_no_count_of_cl100k_base(
    cl100k: tokens.TokenCounter, text: str, repeats: int
) -> None:
    text = f"{text}. The quick brown fox, it's 12345 times. " * repeats
    assert cl100k(text) == len(tiktoken.get_encoding("cl100k_base").encode_ordinary(text))


@needs_cl100k
@pytest.mark.parametrize("character", ["a", " ", "\n", "#", "`", "漢", "\ud800"])
def test_half_a_million_times_one_character_can_be_counted(cl100k: tokens.TokenCounter, character: str) -> None:
    assert cl100k(character * 500_000) > 0


@needs_cl100k
def test_the_encoding_is_loaded_from_a_copy_of_the_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tokens.cache_folder()
    assert folder is not None
    shutil.copy(folder / CL100K_FILE, tmp_path / CL100K_FILE)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    assert find_token_counter(None)("hello world") == 2


def test_encoded_data_is_not_taken_apart_into_tokens() -> None:
    """The counter only estimates how many an image has, so that a document with one is stored as fast as others."""
    seen = 0

    def spans(text: str) -> list[Span]:
        nonlocal seen
        seen += len(text)
        return [Span(at, at + 1) for at in range(len(text))]

    data = base64.b64encode(random.Random(1).randbytes(100_000)).decode()
    count = tokens.WordPieceCounter(spans)
    chunks = chunk_document(f"# Title\n\n![x](data:image/png;base64,{data})\n\nThe end.", count, 450, 50)
    assert seen < 3 * len(data)  # ends that neighbours share
    assert all(chunk.token_count <= 450 for chunk in chunks)
