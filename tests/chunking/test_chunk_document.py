"""How Markdown determines where chunks start and what they record. A token is a word."""

import subprocess
import sys
from itertools import pairwise

import pytest
from langchain_text_splitters import RecursiveCharacterTextSplitter

from vector_memory.domain import Chunk
from vector_memory.errors import ChunkingError
from vector_memory.texts import structure
from vector_memory.texts.chunks import MAX_CHUNKS, chunk_document, header
from vector_memory.texts.structure import read_structure
from vector_memory.texts.tokens import estimate_tokens

PROSE = " ".join(f"w{number}" for number in range(30))


def words(text: str) -> int:
    return len(text.split())


def cut(text: str, size: int = 12, overlap: int = 0) -> list[Chunk]:
    return chunk_document(text, words, size, overlap)


def paths(text: str, size: int = 12) -> list[tuple[str, ...]]:
    """Return the heading path of each chunk, repeats left out."""
    return list(dict.fromkeys(chunk.headings for chunk in cut(text, size)))


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("plain words", ()),
        ("# T\n\nbody", ("# T",)),
        ("# T\n## A\n## B", ("# T",)),
        ("# T\n## A\nbody", ("# T", "## A")),
        ("# T\nintro\n## A\nbody", ("# T",)),
        ("before\n# T\nbody", ()),
        ("# A\n# B", ()),
        ("\n\n# T\n### S\nbody\n", ("# T", "### S")),
    ],
)
def test_a_document_that_fits_names_the_headings_that_enclose_all_of_it(text: str, headings: tuple[str, ...]) -> None:
    assert [chunk.headings for chunk in cut(text)] == [headings]


@pytest.mark.parametrize(
    "invisible", ['<a id="top"></a>', "<!-- made by a script\n\n# not a heading -->", '<A name="b"/>\n']
)
def test_comments_and_anchors_above_a_heading_are_part_of_its_chunk(invisible: str) -> None:
    chunks = cut(f"{invisible}\n\n# T\n\n{PROSE}\n\n{invisible}\n\n{invisible}\n## A\n\n{PROSE}", size=60)
    assert [chunk.headings for chunk in chunks] == [("# T",), ("# T", "## A")]
    assert [chunk.text.count(invisible.strip()) for chunk in chunks] == [1, 2]


@pytest.mark.parametrize("visible", ["See <!-- note --> this", "> <!-- quoted -->", "<a href='x'>link</a>"])
def test_what_a_reader_sees_above_a_heading_is_not_part_of_its_chunk(visible: str) -> None:
    assert cut(f"# T\n\n{PROSE}\n\n## S\n\n{visible}\n\n# A\n\nmore", size=20)[-1].text == "# A\n\nmore"


def test_a_path_joins_whole_headings_and_keeps_their_marks() -> None:
    chunk = cut(f"# a > b # c\n## `x` ##\n{PROSE}")[0]
    assert chunk.headings == ("# a > b # c", "## `x`")
    assert chunk.header_path == "# a > b # c > ## `x`"
    assert (chunk.level, chunk.kind) == (2, "section")


@pytest.mark.parametrize(
    "line",
    [
        *[
            "#NoSpace",
            "####### seven",
            "    # indented",
            "> # quoted",
            "- # listed",
            "\\# escaped",
            "Title\n=====",
            "T\n---",
        ],
        *["```\n# comment\n```", "~~~\n# comment\n```\n# comment\n~~~", "- ```\n  # comment\n  ```", "<!--\n# x\n-->"],
    ],
)
def test_text_that_only_looks_like_a_heading_is_not_a_heading(line: str) -> None:
    assert paths(f"# Real\n{PROSE}\n\n{line}\n\n{PROSE}") == [("# Real",)]


@pytest.mark.parametrize("line", ["#\tTab", "   # Three spaces", "# Closed #", "#", "# \t"])
def test_every_form_of_commonmark_heading_is_recognized(line: str) -> None:
    assert len(paths(f"{PROSE}\n{line}\n{PROSE}")) == 2


@pytest.mark.parametrize("depth", [60, 100, 1_000, 10_000])
@pytest.mark.parametrize("mark", ["- ", "1. ", "> ", ">", "- > ", "> 1. * "])
@pytest.mark.parametrize("inner", ["text", "# no heading", "```", ""])
def test_headings_after_a_list_or_quote_of_any_depth_are_found(mark: str, depth: int, inner: str) -> None:
    text = f"# First\n\n{mark * depth}{inner}\n\n  - text\n\n# Later\n\n```\ncode\n```\n"
    structure = read_structure(text)
    assert [section.path for section in structure.sections] == [("# First",), ("# Later",)]
    assert text[slice(*structure.fences[-1])] == "```\ncode\n```\n"


def test_headings_after_lists_nested_by_indentation_are_found() -> None:
    levels = "".join(f"{'  ' * depth}- text\n" for depth in range(500))
    assert [section.path for section in read_structure(f"{levels}# Later\n").sections] == [(), ("# Later",)]


def test_headings_are_recognized_with_every_kind_of_line_end() -> None:
    for end in ("\n", "\r\n", "\r"):
        assert paths(f"# A{end}{PROSE}{end}## B{end}{PROSE}") == [("# A",), ("# A", "## B")]


def test_a_lone_heading_stays_with_its_first_subheading() -> None:
    chunks = cut(f"# T\n\n## A\n\n{PROSE}\n\n## B\n\nshort", size=16, overlap=6)
    assert chunks[0].text.startswith("# T\n\n## A\n\nw0")
    assert {chunk.headings for chunk in chunks[:-1]} == {("# T", "## A")}
    assert (chunks[-1].text, chunks[-1].headings) == ("## B\n\nshort", ("# T", "## B"))


def test_a_lone_heading_does_not_swallow_its_sibling() -> None:
    assert cut(f"# A\n# B\n{PROSE}")[0].text == "# A"


def test_a_heading_of_any_length_takes_200_characters_in_the_path() -> None:
    (path,) = paths("# " + "long " * 1000)[-1]
    assert len(path) == 200
    assert path.endswith("…")


def test_a_fence_larger_than_the_chunk_size_is_one_oversized_chunk() -> None:
    fence = f"```python\n{PROSE}\n```"
    before, code, after = cut(f"# A\nbefore it\n\n{fence}\n\nafter it")
    assert (code.text, code.kind, code.oversized, code.contains_code) == (fence, "code_block", True, True)
    assert not before.oversized
    assert not before.contains_code
    assert (after.text, after.kind) == ("after it", "section")


def test_a_fence_keeps_the_indentation_of_its_first_line() -> None:
    fence = f"    ```\n    {PROSE}\n    ```"
    assert cut(f"1.  {PROSE}\n\n{fence}\n")[-1].text == fence


@pytest.mark.parametrize("opening", ["```", "- ```\n  ", "> ```\n> "])
def test_a_fence_without_an_end_is_cut_like_text_so_that_no_chunk_is_too_long(opening: str) -> None:
    chunks = cut(
        f"# A\n{PROSE}\n\n{opening}\n{PROSE}\n# not a heading\n{PROSE}" if opening == "```" else f"{opening}{PROSE}"
    )
    assert len(chunks) > 2
    assert not any(chunk.oversized for chunk in chunks)
    assert chunks[-1].contains_code
    assert len({chunk.headings for chunk in chunks}) == 1


@pytest.mark.parametrize("shell", ["<details>\n{}\n</details>", '=== "Tab"\n\n{}', "<div>\n\n{}\n</div>", "> {}"])
def test_a_fence_amid_html_or_indented_text_is_not_split_either(shell: str) -> None:
    indent = {"=": "    ", ">": "> "}.get(shell[0], "")
    fence = f"\n{indent}".join(["```", *[PROSE] * 2, "```"])
    text = f"{PROSE}\n\n" + shell.format(fence if shell[0] == ">" else indent + fence)
    assert sorted(chunk.text.count("```") for chunk in cut(text))[-2:] == [0, 2]


def test_chunks_that_touch_a_table_say_so() -> None:
    table = "| a | b |\n|---|---|\n" + "| one | two |\n" * 8
    chunks = cut(f"{PROSE}\n\n{table}\nafter the table come more words than would fit here")
    assert [chunk.contains_table for chunk in chunks] == [chunk.text.startswith("|") for chunk in chunks]
    assert sum(chunk.contains_table for chunk in chunks) > 2


def test_a_table_is_cut_between_its_rows() -> None:
    rows = "\n".join(f"| row{number} | value |" for number in range(20))
    for chunk in cut(f"| a | b |\n|---|---|\n{rows}", size=20):
        assert all(line.startswith("|") and line.endswith("|") for line in chunk.text.splitlines())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c d\n\ne f g\nh i j", ["a b c d", "e f g\nh i j"]),
        ("a b c\nd e f\ng h i", ["a b c\nd e f", "g h i"]),
        ("A b c. D e! F g? H i.", ["A b c. D e! F g?", "H i."]),
        ("a b c d e f g h", ["a b c d e f g", "h"]),
    ],
)
def test_text_is_cut_at_blank_lines_then_lines_then_sentences_then_words(text: str, expected: list[str]) -> None:
    assert [chunk.text for chunk in cut(text, size=7)] == expected


def test_neighbours_of_one_section_share_whole_words_up_to_the_overlap() -> None:
    chunks = cut(PROSE, size=12, overlap=4)
    assert [chunk.text.split()[0] for chunk in chunks] == ["w0", "w5", "w13", "w20"]
    assert [chunk.text.split()[-1] for chunk in chunks] == ["w7", "w15", "w23", "w29"]


def test_an_overlap_never_reaches_over_a_heading_or_a_fence() -> None:
    chunks = cut(f"# A\n{PROSE}\n## B\n{PROSE}\n\n```\nx y\n```\n\n{PROSE}", size=12, overlap=6)
    assert [chunk.text.split("\n")[0] for chunk in chunks if "## B" in chunk.text] == ["## B"]
    assert sum(chunk.text.count("x y") for chunk in chunks) == 1
    lone, *_ = after = cut(f"# {'title ' * 9}\n## {'part ' * 9}\n{PROSE}", size=12, overlap=6)
    assert not any("title" in chunk.text for chunk in after if chunk is not lone)


def test_an_overlap_is_found_in_text_without_spaces_too() -> None:
    one, two, *_ = chunk_document("漢" * 100, len, 40, 10)
    assert one.end - two.start == 10


def test_a_text_splitter_that_loses_text_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecursiveCharacterTextSplitter, "split_text", lambda _self, text: [text[:-1]])
    with pytest.raises(ChunkingError, match="lost text"):
        cut(PROSE)


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 6), (10, -1)])
def test_an_overlap_of_more_than_half_the_chunk_size_is_refused(size: int, overlap: int) -> None:
    with pytest.raises(ChunkingError, match="overlap"):
        chunk_document("text", words, size, overlap)


@pytest.mark.parametrize("inner", [False, True])
def test_a_parser_has_its_rules_compiled_before_threads_share_it(*, inner: bool) -> None:
    """markdown-it compiles them at first use, and a second thread would then work with half of them."""
    parser = structure.block_parser.__wrapped__(inner=inner)
    assert None not in (parser.core.ruler.__cache__, parser.block.ruler.__cache__)


def test_importing_the_package_loads_no_splitter_no_parser_and_no_tokenizer() -> None:
    heavy = "{'langchain_text_splitters', 'markdown_it', 'tiktoken'}"
    code = f"import sys, vector_memory.texts.chunks; print({heavy} & {{*sys.modules}})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_header_names_title_section_position_and_memory_type() -> None:
    assert header("My report", "report", cut("# T\n\n## A\n\none two")[0], 15) == (
        "Document: My report\nSection: # T > ## A\nPosition: chunk 1 of 15, beginning\nType: report"
    )


def test_a_header_leaves_out_a_title_and_a_section_that_do_not_exist() -> None:
    assert header(None, "report", cut("one")[0], 1) == "Position: chunk 1 of 1, beginning\nType: report"


@pytest.mark.parametrize(
    ("count", "thirds"), [(2, "be"), (3, "bme"), (4, "bmme"), (7, "bbmmmee"), (101, "b" * 33 + "m" * 34 + "e" * 34)]
)
def test_thirds_go_by_the_position_between_the_first_chunk_and_the_last(count: int, thirds: str) -> None:
    document = cut("\n".join(f"# H{number}\nbody" for number in range(count)) + " more" * 9)
    assert len(document) == count
    assert "".join([header(None, "report", chunk, count).split(", ")[1][0] for chunk in document]) == thirds


MORE = MAX_CHUNKS + 1_000
TEXTS = {
    "headings": "# a\n" * MORE,
    "lone headings": "#\n" * MORE,
    "sections": "# a\nb\n" * MORE,
    "nested headings": "# a\nb\n## a\nb\n###### a\nb\n" * (MORE // 3),
    "fences": "# a\n```\nb\n```\n" * MORE,
    "a long section among short ones": "# a\n" * MORE + "word " * 3_000 + "# a\n" * 10,
}


def require_whole(text: str, chunks: list[Chunk]) -> None:
    """Fail unless all of the text but white space is in chunks, in order."""
    assert all(chunk.text == text[chunk.start : chunk.end] for chunk in chunks)
    assert all(one.start < two.start and one.end < two.end for one, two in pairwise(chunks))
    assert not "".join(text[one.end : two.start] for one, two in pairwise(chunks)).strip()
    assert not (text[: chunks[0].start] + text[chunks[-1].end :]).strip()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_document_with_too_many_sections_gets_chunks_of_several_sections(text: str) -> None:
    chunks = chunk_document(text, estimate_tokens, 450, 50)
    assert len(chunks) < MAX_CHUNKS // 2
    assert not any(chunk.oversized for chunk in chunks)
    require_whole(text, chunks)


def test_chunks_are_longer_than_requested_rather_than_too_many() -> None:
    text = "word " * (8 * MORE)
    chunks = chunk_document(text, lambda part: len(part.split()), 8, 2)
    assert len(chunks) <= MAX_CHUNKS
    require_whole(text, chunks)


def test_sections_are_joined_under_the_heading_that_they_share() -> None:
    parts = "".join(f"## {part}\nb\n" for part in range(60))
    chapters = [f"# Chapter {number}\n{parts}" for number in range(MORE // 60)]
    chunks = chunk_document("".join(chapters), estimate_tokens, 450, 50)
    assert [chunk.headings for chunk in chunks] == [(f"# Chapter {number}",) for number in range(MORE // 60)]


def test_a_document_with_the_maximum_number_of_sections_is_cut_at_each() -> None:
    assert len(chunk_document("# a\nb\n" * MAX_CHUNKS, estimate_tokens, 450, 50)) == MAX_CHUNKS
