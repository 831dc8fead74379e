"""The files that `ingest` stores: their paths, sources, texts and titles."""

import glob
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from vector_memory.chunking import read_front_matter, title_of
from vector_memory.domain import MemoryFields
from vector_memory.domain.text import text_in, without_halves
from vector_memory.domain.validation import MAX_TAG, MAX_TAGS, as_title
from vector_memory.errors import ConfigurationError, ValidationError
from vector_memory.files.syncing import UnreadableFileError
from vector_memory.files.walking import walk
from vector_memory.sessions.sync import Origin
from vector_memory.settings.repository import main_checkout
from vector_memory.storage.disk.protection import is_open

SUFFIXES = {".md", ".markdown", ".txt"}
STANDARD_INPUT = "-"
NOWHERE = Origin("", "")
"""The origin of standard input, which cannot be recognized again."""
PATTERN = re.compile(r"[*?\[]")


def files_of(words: Sequence[str], skip: Callable[[str, str], None]) -> dict[str, Origin]:
    """Return the paths that files, folders and patterns match, each once, with their origins.

    `skip` is called for what is left out of a folder, with the reason. Raises ConfigurationError if a word matches
    nothing.
    """
    found: dict[str, Origin] = {}
    for word in words:
        files = list(_files(word, skip))
        if not files:
            raise ConfigurationError(f"{word} matches no Markdown or text file: check the path.")
        for file in files:
            found.setdefault(file, NOWHERE if word == STANDARD_INPUT else origin_in(folder_of(word), absolute(file)))
    return found


def _files(word: str, skip: Callable[[str, str], None]) -> Iterator[str]:
    path = Path(word).expanduser()
    if word == STANDARD_INPUT or path.is_file():
        yield word if word == STANDARD_INPUT else str(path)
    elif path.is_dir():
        yield from _files_below(path, skip)
    else:
        yield from sorted(name for name in glob.glob(str(path), recursive=True) if Path(name).is_file())  # noqa: PTH207 - a pattern may be absolute


def _files_below(folder: Path, skip: Callable[[str, str], None]) -> Iterator[str]:
    """Yield the files of a folder, sorted, without hidden files, installed packages and what Git ignores."""
    root = Path(os.path.realpath(folder))
    try:
        found = sorted(entry.path for entry in walk(root, lambda path, why: skip(str(folder / path), why), strict=True))
    except OSError as error:
        # Not skipped: --sync would take its files for deleted.
        raise ConfigurationError(f"A folder in {folder} cannot be read ({error.strerror}).") from None
    yield from (str(folder / path) for path in found if path.suffix.lower() in SUFFIXES)


def absolute(word: str | Path) -> Path:
    """Return a path without `..`, so that it names the same file from everywhere."""
    return Path(os.path.abspath(Path(word).expanduser()))  # noqa: PTH100 - Path.absolute keeps `..`


def folder_of(word: str) -> Path:
    """Return the folder that a word names, or that the files that it names are in."""
    path = absolute(word)
    if path.is_dir():
        return path
    fixed = Path(*takewhile(lambda part: not PATTERN.search(part), path.parts))
    return fixed if fixed != path else path.parent


def origin_in(folder: Path, path: Path) -> Origin:
    """Return where a file is: below the repository that a folder is in; without one, below what contains the folder.

    Links to the folder, and checkouts of one repository, lead to the same origin.
    """
    real = Path(os.path.realpath(folder))
    root = next((place for place in (real, *real.parents) if (place / ".git").exists()), real.parent)
    source = (real / path.relative_to(folder)).relative_to(root)
    return Origin(str(main_checkout(root)), source.as_posix())


def below(words: Sequence[str], origins: Iterable[Origin]) -> list[Origin]:
    """Return those of the origins that are in one of the folders that are given, whether or not the files exist."""
    folders = [absolute(word) for word in words if Path(word).expanduser().is_dir()]
    given = [origin_in(folder, folder) for folder in folders]
    return [origin for origin in origins if any(_contains(folder, origin) for folder in given)]


def _contains(folder: Origin, origin: Origin) -> bool:
    return folder.root == origin.root and (folder.source == "." or origin.source.startswith(f"{folder.source}/"))


def session_of(words: Sequence[str]) -> str | None:
    """Return the name of the folder that all the files are in; None if they are in none with a name in UTF-8."""
    folders = [folder_of(word) for word in words if word != STANDARD_INPUT]
    name = Path(os.path.commonpath(folders)).name if folders else ""
    return name if name and name == without_halves(name) else None


def text_of(file: str) -> str:
    """Return the text of a file. Raises ValidationError if it is not text, and UnreadableFileError."""
    try:
        str(absolute(file)).encode()  # it becomes the memory's origin
        return text_in(content_of(file))
    except UnicodeEncodeError:
        raise ValidationError("Its path is not UTF-8: rename it.") from None
    except OSError as error:
        raise UnreadableFileError(f"It cannot be read ({error.strerror}).") from None


def content_of(file: str) -> bytes:
    """Return the bytes of a file. The memory itself must not be opened: closing it would drop SQLite's locks."""
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    if is_open(Path(file)):
        raise UnreadableFileError("It is the memory itself, or a file that this command uses: choose another file.")
    return Path(file).read_bytes()


def facts_of(file: str, text: str) -> MemoryFields:
    """Return the title, tags and time of a document: those that its front matter says.

    Without one the title is the first heading, except of a text file, where `# ` begins a comment, or the file name.
    """
    front = read_front_matter(text)
    is_plain = Path(file).suffix.lower() == ".txt"
    title = front.title if is_plain else title_of(text)
    name = "" if file == STANDARD_INPUT else Path(file).stem
    tags = [tag for tag in front.tags if len(tag) <= MAX_TAG]
    return MemoryFields(title=as_title(title or name), tags=tags[:MAX_TAGS], created_at=front.date)
