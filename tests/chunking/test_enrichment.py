"""The header names what a chunk does not say itself."""

import pytest

from vector_memory.chunking import chunk_document, header
from vector_memory.domain import Chunk


def chunks(text: str) -> list[Chunk]:
    return chunk_document(text, lambda part: len(part.split()), 12, 0)


def test_a_header_names_title_section_position_and_memory_type() -> None:
    chunk = chunks("# T\n\n## A\n\none two")[0]
    assert header("My report", "report", chunk, 15) == (
        "Document: My report\nSection: # T > ## A\nPosition: chunk 1 of 15, beginning\nType: report"
    )


def test_a_header_leaves_out_a_title_and_a_section_that_do_not_exist() -> None:
    assert header(None, "report", chunks("one")[0], 1) == "Position: chunk 1 of 1, beginning\nType: report"


@pytest.mark.parametrize(
    ("count", "thirds"), [(2, "be"), (3, "bme"), (4, "bmme"), (7, "bbmmmee"), (101, "b" * 33 + "m" * 34 + "e" * 34)]
)
def test_thirds_go_by_the_position_between_the_first_chunk_and_the_last(count: int, thirds: str) -> None:
    document = chunks("\n".join(f"# H{number}\nbody" for number in range(count)) + " more" * 9)
    assert len(document) == count
    said = [header(None, "report", chunk, count).split(", ")[1][0] for chunk in document]
    assert "".join(said) == thirds
