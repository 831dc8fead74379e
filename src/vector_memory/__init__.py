"""A vector memory for AI agents: one SQLite file, shared by many server processes."""

__version__ = "0.1.0"
