"""Storage of memories: the protocols of an engine, what engines share, the two engines, and files on disk."""
