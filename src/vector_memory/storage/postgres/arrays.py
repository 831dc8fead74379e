"""Arrays of numbers and vectors as PostgreSQL sends and receives them, without text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format

if TYPE_CHECKING:  # commands that only list what is stored start without numpy
    import numpy as np

    from vector_memory.storage.scoring import Numbers, Vectors

ELEMENTS = {"l": (20, 1016), "q": (20, 1016), "f": (700, 1021)}
"""The types of the elements of NumPy's arrays, and those of the arrays: bigint and real."""


class ArrayDumper(Dumper):
    """Sends an array of NumPy as a `bigint[]` or `real[]` of one dimension."""

    format = Format.BINARY

    def __init__(self, cls: type, context: Any = None, *, code: str = "") -> None:
        super().__init__(cls, context)
        if code:
            self.oid = ELEMENTS[code][1]

    def get_key(self, obj: "np.ndarray[Any, Any]", format: Any) -> Any:  # noqa: A002, ARG002 - named by psycopg
        """Return what chooses a dumper: the type of the elements."""
        return (self.cls, obj.dtype.char)

    def upgrade(self, obj: "np.ndarray[Any, Any]", format: Any) -> "ArrayDumper":  # noqa: A002, ARG002
        """Return the dumper for arrays with such elements."""
        return ArrayDumper(self.cls, code=obj.dtype.char)

    def dump(self, obj: "np.ndarray[Any, Any]") -> bytes:
        """Return a header and the elements, each after its length."""
        import numpy as np  # noqa: PLC0415

        values = obj.ravel()
        elements = np.empty(len(values), [("size", ">i4"), ("value", values.dtype.newbyteorder(">"))])
        elements["size"], elements["value"] = values.itemsize, values
        header = [1, 0, ELEMENTS[values.dtype.char][0], len(values), 1] if len(values) else [0, 0, 20]
        return np.array(header, ">i4").tobytes() + elements.tobytes()


def register(adapters: AdaptersMap) -> None:
    """Let a connection send arrays of NumPy."""
    adapters.register_dumper("numpy.ndarray", ArrayDumper)


def as_vectors(sent: Sequence[bytes], dimensions: int) -> "Vectors":
    """Return vectors that pgvector sent: each a header of 4 bytes, and its numbers. Shape (vectors, dimensions)."""
    import numpy as np  # noqa: PLC0415

    rows = np.frombuffer(b"".join(sent), ">f4").reshape(-1, 1 + dimensions)
    return rows[:, 1:].astype(np.float32)


def as_numbers(sent: bytes | None) -> "Numbers":
    """Return integers that `int8send` made, one after the other; None: there are none."""
    import numpy as np  # noqa: PLC0415

    return np.frombuffer(sent or b"", ">i8").astype(np.int64)
