"""Walks through a folder without recursion and without following links."""

import os
from collections.abc import Callable, Collection, Iterator
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vector_memory.files.ignoring import is_ignored, rules_above, rules_of
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


def walk(
    root: Path, skip: SkipCallback, ignored: Collection[PurePosixPath] = (), *, strict: bool = False
) -> Iterator[Entry]:
    """Yield the entries of a folder and its subfolders, parents first.

    Left out are names that start with a dot, installed packages, what `.gitignore` names, and the folders `ignored`,
    which are named by their paths inside the root.

    Each folder is opened by its path from the root, so deep folders do not need more descriptors. `skip` is called for
    each folder that is a link or cannot be read; `strict`: the latter raises OSError, as a missing root always does.
    """
    waiting = [(PurePosixPath(), rules_above(root))]
    while waiting:
        folder, outer = waiting.pop()
        try:
            with opened_parent(root, folder.parts, make=False) as descriptor:
                rules = (*outer, *rules_of(descriptor, PurePosixPath(), folder))
                for entry in _listed(descriptor):
                    path = folder / entry.name
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if is_ignored(path, rules, is_folder=is_folder) or (is_folder and path in ignored):
                        continue
                    if not is_folder and _is_linked_folder(entry):
                        skip(path, "it is a link to a folder")
                    elif not is_folder:
                        yield Entry(path, entry.name, descriptor)
                    elif reason := _why_not_entered(path):
                        skip(path, reason)
                    else:
                        waiting.append((path, rules))
        except OSError as error:
            if strict or (not folder.parts and isinstance(error, FileNotFoundError | NotADirectoryError)):
                raise
            if not isinstance(error, FileNotFoundError):  # a folder that was just removed is not reported
                skip(folder, f"it cannot be read ({error.strerror})")


def _listed(descriptor: int) -> "list[os.DirEntry[str]]":
    """Return what an open folder contains, without names that start with a dot."""
    with os.scandir(descriptor) as entries:
        return sorted((each for each in entries if not each.name.startswith(".")), key=attrgetter("name"))


def _is_linked_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_symlink() and entry.is_dir()
    except OSError:  # it leads to itself
        return False


def _why_not_entered(folder: PurePosixPath) -> str | None:
    if not folder.name.isprintable():
        return "its name is not UTF-8 or not printable"
    return f"it is more than {MAX_FOLDER_DEPTH} folders deep" if len(folder.parts) > MAX_FOLDER_DEPTH else None


def printable_path(path: PurePosixPath) -> str:
    """Return a path in printable form: other characters and invalid bytes are replaced, and a long path is cut."""
    text = os.fsencode(path).decode(errors="replace")
    printable = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return printable if len(printable) <= PATH_SHOWN else f"{printable[:PATH_SHOWN]}..."
