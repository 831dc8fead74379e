"""The storage engine over a SQLite file, and the index of memory files. Rows leave it as named values."""
