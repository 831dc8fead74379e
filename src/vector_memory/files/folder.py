"""The folder of Markdown files: lists and reads files, and adds to the daily logs. No path leads out of the folder.

Links inside the folder are not followed, neither to files nor to folders. A file with several hard links is treated
like a link, because its other names may be outside the folder. Paths are opened folder by folder through descriptors
(as in `sessions.exports`), so replacing a folder with a link in the meantime does not lead out of it either.
"""

import errno
import logging
import os
import re
import stat
import unicodedata
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vector_memory.domain.evidence import FileLines
from vector_memory.domain.text import text_in
from vector_memory.domain.user_files import open_regular
from vector_memory.domain.validation import check_text
from vector_memory.errors import MemoryStorageError, NotFoundError, ValidationError
from vector_memory.files.syncing import FileStatus
from vector_memory.reading.export import opened_parent, write_refusal
from vector_memory.settings import MEMORY_FOLDER
from vector_memory.settings.locations import repository_of
from vector_memory.storage.disk.drafts import is_database
from vector_memory.storage.disk.filesystem import flush_to_disk, lock
from vector_memory.storage.disk.ignoring import REMARK, RULES, keep_folder_out_of_git

# Walks through a folder without recursion and without following links.

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

    Skips names that start with a dot, installed packages, what `.gitignore` names, and the folders `ignored`, named by
    their paths inside the root.

    Each folder is opened by its path from the root, so deep folders do not need more descriptors. `skip` is called for
    each folder that is a link or cannot be read; `strict`: the latter raises OSError, as a missing root always does.
    """
    waiting = [(PurePosixPath(), rules_above(root))]
    while waiting:
        folder, outer = waiting.pop()
        try:
            with opened_parent(root, folder.parts, make=False) as descriptor:
                rules = (*outer, *own_rules(descriptor, PurePosixPath(), folder))
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


# Skips what is not a document: installed packages, and what `.gitignore` names.
#
# Its patterns are matched as in Git's dir.c and wildmatch.c, byte by byte, one entry at a time: a walk does not enter
# ignored folders.

PACKAGES = {"node_modules", "site-packages"}
"""The folders that package managers fill."""

MAX_RULES = 1_000_000
"""Bytes of a file of rules that are read."""

PROBES = ("MEMORY.md", "2026-01-31.md")
"""A memory's files. Ignoring all of them keeps them out of commits, but they still count."""

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
        """Return whether the rules ignore a path below the root; None: they do not name it."""
        inner = os.fsencode(self.above / path.relative_to(self.folder))
        return next((each.ignores for each in self.patterns if each.matches(inner, is_folder=is_folder)), None)


def is_ignored(path: PurePosixPath, rules: tuple[IgnoreRules, ...], *, is_folder: bool) -> bool:
    """Whether a path below the root is left out; the rules of inner folders come last and decide."""
    if is_folder and path.name in PACKAGES:
        return True
    said = (each.ignores(path, is_folder=is_folder) for each in reversed(rules))
    return next((each for each in said if each is not None), False)


def rules_above(root: Path) -> tuple[IgnoreRules, ...]:
    """Return the repository's rules for a folder's contents, from the folders above it."""
    repository = repository_of(root)
    return () if repository is None else tuple(_from_above(root, repository.work_tree))


def _from_above(root: Path, work_tree: Path) -> Iterator[IgnoreRules]:
    inside = root.relative_to(work_tree)
    for folder in reversed([work_tree / outer for outer in inside.parents]):
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                yield from own_rules(descriptor, PurePosixPath(root.relative_to(folder)), PurePosixPath())
            finally:
                os.close(descriptor)


def own_rules(descriptor: int, above: PurePosixPath, folder: PurePosixPath) -> Iterator[IgnoreRules]:
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


logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 5_000_000
"""Larger files are not indexed: nobody writes that much by hand."""

MAX_PATH = 4_096
"""Maximum number of characters of a path that a caller sends."""

GONE = "File not found: send a path returned by memory_search."

DAILY_NAME = re.compile(r"\d{4}-\d{2}-\d{2}\.md")

WRITE_ATTEMPTS = 5
"""An editor may replace the file that is being written. More replacements in a row are not expected."""


def lines_below(root: Path, path: PurePosixPath) -> FileLines | None:
    """Return the lines of a file below a root; None: it is ignored, linked, too long, or cannot be read."""
    rules = rules_above(root)
    try:
        for depth, name in enumerate(path.parts):
            folder, is_folder = PurePosixPath(*path.parts[:depth]), depth + 1 < len(path.parts)
            with opened_parent(root, folder.parts, make=False) as parent:
                rules = (*rules, *own_rules(parent, PurePosixPath(), folder))
                if is_ignored(folder / name, rules, is_folder=is_folder):
                    return None
                if not is_folder:
                    data, status = read_with_status(parent, name)
                    return FileLines.of(data, status.size, status.mtime) if len(data) <= MAX_FILE_BYTES else None
    except OSError:
        pass
    return None


class MemoryFolder:
    """A folder of Markdown files (`*.md`, also in subfolders), which need not exist.

    Files are named by their path inside it, with `/`. Names that start with a dot are ignored. `name`: the name of the
    folder itself, which callers see in front of each path. Files in the folders `not_listed` can be read, but belong to
    others: documents that were exported there would keep deleted memories findable.
    """

    def __init__(self, folder: Path, not_listed: Sequence[Path] = ()) -> None:
        self.path = Path(os.path.realpath(folder))
        self.name = folder.name
        others = [Path(os.path.realpath(folder)) for folder in not_listed]
        self._not_listed = [PurePosixPath(each.relative_to(self.path)) for each in others if self.path in each.parents]
        self.skipped: list[Skipped] = []

    def exists(self) -> bool:
        """Whether the folder exists."""
        return os.path.isdir(self.path)  # noqa: PTH112 - Path.is_dir raises if a parent cannot be read

    def shown(self, path: str) -> str:
        """Return a path as callers see it, for example memory/MEMORY.md."""
        return f"{self.name}/{path}"

    def scan(self) -> dict[str, FileStatus]:
        """Return the files by path; no files if there is no folder. `skipped` lists what was left out."""
        skipped: list[Skipped] = []

        def skip(path: PurePosixPath, reason: str) -> None:
            skipped.append(Skipped(printable_path(path), reason))

        try:
            return dict(self._scanned(skip))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        finally:
            if skipped != self.skipped:
                for reason, number in Counter(each.reason for each in skipped).items():  # the status names them
                    logger.warning("Skipped in the memory folder: %d (%s)", number, reason)
            self.skipped = skipped

    def why_not_listed(self, path: str) -> str | None:
        """Return why `scan` skips a file, as a sentence; None: it does not."""
        inner = PurePosixPath(path)
        if not {*self._not_listed}.isdisjoint(inner.parents):
            return "It is not indexed: it is in the folder of exported documents."
        skipped: dict[PurePosixPath, str] = {}
        try:
            if any(listed == path for listed, _ in self._scanned(skipped.__setitem__)):
                return None
        except (FileNotFoundError, NotADirectoryError):
            pass  # there is no folder
        reason = next((skipped[each] for each in (inner, *inner.parents) if each in skipped), None)
        if reason is None and os.path.lexists(self.path / inner):
            reason = "`.gitignore` names it, or it was installed with a package"
        return "There is no such file." if reason is None else f"It is not indexed: {reason}."

    def _scanned(self, skip: SkipCallback) -> Iterator[tuple[str, FileStatus]]:
        for entry in walk(self.path, skip, self._not_listed):
            if not entry.name.lower().endswith(".md"):
                continue
            if not is_markdown(entry.name):
                skip(entry.path, "its name is not UTF-8 or not printable")
            elif status := file_status(entry.name, entry.parent):
                yield str(entry.path), status
            else:
                skip(entry.path, f"it is a link, not a regular file, or longer than {MAX_FILE_BYTES:,} bytes")

    def read(self, path: str) -> tuple[bytes, FileStatus]:
        """Return a file's content and its status before it was read. Raises NotFoundError, ValidationError."""
        parts = PurePosixPath(path).parts
        try:
            with opened_parent(self.path, parts[:-1], make=False) as parent:
                data, status = read_with_status(parent, parts[-1])
        except FileNotFoundError:
            raise NotFoundError(GONE) from None
        except OSError as error:
            raise ValidationError(
                f"path cannot be read ({error.strerror}): send a path returned by memory_search. "
                "Links are not followed."
            ) from None
        if len(data) > MAX_FILE_BYTES:
            raise ValidationError(f"The file is longer than {MAX_FILE_BYTES:,} bytes: read it with another tool.")
        return data, status

    def find(self, path: str) -> str:
        """Return a caller's path as a path inside the folder. The folder's name in front is optional.

        Raises ValidationError if the path leads out of the folder or is not a Markdown file.
        """
        wanted = PurePosixPath(check_text("path", path, MAX_PATH))
        if "\0" in path or wanted.is_absolute() or any(part.startswith(".") for part in wanted.parts):
            raise ValidationError(
                "path must be a file inside the memory folder, without '..' and without names that start with a dot, "
                f"for example {self.name}/MEMORY.md."
            )
        if not is_markdown(wanted.name):
            raise ValidationError(f"path must be a Markdown file, for example {self.name}/MEMORY.md.")
        is_below = len(wanted.parts) > 1 and composed(wanted.parts[0]) == composed(self.name)
        inner = PurePosixPath(*wanted.parts[1:]) if is_below else wanted
        # Without the folder's name, only an existing file is meant. Path.is_file may raise.
        is_wanted = os.path.isfile(self.path / wanted) and not os.path.isfile(self.path / inner)  # noqa: PTH113
        return self._as_written(str(wanted if is_wanted else inner))

    def _as_written(self, path: str) -> str:
        """Return a path as the folder spells it: macOS, for example, composes letters differently."""
        if path.isascii() or os.path.isfile(self.path / path):  # noqa: PTH113 - Path.is_file may raise
            return path
        with suppress(FileNotFoundError, NotADirectoryError):
            for listed, _ in self._scanned(lambda *_: None):
                if composed(listed) == composed(path):
                    return listed
        return path

    def append(self, entry: str, topic: str | None, now: datetime) -> str:
        """Add an entry to the log of the day and return the log's path. Several processes may do so at once.

        If the log already ends with this entry and the same minute, nothing is added, so a caller can repeat a call
        whose answer was lost. Raises MemoryStorageError if the log cannot be written.
        """
        name = f"{now:%Y-%m-%d}.md"
        heading = f"## {now:%H:%M} — {topic}" if topic else f"## {now:%H:%M}"
        block = f"{heading}\n\n{entry.strip()}\n".encode()
        try:
            with opened_parent(self.path, ()) as parent:
                if self.path.name == MEMORY_FOLDER:
                    keep_folder_out_of_git(self.path)
                append_block(parent, name, block)
        except NotADirectoryError:
            raise MemoryStorageError("VECTOR_MEMORY_MEMORY_DIR is not a folder: choose another path.") from None
        except ValidationError:
            raise MemoryStorageError("Today's log is not text in UTF-8, and was not changed: convert it.") from None
        except OSError as error:
            said = f"The entry was not written ({error.strerror}): check the disk and the permissions."
            if isinstance(write_refusal(error), ValidationError):
                said = "Today's log is a link or not a regular file, and was not changed: remove it."
            raise MemoryStorageError(said) from None
        return name


def append_block(parent: int, name: str, block: bytes) -> None:
    """Add a block to a file after an empty line. If writing fails, the file is unchanged.

    Raises OSError, and ValidationError for a file in another encoding, which the block would damage.
    """
    for _ in range(WRITE_ATTEMPTS):
        with opened_file(parent, name, os.O_RDWR | os.O_APPEND | os.O_CREAT) as log:
            lock(log)
            if not is_in_place(log, parent, name):
                continue  # an editor has replaced the file
            size = os.fstat(log).st_size
            present = os.pread(log, size, 0)
            text_in(present)
            if present.rstrip().endswith(block.rstrip()):
                return
            write_all(log, separator(present) + block, size)
            return
    raise OSError(errno.EAGAIN, "another program keeps replacing the file")


def separator(present: bytes) -> bytes:
    """Return the line feeds to add between what a file contains and a new block."""
    if not present or present.endswith(b"\n\n"):
        return b""
    return b"\n" if present.endswith(b"\n") else b"\n\n"


def write_all(log: int, data: bytes, size: int) -> None:
    """Append to a locked file of `size` bytes. If writing fails, the file is cut back to that size."""
    try:
        written = os.write(log, data)
        while written < len(data):
            written += os.write(log, data[written:])
        flush_to_disk(log)
    except OSError:
        os.ftruncate(log, size)
        raise


def is_in_place(descriptor: int, parent: int, name: str) -> bool:
    """Whether the name still leads to the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(name, dir_fd=parent, follow_symlinks=False))
    except FileNotFoundError:
        return False


@contextmanager
def opened_file(parent: int, name: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Yield a descriptor of a regular file. Links are not followed. A file that this creates is for its owner only."""
    if is_database(parent, name):  # it must not even be opened: closing it would drop SQLite's locks
        raise OSError(errno.EINVAL, "the file is a database")
    descriptor = open_regular(name, flags | os.O_NOFOLLOW, parent)
    try:
        if not is_ordinary(os.fstat(descriptor)):
            raise OSError(errno.ELOOP, "the file has other names (hard links), which may be outside the folder")
        yield descriptor
    finally:
        os.close(descriptor)


def read_with_status(parent: int, name: str) -> tuple[bytes, FileStatus]:
    """Return the content of a file, or one byte more than it may have, and its status before it was read."""
    with opened_file(parent, name) as file, os.fdopen(file, "rb", closefd=False) as stream:
        before = os.fstat(file)
        return stream.read(MAX_FILE_BYTES + 1), FileStatus(before.st_mtime_ns, before.st_size)


def is_ordinary(status: os.stat_result) -> bool:
    """Whether this is a regular file without other hard links."""
    return stat.S_ISREG(status.st_mode) and status.st_nlink <= 1


def file_status(name: str, parent: int) -> FileStatus | None:
    """Return the status of a file that can be indexed; None for links, anything but regular files, and large files."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError:
        return None
    if not is_ordinary(status) or status.st_size > MAX_FILE_BYTES:
        return None
    return FileStatus(status.st_mtime_ns, status.st_size)


def composed(name: str) -> str:
    """Return a name with its letters composed, so that equal names are equal."""
    return unicodedata.normalize("NFC", name)


def is_markdown(name: str) -> bool:
    """Whether a file of this name belongs to the memory. A name that is not UTF-8 cannot be sent to a client."""
    return name.lower().endswith(".md") and not name.startswith(".") and name.isprintable()


def is_daily(path: str) -> bool:
    """Whether a file is the log of a day: YYYY-MM-DD.md."""
    return DAILY_NAME.fullmatch(PurePosixPath(path).name) is not None
