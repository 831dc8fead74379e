"""A process that dies of certain texts, as if the model's engine crashed: `python dying_process.py DATABASE`.

It computes what others have left behind until its standard input ends.
"""

import os
import sys
from collections.abc import Sequence

from lattice import LatticeEmbedder
from other_process import SETTINGS
from vector_memory.embedding.embedder import Vectors
from vector_memory.store import SessionMemoryStore
from vector_memory.writing import background, indexer

DEADLY = "deadly"
BATCH = 4
LEASE = 0.5


class MortalEmbedder(LatticeEmbedder):
    """See the module."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text."""
        if any(DEADLY in text for text in texts):
            os._exit(9)
        return super().embed(texts)


def serve(database: str) -> None:
    """Work in the background."""
    background.LEASE_SECONDS, indexer.BATCH = LEASE, BATCH
    with SessionMemoryStore(database, SETTINGS, embedder=MortalEmbedder()) as store:
        store.start_background_work()
        sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
