"""Memories as JSON Lines: from one file to another, without doubling what is there."""

from vector_memory.maintenance.transfer.files import new_file
from vector_memory.maintenance.transfer.transfer import Exported, Imported, Transfer

__all__ = ["Exported", "Imported", "Transfer", "new_file"]
