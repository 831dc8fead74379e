"""The in-memory index, so that searches need not read the file again."""
