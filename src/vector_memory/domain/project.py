"""The project that a client works on."""

from dataclasses import dataclass
from pathlib import Path

NAME_SHOWN = 100
"""Maximum number of characters of the folder's name in the names of sessions."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project. `folder`: its absolute path. `owns_memory`: the memory's file is in it, and holds no other project."""

    folder: str
    owns_memory: bool

    @classmethod
    def at(cls, folder: Path, memory: Path | None) -> "Project":
        """Return the project in a folder. `memory`: the file of its memory; None: it is on a database server."""
        return cls(str(folder).encode(errors="replace").decode(), memory is not None and memory.is_relative_to(folder))

    def session_on(self, date: str) -> str:
        """Return the name of the session of a day for a client that names none."""
        return f"{Path(self.folder).name[:NAME_SHOWN] or 'project'}-{date}"
