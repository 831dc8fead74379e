"""What in a folder nobody means as a document: installed packages, and what `.gitignore` names.

Its patterns are read as gitignore(5) and Git's `wildmatch` read them, and matched to one entry of a folder at a time:
whoever walks through folders does not look into ignored ones.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vector_memory.settings.repository import repository_of
from vector_memory.storage.disk.ignoring import REMARK, RULES

PACKAGES = {"node_modules", "site-packages"}
"""The folders that package managers fill."""

MAX_RULES = 1_000_000
"""Bytes of a file of rules that are read."""

PROBES = ("MEMORY.md", "2026-01-31.md")
"""Files of a memory. Whoever ignores all of them keeps them out of commits, and means them all the same."""


TRAILING_SPACES = re.compile(r"(?<!\\) +\Z")
PIECE = re.compile(
    r"(?P<folders>(?:(?<=/)|\A)\*{2,}/)|(?P<inside>(?:(?<=/)|\A)\*{2,}\Z)|(?P<stars>\*+)|(?P<one>\?)"
    r"|\[(?P<not>[!^]?)(?P<set>\]?(?:\[:\w+:\]|\\.|[^\]\\])*)\]|\\(?P<escaped>.)|(?P<letter>[^\\\[])",
    re.DOTALL,
)
MEMBER = re.compile(r"\[:(?P<named>\w+):\]|(?P<first>\\.|[^\\])(?:-(?P<last>\\.|[^\\]))?", re.DOTALL)
CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "digit": "0-9", "lower": "a-z", "space": "\\s",
    "upper": "A-Z", "xdigit": "0-9A-Fa-f", "punct": "!-.:-@\\[-`{-~", "cntrl": "\\0-\\x1f\\x7f", "print": " -~",
    "graph": "!-~",
}  # fmt: skip


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
    """Return the pattern of a line of rules; None for remarks, and for what Git cannot read either."""
    text = TRAILING_SPACES.sub("", line.removesuffix("\r"))
    ignores = not text.startswith("!")
    text = text if ignores else text[1:]
    name = text.removesuffix("/")
    regex = _regex(name.removeprefix("/"))
    if line.startswith("#") or not name or regex is None:
        return None
    return Pattern(regex, "/" in name, name != text, ignores)


def _regex(text: str) -> re.Pattern[str] | None:
    parts, place = [], 0
    while place < len(text):
        found = PIECE.match(text, place)
        part = _part(found) if found else None
        if found is None or part is None:
            return None
        parts.append(part)
        place = found.end()
    return re.compile("".join(parts), re.DOTALL)


def _part(found: re.Match[str]) -> str | None:
    """Return a part of a pattern as a regular expression; None if there is no such part."""
    match found.lastgroup:
        case "folders":
            return "(?:.*/)?"
        case "inside":
            return ".+"
        case "stars":
            return "[^/]*+" if found.end() == len(found.string) else "[^/]*"
        case "one":
            return "[^/]"
        case "set":
            return _set(found["set"], is_not=bool(found["not"]))
    return re.escape(found["escaped"] or found["letter"])


def _set(text: str, *, is_not: bool) -> str | None:
    members = []
    for member in MEMBER.finditer(text):
        if name := member["named"]:
            if name not in CLASSES:
                return None
            members.append(CLASSES[name])
        else:
            first, last = ((member[which] or "")[-1:] for which in ("first", "last"))
            if not last or first <= last:  # a range without characters matches nothing
                members.append(re.escape(first) + (f"-{re.escape(last)}" if last else ""))
    inner = "".join(members)
    if is_not:
        return f"[^/{inner}]"
    return f"(?!/)[{inner}]" if inner else "(?!)"
