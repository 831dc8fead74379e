"""A server of an earlier release, controlled by lines of JSON: `python earlier_release.py DATABASE`.

It is run with the source of that release, and uses nothing of the tests, which know only the present one.
"""

import json
import sys
from pathlib import Path
from typing import Any

from vector_memory.errors import VectorMemoryError
from vector_memory.session_memory_store import SessionMemoryStore
from vector_memory.settings import Settings
from vector_memory.values import Scope

SETTINGS = Settings(embedding_model="toy", embedding_dim=16, default_chunk_size=32, default_chunk_overlap=8)


def answer(store: SessionMemoryStore, method: str, arguments: list[Any], named: dict[str, Any]) -> str:
    """Return how a call ended: `done`, or the name of its error."""
    if method.startswith("search"):
        arguments[1] = Scope.of(arguments[1])
    try:
        getattr(store, method)(*arguments, **named)
    except VectorMemoryError as error:
        return type(error).__name__
    return "done"


if __name__ == "__main__":
    with SessionMemoryStore(Path(sys.argv[1]), SETTINGS) as opened:
        print("open", flush=True)
        for line in sys.stdin:
            print(answer(opened, *json.loads(line)), flush=True)
