"""A folder of Markdown files as a memory: indexed, followed while people and agents edit it, and searched."""

from vector_memory.files.memory import FileMemory, FileSource, index_path

__all__ = ["FileMemory", "FileSource", "index_path"]
