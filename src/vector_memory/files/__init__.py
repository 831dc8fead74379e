"""A folder of Markdown files as a memory: indexed, watched for changes by people and agents, and searched."""

from vector_memory.files.memory import FileMemory, index_path

__all__ = ["FileMemory", "index_path"]
