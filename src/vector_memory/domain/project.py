"""The project that a client works on."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

NAME_SHOWN = 100
"""Maximum number of characters of the folder's name in the names of sessions."""

MARK = 6
"""So many digits of a hash tell folders with the same name apart in a shared memory."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project. `folder`: its real path. `owns_memory`: the memory's file is in it, and holds no other project."""

    folder: str
    owns_memory: bool

    @classmethod
    def at(cls, folder: Path, memory: Path | None) -> "Project":
        """Return the project in a folder. `memory`: the file of its memory; None: it is on a database server."""
        return cls(str(folder).encode(errors="replace").decode(), memory is not None and memory.is_relative_to(folder))

    def session_on(self, date: str) -> str:
        """Return the name of the session of a day for a client that names none: no other project's in the memory."""
        name = Path(self.folder).name[:NAME_SHOWN] or "project"
        mark = "" if self.owns_memory else f"{hashlib.sha256(self.folder.encode()).hexdigest()[:MARK]}-"
        return f"{name}-{mark}{date}"
