"""How much the tests do: a little in every run, the figures of docs/reliability.md on demand.

`LONG_TESTS=1 uv run pytest` is the long version: more kills and faults, and more examples of every property.
"""

import os
from typing import TypeVar

T = TypeVar("T")

LONG = os.environ.get("LONG_TESTS") == "1"


def effort(*, quick: T, long: T) -> T:
    """Return the one of two amounts that this run asks for."""
    return long if LONG else quick
