"""Start vector-memory with `python -m vector_memory`."""

from vector_memory.cli import main

main()
