"""Walks through a folder without recursion and without following links."""

import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vector_memory.domain.user_files import open_regular
from vector_memory.reading.export import opened_parent
from vector_memory.settings.repository import repository_of
from vector_memory.storage.disk.ignoring import REMARK, RULES

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


# What in a folder nobody means as a document: installed packages, and what `.gitignore` names.
#
# Its patterns are matched as Git's dir.c and wildmatch.c do, byte by byte, to one entry of a folder at a time: whoever
# walks through folders does not look into ignored ones.

PACKAGES = {"node_modules", "site-packages"}
"""The folders that package managers fill."""

MAX_RULES = 1_000_000
"""Bytes of a file of rules that are read."""

PROBES = ("MEMORY.md", "2026-01-31.md")
"""Files of a memory. Whoever ignores all of them keeps them out of commits, and means them all the same."""

WITHOUT_TRAILING_SPACES = re.compile(rb"(?>(?: *+(?:\\.?|[^ \\]))*)", re.DOTALL)
LITERAL = re.compile(rb"[^*?\[\\]*+")

MEMBER = rb"(?>\[:[^\]]*:\]|(?:\\.|[^\\%s])(?:-(?:\\.|[^\\\]]))?)"
WILDCARD = re.compile(
    rb"(?P<any_folders>(?:\A|(?<=/))\*\*+(?:(?P<slash>/)|(?=\\/)|\Z))|(?P<star>\*+)|(?P<one>\?)"
    rb"|\[(?P<negated>[!^]?)(?P<members>" + MEMBER % b"" + rb"(?>(?:" + MEMBER % rb"\]" + rb")*))\]"
    rb"|(?P<literal>\\.|[^\\\[])",
    re.DOTALL,
)
MEMBERS = re.compile(rb"\[:([^\]]*):\]|\\?(.)(?:-\\?(.))?", re.DOTALL)
CLASSES = dict(
    each.split(b"=", 1)
    for each in rb"""
    alnum=0-9A-Za-z alpha=A-Za-z blank=\x20\t cntrl=\x00-\x1f\x7f digit=0-9 graph=!-~ lower=a-z print=\x20-~
    punct=!-/:-@\[-`{-~ space=\x20\t\n\r upper=A-Z xdigit=0-9A-Fa-f
    """.split()
)


class Pattern(NamedTuple):
    """A line of rules. `whole`: it is matched to the path, not to the name alone. `ignores`: false for `!`."""

    regex: re.Pattern[bytes]
    whole: bool
    only_folders: bool
    ignores: bool

    def matches(self, path: bytes, *, is_folder: bool) -> bool:
        """Return whether a path below the folder of the rules is named."""
        text = path if self.whole else path.rpartition(b"/")[2]
        return (is_folder or not self.only_folders) and self.regex.fullmatch(text) is not None


class IgnoreRules(NamedTuple):
    """The rules of one file, the last first. `above`: the path from its folder to the root; `folder`: its own path."""

    patterns: list[Pattern]
    above: PurePosixPath
    folder: PurePosixPath

    def ignores(self, path: PurePosixPath, *, is_folder: bool) -> bool | None:
        """Return whether the rules name a path below the root; None: they do not say."""
        inner = os.fsencode(self.above / path.relative_to(self.folder))
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
        with os.fdopen(open_regular(RULES, os.O_RDONLY | os.O_NOFOLLOW, descriptor), "rb") as stream:
            data = stream.read(MAX_RULES)
        lines = data.removeprefix(BOM_UTF8).split(b"\n")
        if lines[0] != REMARK.encode():
            patterns = [pattern for line in reversed(lines) if (pattern := _pattern(line))]
            rules = IgnoreRules(patterns, above, folder)
            if folder.parts or not all(rules.ignores(PurePosixPath(probe), is_folder=False) for probe in PROBES):
                yield rules


def _pattern(line: bytes) -> Pattern | None:
    """Return the pattern of a line of rules; None if nothing can match it."""
    found = WITHOUT_TRAILING_SPACES.match(line.removesuffix(b"\r").partition(b"\0")[0])
    text = found[0] if found else b""
    name = text.removeprefix(b"!").removesuffix(b"/")
    if line.startswith(b"#") or not name:
        return None
    try:
        regex = _regex(name.removeprefix(b"/"))
    except ValueError:
        return None
    return Pattern(regex, b"/" in name, text.endswith(b"/"), not text.startswith(b"!"))


def _regex(pattern: bytes) -> re.Pattern[bytes]:
    """Return a regular expression for a whole name or path. Raises ValueError if nothing matches the pattern.

    What follows a `*`, up to the next one, is searched for once, so that no pattern takes long. As in Git, `**/` also
    stands for folders right behind the letters that the pattern begins with.
    """
    letters = LITERAL.match(pattern)
    at = letters.end() if letters else 0
    parts, rest, at = [re.escape(pattern[:at])], pattern[at:], 0
    folders_open, star_open = b"", b""  # what ends the groups
    while at < len(rest):
        found = WILDCARD.match(rest, at)
        if found is None:
            raise ValueError
        at = found.end()
        if found["any_folders"] is not None:
            parts += [star_open, folders_open, rb"(?>", rb"(?:.*?/)??" if found["slash"] else rb".*?"]
            folders_open, star_open = b")", b""
        elif found["star"]:
            parts += [star_open, rb"(?>[^/]*?"]
            star_open = b")"
        elif found["one"]:
            parts.append(rb"[^/]")
        elif found["literal"]:
            parts.append(re.escape(found["literal"][-1:]))
        else:
            start = rb"[^/" if found["negated"] else rb"(?!/)[\x00"
            parts += [start, *map(_member, MEMBERS.finditer(found["members"])), rb"]"]
    return re.compile(b"".join([*parts, rb"\Z", star_open, folders_open]), re.DOTALL)


def _member(found: re.Match[bytes]) -> bytes:
    """Return a member of a set of letters for a regular expression. Raises ValueError for an unknown class."""
    name, first, last = found.groups()
    if name is not None:
        if name not in CLASSES:
            raise ValueError
        return CLASSES[name]
    return rb"\x%02x-\x%02x" % (ord(first), ord(max(first, last or first)))
