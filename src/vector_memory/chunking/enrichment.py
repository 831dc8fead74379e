"""The header that can be put in front of a chunk before it is embedded: where in which document it stands."""

from vector_memory.domain import Chunk

BEGINNING = 0.33
MIDDLE = 0.67


def header(title: str | None, memory_type: str, chunk: Chunk, sibling_count: int) -> str:
    """Return the lines that name a chunk's document, section, position and memory type; no line end at the end.

    `sibling_count`: how many chunks the document has, this one included. What is unknown is left out.
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
