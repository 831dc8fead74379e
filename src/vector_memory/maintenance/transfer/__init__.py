"""Memories as JSON Lines: from one file to another, without doubling what is there."""

from vector_memory.maintenance.transfer.files import new_file
from vector_memory.maintenance.transfer.transfer import Exported, Imported, Transfer, checked

__all__ = ["Exported", "Imported", "Transfer", "checked", "new_file"]
