"""Moves a namespace to another database: its memory, limits and tokens.

It is copied while others use it, and what has changed meanwhile once more, while its writers wait. A kill leaves it as
it was. Then the first database gives it away, in one transaction, and the second one takes it. A kill in between leaves
a memory that nobody uses, and the same call goes on from there: the tables that were given away name their heir.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from vector_memory.errors import ValidationError
from vector_memory.maintenance.backfill import Progress
from vector_memory.maintenance.copying import copy_all
from vector_memory.tenancy.registry import Registry

OTHERS = (
    "The other database has a namespace with this name: move it to another one, or drop that schema and its row in "
    "the table `namespaces`."
)
ELSEWHERE = "An earlier call has moved this namespace to another database: repeat the command with the URL of that one."


class Moved(NamedTuple):
    """How many memories were copied, and for how long writers waited. None and 0: an earlier call has done that."""

    memories: int | None
    seconds: float


def move(
    source: Registry,
    target: Registry,
    name: str,
    shown: Callable[[str], AbstractContextManager[Progress]],
) -> Moved:
    """Move a namespace. After a failure, repeat the call.

    Raises NotFoundError if there is none, and ValidationError if the target has its name, other memories in its
    schema, or other tokens under the same names.
    """
    quota = source.quota(name)
    with source.tables.held(name) as memory:
        is_here = memory.heir is None
    if is_here:
        if name in target.names():
            raise ValidationError(OTHERS)
        target.require_free(source.tokens_of(name))
        copy_all(source.address(name), target.address(name), shown)
    with source.tables.held(name) as memory:
        began, memories = time.monotonic(), None
        if memory.heir is None:
            memories = copy_all(source.address(name), target.address(name), shown).memories
            memory.give_to(target.tables.memory_name(name))
        elif memory.heir != target.tables.memory_name(name):
            raise ValidationError(ELSEWHERE)
    waited = time.monotonic() - began
    target.take_over(name, quota, source.tokens_of(name))
    with source.tables.transaction(writes=True) as teams:
        teams.remove_namespace(name)
    return Moved(memories, 0.0 if memories is None else waited)
