"""What is said of vectors that cannot be compared, because different models made them."""

from vector_memory.domain import Fingerprint
from vector_memory.errors import EmbeddingUnavailableError


def are_comparable(present: Fingerprint | None, dimensions: int, wanted: Fingerprint) -> bool:
    """Return whether vectors of a fingerprint are comparable with the stored ones, of which `present` is None yet."""
    return present in (None, wanted) and dimensions == wanted.dimensions


def require_comparable(present: Fingerprint | None, dimensions: int, wanted: Fingerprint) -> None:
    """Raise EmbeddingUnavailableError if vectors of a fingerprint are not comparable with the stored ones.

    `present`: the fingerprint of the stored vectors, or None while there are none. `dimensions`: their length.
    """
    if are_comparable(present, dimensions, wanted):
        return
    made = f"were computed with {present}" if present else f"have {dimensions} numbers"
    raise EmbeddingUnavailableError(
        f"The stored vectors {made}, but the configured model is {wanted}: they cannot be compared. Run "
        "`vector-memory reembed` to recompute them with this model, or change VECTOR_MEMORY_EMBEDDING_MODEL back."
    )
