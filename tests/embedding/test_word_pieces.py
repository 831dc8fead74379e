"""The numbers of word pieces that are put together from words."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vector_memory.chunking import WordPieceCounter, tokens
from vector_memory.embedding.onnx_engine import OnnxEngine

# Spaces of all sorts, characters that the tokenizer removes, splits or joins, and words.
PARTS = st.sampled_from(
    [*" \n\t\r\u00a0\u2003\x1c\x0b\u0301\u200b\u3000\x85'-.#", "é", "漢字", "word", "idx_17", "x" * 120]
)


@given(st.lists(st.lists(PARTS, max_size=30).map("".join), max_size=5))
def test_counts_by_word_add_up_to_the_whole_text(engine: OnnxEngine, texts: list[str]) -> None:
    assume(not any(map(tokens.DATA.search, texts)))  # encoded data are estimated
    count = WordPieceCounter(engine.token_spans)
    assert [count(text) for text in texts] == [len(engine.token_spans(text)) for text in texts]


def test_a_counter_that_forgets_the_words_it_knows_counts_the_same(
    engine: OnnxEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_CACHED_WORDS", 2)
    count = WordPieceCounter(engine.token_spans)
    text = "several words, idx_17 among them"
    assert {count(text) for _ in range(3)} == {len(engine.token_spans(text))}
