"""What in a folder nobody means as a document: installed packages, and what `.gitignore` names.

Its patterns are read as gitignore(5) says, and matched to one entry of a folder at a time: whoever walks through
folders does not look into ignored ones.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from wcmatch.glob import DOTGLOB, FORCEUNIX, GLOBSTAR, translate

from vector_memory.settings.repository import repository_of
from vector_memory.storage.disk.ignoring import REMARK, RULES

PACKAGES = {"node_modules", "site-packages"}
"""The folders that package managers fill."""

MAX_RULES = 1_000_000
"""Bytes of a file of rules that are read."""

PROBES = ("MEMORY.md", "2026-01-31.md")
"""Files of a memory. Whoever ignores all of them keeps them out of commits, and means them all the same."""

TRAILING_SPACES = re.compile(r"(?<!\\) +\Z")
WILDCARDS = GLOBSTAR | DOTGLOB | FORCEUNIX
"""As in Git: `**` crosses folders, a dot is a letter like any other, and case matters on every system."""


class Pattern(NamedTuple):
    """A line of rules. `whole`: it is matched to the path, not to the name alone. `ignores`: false for `!`."""

    regex: re.Pattern[str]
    whole: bool
    only_folders: bool
    ignores: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path below the folder of the rules is named."""
        text = path if self.whole else path.rpartition("/")[2]
        return (is_folder or not self.only_folders) and self.regex.fullmatch(text) is not None


class IgnoreRules(NamedTuple):
    """The rules of one file, the last first. `above`: the path from its folder to the root; `folder`: its own path."""

    patterns: list[Pattern]
    above: PurePosixPath
    folder: PurePosixPath

    def ignores(self, path: PurePosixPath, *, is_folder: bool) -> bool | None:
        """Return whether the rules name a path below the root; None: they do not say."""
        inner = str(self.above / path.relative_to(self.folder))
        return next((each.ignores for each in self.patterns if each.matches(inner, is_folder=is_folder)), None)


def is_ignored(path: PurePosixPath, rules: tuple[IgnoreRules, ...], *, is_folder: bool) -> bool:
    """Whether a path below the root is left out; the rules of inner folders come last and decide."""
    if is_folder and path.name in PACKAGES:
        return True
    said = (each.ignores(path, is_folder=is_folder) for each in reversed(rules))
    return next((each for each in said if each is not None), False)


def rules_above(root: Path) -> tuple[IgnoreRules, ...]:
    """Return the rules of the repository for what is in a folder, from the folders above it."""
    repository = repository_of(root)
    return () if repository is None else tuple(_from_above(root, repository.work_tree))


def _from_above(root: Path, work_tree: Path) -> Iterator[IgnoreRules]:
    inside = root.relative_to(work_tree)
    for folder in reversed([work_tree / outer for outer in inside.parents]):
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                yield from rules_of(descriptor, PurePosixPath(root.relative_to(folder)), PurePosixPath())
            finally:
                os.close(descriptor)


def rules_of(descriptor: int, above: PurePosixPath, folder: PurePosixPath) -> Iterator[IgnoreRules]:
    """Yield the rules that an open folder has. Those that would leave out a memory at the root do not count."""
    with suppress(OSError):
        file = os.open(RULES, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
        with os.fdopen(file, "rb") as stream:
            data = stream.read(MAX_RULES) if stat.S_ISREG(os.fstat(file).st_mode) else b""
        lines = data.decode(errors="surrogateescape").removeprefix("\ufeff").split("\n")
        if lines[0] != REMARK:
            patterns = [pattern for line in reversed(lines) if (pattern := _pattern(line))]
            rules = IgnoreRules(patterns, above, folder)
            if folder.parts or not all(rules.ignores(PurePosixPath(probe), is_folder=False) for probe in PROBES):
                yield rules


def _pattern(line: str) -> Pattern | None:
    """Return the pattern of a line of rules; None for an empty line or a remark."""
    text = TRAILING_SPACES.sub("", line.removesuffix("\r"))
    ignores = not text.startswith("!")
    text = text if ignores else text[1:]
    name = text.removesuffix("/")
    if line.startswith("#") or not name:
        return None
    [regex], _ = translate(name.removeprefix("/"), flags=WILDCARDS)
    return Pattern(re.compile(regex), "/" in name, name != text, ignores)
