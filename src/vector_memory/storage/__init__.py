"""Storage of memories: the protocols of an engine, the SQLite engine, and files on disk."""
