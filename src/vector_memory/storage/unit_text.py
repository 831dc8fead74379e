"""By which words a unit is found: those of its text, of the headings above it, and of its memory's title."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vector_memory.domain import Chunk

if TYPE_CHECKING:
    from vector_memory.storage.postings import Words


def words_of(title: str | None, content: str, chunks: Sequence[Chunk], *, chunked: bool) -> "Words":
    """Return the keyword index entries of a memory's units.

    This takes most of the time needed to store a memory, so call it before the transaction.
    """
    from vector_memory.storage.postings import indexed  # noqa: PLC0415 - imports numpy

    return indexed(searchable_texts(title, content, chunks, chunked=chunked))


def searchable_texts(title: str | None, content: str, chunks: Sequence[Chunk], *, chunked: bool) -> list[str]:
    """Return a memory's searchable texts: one for each chunk, or one for a memory of a kind that is not chunked."""
    if not chunked:
        return [searchable_text(title, (), content)]
    return [searchable_text(title, chunk.headings, chunk.text) for chunk in chunks]


def searchable_text(title: str | None, headings: Sequence[str], text: str) -> str:
    """Return the text whose words are those of a unit. A title that is also a heading counts once."""
    return "\n".join([*names_above(title, headings), text])


def names_above(title: str | None, headings: Sequence[str]) -> list[str]:
    """Return the title and the headings, which have marks (`## Section`), without repetitions."""
    names = [title or "", *(heading.lstrip("#") for heading in headings)]
    return [name for name in dict.fromkeys(name.strip() for name in names) if name]
