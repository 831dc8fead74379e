"""Properties of the chunks of every text, Markdown or not."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from vector_memory.domain import Chunk, Span
from vector_memory.texts.chunks import chunk_document
from vector_memory.texts.tokens import estimate_tokens


def words(text: str) -> int:
    return len(text.split())


def crowded(text: str) -> int:
    """Count more for a joined text than for its parts; no tokenizer does by this much, but no code may rely on it."""
    return words(text) + words(text) // 5


COUNTERS = {count.__name__: count for count in (words, crowded, estimate_tokens, len)}

LINES = [
    *[
        "# One",
        "## Two",
        "## Two ##",
        "### Three",
        "###### Six",
        "####### seven",
        "#NoSpace",
        "# a > b # c",
        "   # near",
    ],
    *["    # indented", "\t# tab", "#\tTab", "##", "> # quoted", "- # item", "Title", "===", "---", "***"],
    *["```", "```python", "````", "``` `", "~~~", "~~~ sh", "  ```", "    ```", "> ```", "- ```", "  - ```", "1. ~~~"],
    *["alpha beta gamma. delta epsilon!", "one two three four five six seven eight nine ten eleven twelve", "x"],
    *[
        "# comment in code",
        "| a | b |",
        "|---|---|",
        "| 1 | 2 |",
        "a|b",
        "-|-",
        "- item one",
        "  more",
        "> quote",
        "1. n",
    ],
    *[
        "<details>",
        "<!--",
        "-->",
        "<!-- note -->",
        '<a id="part"></a>',
        "<pre>",
        "</pre>",
        "\0",
        "a\0b",
        "\f",
        "\u00a0\u3000",
        "\u2028x",
        "漢字。仮名。",
        "e\u0301 😀",
    ],
    *["", "", "", " ", "\t", "unbroken" * 12],
]
line_ends = st.sampled_from(["\n", "\n", "\n", "\n\n", "\r\n", "\r"])
markdown_lines = st.lists(st.tuples(st.sampled_from(LINES), line_ends), min_size=1, max_size=40)
markdown = markdown_lines.map(lambda lines: "".join(line + end for line, end in lines))
documents = markdown | st.text(max_size=400) | markdown.map(str.rstrip)


@dataclass(frozen=True)
class Cut:
    """A document and how it was cut."""

    text: str
    count: Callable[[str], int]
    size: int
    overlap: int
    chunks: list[Chunk]


@st.composite
def cuts(draw: st.DrawFn, texts: st.SearchStrategy[str] = documents, *, by_headings: bool = True) -> Cut:
    count = COUNTERS[draw(st.sampled_from(sorted(COUNTERS)))]
    size = draw(st.integers(8, 40))
    overlap = draw(st.integers(0, size // 2))
    text = draw(texts)
    return Cut(text, count, size, overlap, chunk_document(text, count, size, overlap, by_headings=by_headings))


any_cuts = cuts() | cuts(by_headings=False)
"""Also as memory files are cut: in whole paragraphs."""


def closed_fences(text: str) -> list[Span]:
    """Return the closed fences as CommonMark sees them, from their first line to the end of their closing mark."""
    ends = [0, *(match.end() for match in re.finditer(r"\r\n?|\n", text)), len(text)]
    fences = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "fence" and token.map and token.map[1] - token.map[0] > 1:
            start, end = ends[token.map[0]], ends[token.map[1]]
            quote = ">" if ">" in text[start:end].split(token.markup, maxsplit=1)[0] else ""
            last = text[ends[token.map[1] - 1] : end].rstrip()
            mark = last.lstrip(" \t" + quote)
            near = token.level > 0 or len(last.expandtabs(4)) - len(mark) < 4
            if near and len(mark) >= len(token.markup) and set(mark) == {token.markup[0]}:
                fences.append(Span(start, start + len(text[start:end].rstrip())))
    return fences


@given(any_cuts)
def test_a_chunk_is_the_slice_of_the_document_that_its_offsets_name(cut: Cut) -> None:
    assert all(chunk.text == cut.text[chunk.start : chunk.end] for chunk in cut.chunks)


@given(any_cuts)
def test_every_character_that_is_not_white_space_belongs_to_a_chunk(cut: Cut) -> None:
    reached = 0
    for chunk in cut.chunks:
        assert not cut.text[reached : chunk.start].strip()
        reached = max(reached, chunk.end)
    assert not cut.text[reached:].strip()


@given(any_cuts)
def test_chunks_are_numbered_from_zero_in_order_and_none_contains_another(cut: Cut) -> None:
    assert [chunk.index for chunk in cut.chunks] == list(range(len(cut.chunks)))
    assert all(one.start < two.start and one.end < two.end for one, two in pairwise(cut.chunks))
    assert all(chunk.text.strip() for chunk in cut.chunks)


@given(any_cuts)
def test_a_chunk_has_at_most_the_chunk_size_unless_it_is_one_fence_marked_oversized(cut: Cut) -> None:
    for chunk in cut.chunks:
        assert chunk.token_count == cut.count(chunk.text)
        assert chunk.oversized == (chunk.token_count > cut.size)
        assert not chunk.oversized or chunk.kind == "code_block"


@given(cuts())
def test_no_chunk_begins_or_ends_inside_a_closed_fence(cut: Cut) -> None:
    for fence in closed_fences(cut.text):
        for chunk in cut.chunks:
            assert not fence.start < chunk.start < fence.end or not cut.text[fence.start : chunk.start].strip()
            assert not fence.start < chunk.end < fence.end


@given(cuts())
def test_a_chunk_of_code_is_a_fence_and_says_that_it_contains_code(cut: Cut) -> None:
    fences = closed_fences(cut.text)
    for chunk in cut.chunks:
        touched = any(fence.start < chunk.end and chunk.start < fence.end for fence in fences)
        assert chunk.contains_code or not touched
        assert chunk.contains_code or chunk.kind != "code_block"
        if Span(chunk.start, chunk.end) in fences:
            assert chunk.kind == "code_block"


@given(any_cuts)
def test_neighbours_share_at_most_the_overlap(cut: Cut) -> None:
    for one, two in pairwise(cut.chunks):
        assert cut.count(cut.text[two.start : one.end]) <= cut.overlap


@given(cuts())
def test_a_document_that_fits_is_one_chunk_and_blank_text_is_none(cut: Cut) -> None:
    if not cut.text.strip():
        assert cut.chunks == []
    elif cut.count(cut.text) <= cut.size:
        assert [chunk.text for chunk in cut.chunks] == [cut.text]


titles = st.sampled_from(["One", "Two words", "a > b # c", "`x`", "Über"])
plain_sections = st.lists(st.tuples(st.integers(1, 6), titles, st.integers(0, 60)), min_size=1, max_size=12)


@given(st.integers(0, 60), plain_sections, st.integers(8, 40), st.data())
def test_a_chunk_names_the_headings_that_enclose_all_its_text(
    preamble: int, sections: list[tuple[int, str, int]], size: int, data: st.DataObject
) -> None:
    paths: dict[str, tuple[str, ...]] = {f"p{number}": () for number in range(preamble)}
    text = " ".join(paths)
    enclosing: list[str] = []
    for index, (level, title, length) in enumerate(sections):
        heading = f"{'#' * level} {title}"
        enclosing = [outer for outer in enclosing if len(outer.split()[0]) < level] + [heading]
        body = {f"s{index}w{number}": tuple(enclosing) for number in range(length)}
        paths |= body
        text += f"\n\n{heading}\n\n{' '.join(body)}"
    chunks = chunk_document(text, words, size, data.draw(st.integers(0, size // 2)))
    for chunk in chunks if len(chunks) > 1 else []:
        found = [paths[word] for word in chunk.text.split() if word in paths]
        assert len(set(found)) <= 1, "a chunk crosses a heading"
        if found:
            assert chunk.headings == found[0]
            assert chunk.kind == ("section" if found[0] else "text")
            assert chunk.level == (len(found[0][-1].split()[0]) if found[0] else 0)


blocks = st.sampled_from(
    [
        *["```\n# code\n```", "```python\nx = 1\n\ny = 2\n```", "```\n" + "line of code\n" * 30 + "```", "```\n```"],
        *["- item\n\n  ```\n  in a list\n  ```", "> ```\n> in a quote\n> ```", "    ```\n    indented\n    ```"],
        *[
            "<details>\n```\nin html\n```\n</details>",
            "## Heading",
            "some words of text",
            "word " * 50,
            "| a |\n|---|\n| b |",
        ],
    ]
)


@given(cuts(st.lists(blocks, min_size=2, max_size=20).map("\n\n".join)))
def test_fence_marks_are_balanced_in_every_chunk_of_a_document_whose_fences_are(cut: Cut) -> None:
    assert [chunk.text for chunk in cut.chunks if chunk.text.count("```") % 2] == []


@given(documents, st.integers(16, 60))
def test_the_model_s_own_tokenizer_can_measure_the_chunks(
    token_spans: Callable[[str], list[Span]], text: str, size: int
) -> None:
    for chunk in chunk_document(text, lambda part: len(token_spans(part)), size, size // 4):
        assert chunk.token_count == len(token_spans(chunk.text))
        assert chunk.token_count <= size or chunk.oversized
