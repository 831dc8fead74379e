"""The in-memory index, so that searches need not read the memory again."""
