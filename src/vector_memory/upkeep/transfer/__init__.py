"""Export and import of memories as JSON Lines. An import does not duplicate memories that are already stored."""

from vector_memory.upkeep.transfer.lines import is_sqlite, new_file, notes_as_export
from vector_memory.upkeep.transfer.transfer import Exported, Imported, Transfer

__all__ = ["Exported", "Imported", "Transfer", "is_sqlite", "new_file", "notes_as_export"]
