"""The optional header of a chunk for embedding: the document, and the chunk's position in it."""

from vector_memory.domain import Chunk

BEGINNING = 0.33
MIDDLE = 0.67


def header(title: str | None, memory_type: str, chunk: Chunk, sibling_count: int) -> str:
    """Return lines with a chunk's document, section, position and memory type, without a final line end.

    `sibling_count`: the document's number of chunks, including this one. Unknown values are omitted.
    """
    lines = [
        f"Document: {title}" if title else "",
        f"Section: {chunk.header_path}" if chunk.headings else "",
        f"Position: chunk {chunk.index + 1} of {sibling_count}, {_third(chunk.position(sibling_count))}",
        f"Type: {memory_type}",
    ]
    return "\n".join(line for line in lines if line)


def _third(ratio: float) -> str:
    if ratio < BEGINNING:
        return "beginning"
    return "middle" if ratio < MIDDLE else "end"
