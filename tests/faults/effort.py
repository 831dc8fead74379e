"""How much the tests of this folder do: a little in every run, the figures of the requirements on demand.

`LONG_FAULT_TESTS=1 uv run pytest tests/faults` is the long version.
"""

import os
from typing import TypeVar

T = TypeVar("T")

LONG = os.environ.get("LONG_FAULT_TESTS") == "1"


def effort(*, quick: T, long: T) -> T:
    """Return the one of two amounts that this run asks for."""
    return long if LONG else quick
