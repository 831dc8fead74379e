"""Start vector-memory from a clone: `uv run main.py --help`."""

from vector_memory.cli.main import main

if __name__ == "__main__":
    main()
