"""What in a folder nobody means as a document: installed packages, and what `.gitignore` names."""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vector_memory.files.patterns import Pattern, patterns_in, said_of
from vector_memory.settings.repository import repository_of
from vector_memory.storage.disk.ignoring import REMARK, RULES

PACKAGES = {"node_modules", "site-packages"}
"""The folders that package managers fill."""

MAX_RULES = 1_000_000
"""Bytes of a file of rules that are read."""

PROBES = ("MEMORY.md", "2026-01-31.md")
"""Files of a memory. Whoever ignores all of them keeps them out of commits, and means them all the same."""


class Rules(NamedTuple):
    """The rules of one file, the last first. `above`: the path from its folder to the root; `folder`: its own path."""

    patterns: list[Pattern]
    above: PurePosixPath
    folder: PurePosixPath

    def ignores(self, path: PurePosixPath, *, is_folder: bool) -> bool | None:
        """Return whether the rules name a path below the root; None: they do not say."""
        return said_of(str(self.above / path.relative_to(self.folder)), self.patterns, is_folder=is_folder)


def is_ignored(path: PurePosixPath, rules: tuple[Rules, ...], *, is_folder: bool) -> bool:
    """Whether a path below the root is left out; the rules of inner folders come last and decide."""
    if is_folder and path.name in PACKAGES:
        return True
    said = (each.ignores(path, is_folder=is_folder) for each in reversed(rules))
    return next((each for each in said if each is not None), False)


def rules_above(root: Path) -> tuple[Rules, ...]:
    """Return the rules of the repository for what is in a folder, from the folders above it."""
    repository = repository_of(root)
    return () if repository is None else tuple(_from_above(root, repository.work_tree))


def _from_above(root: Path, work_tree: Path) -> Iterator[Rules]:
    inside = root.relative_to(work_tree)
    for folder in reversed([work_tree / outer for outer in inside.parents]):
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                yield from rules_in(descriptor, PurePosixPath(root.relative_to(folder)), PurePosixPath())
            finally:
                os.close(descriptor)


def rules_in(descriptor: int, above: PurePosixPath, folder: PurePosixPath) -> Iterator[Rules]:
    """Yield the rules that an open folder has. Those that would leave out a memory at the root do not count."""
    with suppress(OSError):
        file = os.open(RULES, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
        with os.fdopen(file, "rb") as stream:
            data = stream.read(MAX_RULES) if stat.S_ISREG(os.fstat(file).st_mode) else b""
        lines = data.decode(errors="surrogateescape").removeprefix("\ufeff").split("\n")
        if lines[0] != REMARK:
            rules = Rules(patterns_in(lines)[::-1], above, folder)
            if folder.parts or not all(rules.ignores(PurePosixPath(probe), is_folder=False) for probe in PROBES):
                yield rules
