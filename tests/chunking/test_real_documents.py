"""How three real documents are cut, exactly. A token is four bytes, so that the figures hold on every machine."""

from itertools import pairwise
from pathlib import Path

import pytest

from vector_memory.domain import Chunk
from vector_memory.texts.chunks import chunk_document
from vector_memory.texts.tokens import estimate_tokens

FOLDER = Path(__file__).parents[1] / "data" / "markdown"


def cut(name: str) -> list[Chunk]:
    return chunk_document((FOLDER / name).read_bytes().decode(), estimate_tokens, 450, 50)


def test_a_page_of_the_fastapi_documentation_keeps_its_long_console_output_whole() -> None:
    chunks = cut("fastapi-server-workers.md")
    workers = "## Multiple Workers"
    assert [(chunk.token_count, chunk.kind, *chunk.headings[1:]) for chunk in chunks] == [
        (323, "section"),
        (49, "section", workers),
        (902, "code_block", workers),
        (341, "section", workers),
        (75, "section", workers),
        (150, "section", "## Deployment Concepts"),
        (111, "section", "## Containers and Docker"),
        (143, "section", "## Recap"),
    ]
    assert {chunk.headings[0] for chunk in chunks} == {"# Server Workers - Uvicorn with Workers"}
    assert [chunk.oversized for chunk in chunks] == [False, False, True, False, False, False, False, False]


def test_a_chapter_of_the_rust_book_keeps_comments_with_its_title_and_shares_text_only_within_sections() -> None:
    chunks = cut("rust-book-ch07-02-modules.md")
    sheet, grouping = "### Modules Cheat Sheet", "### Grouping Related Code in Modules"
    assert [(chunk.token_count, chunk.contains_code, *chunk.headings[-1:]) for chunk in chunks] == [
        (116, False, "## Control Scope and Privacy with Modules"),
        (99, False, sheet),
        (418, False, sheet),
        (415, True, sheet),
        (86, True, sheet),
        (415, True, grouping),
        (368, True, grouping),
        (199, False, grouping),
    ]
    assert [max(0, one.end - two.start) for one, two in pairwise(chunks)] == [0, 137, 188, 115, 0, 0, 0]


def test_the_tables_of_a_rust_book_appendix_are_cut_between_rows() -> None:
    chunks = cut("rust-book-appendix-02-operators.md")
    operators = [chunk for chunk in chunks if chunk.headings[-1] == "### Operators"]
    assert [chunk.token_count for chunk in operators] == [435, 398, 398, 399, 398, 398, 398, 133]
    assert len(chunks) == 19
    assert [chunk.contains_table for chunk in chunks] == [False] + [True] * 18
    assert all(chunk.text.startswith("| ") and chunk.text.endswith(" |") for chunk in operators[1:])


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_every_chunk_of_a_real_document_has_balanced_fences_and_nothing_is_lost(path: Path) -> None:
    text = path.read_bytes().decode()
    chunks = cut(path.name)
    assert not any(chunk.text.count("```") % 2 for chunk in chunks)
    assert all(chunk.token_count <= 450 or chunk.oversized for chunk in chunks)
    assert not "".join(text[one.end : two.start] for one, two in pairwise(chunks)).strip()
    assert not (text[: chunks[0].start] + text[chunks[-1].end :]).strip()
