"""Walks through a folder without recursion and without following links, whatever is in it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vector_memory.sessions.exports import opened_parent

MAX_DEPTH = 100
"""Folders further down are left out: nobody nests them so deep, and a loop of mounts would never end."""

NAME_SHOWN = 200
"""Characters of a path that is named; of longer ones the end is left out."""


class Skipped(NamedTuple):
    """What was left out of a folder, with `/` and fit to be shown, and why."""

    path: str
    reason: str


class Place(NamedTuple):
    """Something in the folder that is no folder: its path inside, its name, and a descriptor of its parent."""

    path: PurePosixPath
    name: str
    parent: int


Skip = Callable[[PurePosixPath, str], None]


def walk(root: Path, skip: Skip) -> Iterator[Place]:
    """Yield all that is in a folder and the folders in it, but what begins with a dot; folders after their parents.

    A folder is opened by its path from the root, so a thousand levels take no thousand descriptors. What cannot be
    walked through is handed to `skip`. Raises OSError if the root is not there.
    """
    waiting = [PurePosixPath()]
    while waiting:
        folder = waiting.pop()
        try:
            with opened_parent(root, folder.parts, make=False) as descriptor:
                with os.scandir(descriptor) as entries:
                    found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
                for name, is_folder in found:
                    if name.startswith("."):
                        continue
                    if not is_folder:
                        yield Place(folder / name, name, descriptor)
                    elif not name.isprintable():
                        skip(folder / name, "its name is not UTF-8 or not printable")
                    elif len(folder.parts) >= MAX_DEPTH:
                        skip(folder / name, f"it is more than {MAX_DEPTH} folders deep")
                    else:
                        waiting.append(folder / name)
        except OSError as error:
            if not folder.parts and isinstance(error, FileNotFoundError | NotADirectoryError):
                raise
            if not isinstance(error, FileNotFoundError):  # else it has just been removed
                skip(folder, f"it cannot be read ({error.strerror})")


def shown(path: PurePosixPath) -> str:
    """Return a path fit to be shown, whatever bytes it has."""
    text = os.fsencode(path).decode(errors="replace")
    printable = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return printable if len(printable) <= NAME_SHOWN else f"{printable[:NAME_SHOWN]}..."
