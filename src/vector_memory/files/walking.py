"""Walks through a folder without recursion and without following links."""

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vector_memory.sessions.exports import opened_parent

MAX_FOLDER_DEPTH = 100
"""Deeper folders are skipped: nobody nests folders so deeply, and a loop of mounts would never end."""

PATH_SHOWN = 200
"""Maximum number of characters of a path in a message; longer paths are cut."""


class Skipped(NamedTuple):
    """A path that was skipped, with `/` and printable, and why."""

    path: str
    reason: str


class Entry(NamedTuple):
    """Anything in the folder but a folder: its path inside, its name, and a descriptor of its parent."""

    path: PurePosixPath
    name: str
    parent: int


SkipCallback = Callable[[PurePosixPath, str], None]


def walk(root: Path, skip: SkipCallback, ignored: Collection[PurePosixPath] = ()) -> Iterator[Entry]:
    """Yield the entries of a folder and its subfolders, parents first. Names that start with a dot are ignored.

    So are the folders `ignored`, which are named by their paths inside the root.

    Each folder is opened by its path from the root, so deep folders do not need more descriptors. `skip` is called for
    each folder that cannot be read. Raises OSError if the root does not exist.
    """
    waiting = [PurePosixPath()]
    while waiting:
        folder = waiting.pop()
        try:
            with opened_parent(root, folder.parts, make=False) as descriptor:
                with os.scandir(descriptor) as entries:
                    found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
                for name, is_folder in found:
                    if name.startswith(".") or (is_folder and folder / name in ignored):
                        continue
                    if not is_folder:
                        yield Entry(folder / name, name, descriptor)
                    elif not name.isprintable():
                        skip(folder / name, "its name is not UTF-8 or not printable")
                    elif len(folder.parts) >= MAX_FOLDER_DEPTH:
                        skip(folder / name, f"it is more than {MAX_FOLDER_DEPTH} folders deep")
                    else:
                        waiting.append(folder / name)
        except OSError as error:
            if not folder.parts and isinstance(error, FileNotFoundError | NotADirectoryError):
                raise
            if not isinstance(error, FileNotFoundError):  # a folder that was just removed is not reported
                skip(folder, f"it cannot be read ({error.strerror})")


def printable_path(path: PurePosixPath) -> str:
    """Return a path in printable form: other characters and invalid bytes are replaced, and a long path is cut."""
    text = os.fsencode(path).decode(errors="replace")
    printable = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return printable if len(printable) <= PATH_SHOWN else f"{printable[:PATH_SHOWN]}..."
