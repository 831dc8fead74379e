"""A store in its own process, controlled by lines of JSON: `python other_process.py DATABASE`."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engines import address_of
from forked import Forked
from lattice import DIMENSIONS, LatticeEmbedder
from vector_memory.errors import VectorMemoryError
from vector_memory.settings import Settings
from vector_memory.store import SessionMemoryStore

SETTINGS = Settings(embedding_model="toy", embedding_dim=DIMENSIONS, default_chunk_size=32, default_chunk_overlap=8)


class OtherProcess:
    """Calls the facade's methods in another process."""

    def __init__(self, database: Path) -> None:
        self._process = Forked("-m", "other_process", address_of(database), text=True)

    def call(self, method: str, *arguments: Any, **named: Any) -> dict[str, Any]:
        """Return the result's fields; of a failure `success` false, its `error` and `memory_id`."""
        self._process.stdin.write(json.dumps([method, arguments, named]) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))

    def use(self, database: Path) -> None:
        """Close the store, and open one on this database: as a process would that is started anew, but quicker."""
        self.call("use", str(address_of(database)))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def kill(self) -> None:
        """Let the process end as if the power had gone."""
        self._process.kill()
        self._process.communicate()


def serve(database: str) -> None:
    """Answer the calls on standard input."""
    store = SessionMemoryStore(database, SETTINGS, embedder=LatticeEmbedder())
    for line in sys.stdin:
        method, arguments, named = json.loads(line)
        if method == "use":
            store.close()
            store, answer = SessionMemoryStore(*arguments, SETTINGS, embedder=LatticeEmbedder()), {}
        else:
            answer = answered(getattr(store, method), arguments, named)
        print(json.dumps(answer), flush=True)
    store.close()


def answered(method: Callable[..., Any], arguments: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a result or of an error of ours."""
    try:
        return dict(method(*arguments, **named).model_dump())
    except VectorMemoryError as error:
        return {"success": False, "error": error.code, **vars(error)}


if __name__ == "__main__":
    serve(sys.argv[1])
