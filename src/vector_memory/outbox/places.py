"""Where texts wait: beside the file of the memory, or in the user's folder for what programs keep."""

import hashlib
import os
from pathlib import Path

from vector_memory.outbox.folder import Outbox, entries
from vector_memory.settings import MemoryAddress, state_folder

ENDING = ".outbox"
"""Ends the name of the folder beside the file of a memory."""

DIGITS = 16


def outboxes_of(address: MemoryAddress) -> list[Outbox]:
    """Return where texts wait for a memory, the preferred place first.

    The second one is for a disk that is full or cannot be written, and for a memory without a file.
    """
    own = user_folder()
    if not isinstance(address, Path):
        return [] if own is None else [outbox_for(str(address), str(address), own)]
    file = Path(os.path.realpath(address))
    beside = Outbox(file.with_name(file.name + ENDING), str(file))
    return [beside] if own is None else [beside, outbox_for(str(file), str(file), own)]


def outbox_for(key: str, target: str, folder: Path) -> Outbox:
    """Return the outbox in a folder of many for what a key names."""
    return Outbox(folder / hashlib.sha256(key.encode()).hexdigest()[:DIGITS], target)


def user_folder() -> Path | None:
    """Return the folder of this user for what waits; None if the user has no home."""
    state = state_folder()
    return None if state is None else state / "outbox"


def all_of_user() -> list[Outbox]:
    """Return the outboxes in this user's folder that there are."""
    folder = user_folder()
    return [] if folder is None else [Outbox(place) for place in entries(folder) if place.is_dir()]
