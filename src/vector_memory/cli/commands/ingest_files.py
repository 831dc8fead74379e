"""The files that `ingest` stores: their paths, sources, texts and titles."""

import glob
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NoReturn

from vector_memory.chunking import read_front_matter, title_of
from vector_memory.domain import MemoryFields
from vector_memory.domain.validation import MAX_TAG, MAX_TAGS, as_title
from vector_memory.errors import ConfigurationError, ValidationError
from vector_memory.storage.disk.protection import is_open

SUFFIXES = {".md", ".markdown", ".txt"}
FOREIGN_FOLDERS = {"node_modules", "site-packages"}
STANDARD_INPUT = "-"
PATTERN = re.compile(r"[*?\[]")


def files_of(words: Sequence[str]) -> dict[str, str | None]:
    """Return the paths that files, folders and patterns match, each once, with their sources.

    Raises ConfigurationError if one of them matches nothing.
    """
    found: dict[str, str | None] = {}
    for word in words:
        files = list(_files(word))
        if not files:
            raise ConfigurationError(f"{word} matches no Markdown or text file: check the path.")
        for file in files:
            found.setdefault(file, None if word == STANDARD_INPUT else source_below(folder_of(word), absolute(file)))
    return found


def _files(word: str) -> Iterator[str]:
    path = Path(word).expanduser()
    if word == STANDARD_INPUT or path.is_file():
        yield word if word == STANDARD_INPUT else str(path)
    elif path.is_dir():
        yield from _files_below(path)
    else:
        yield from sorted(name for name in glob.glob(str(path), recursive=True) if Path(name).is_file())  # noqa: PTH207 - a pattern may be absolute


def _files_below(folder: Path) -> Iterator[str]:
    """Yield the files of a folder, sorted, without hidden files and installed packages."""
    for place, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in FOREIGN_FOLDERS)
        for name in sorted(names):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                yield str(Path(place, name))


def _refuse(error: OSError) -> NoReturn:
    # Not skipped: --sync would take its files for deleted.
    raise ConfigurationError(f"{error.filename} cannot be read ({error.strerror}).") from None


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


def source_below(folder: Path, path: Path) -> str:
    """Return a path relative to the folder's repository; without one, beginning with the folder's name."""
    repository = next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder.parent)
    return path.relative_to(repository).as_posix()


def sources_below(words: Sequence[str], sources: Iterable[str]) -> list[str]:
    """Return those of the sources that are in one of the folders that are given, whether or not the files exist."""
    folders = [absolute(word) for word in words if Path(word).expanduser().is_dir()]
    begins = [source_below(folder, folder) for folder in folders]
    return [source for source in sources if any(begin == "." or source.startswith(f"{begin}/") for begin in begins)]


def session_of(words: Sequence[str]) -> str | None:
    """Return the name of the folder that all the files are in; None if they are in none with a name."""
    folders = [folder_of(word) for word in words if word != STANDARD_INPUT]
    return Path(os.path.commonpath(folders)).name or None if folders else None


def text_of(file: str) -> str:
    """Return the text of a file. Raises ValidationError if it cannot be read or is not text."""
    try:
        return content_of(file).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValidationError("It is not UTF-8: convert it first.") from None
    except OSError as error:
        raise ValidationError(f"It cannot be read ({error.strerror}).") from None


def content_of(file: str) -> bytes:
    """Return the bytes of a file. The memory itself must not be opened: closing it would drop SQLite's locks."""
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    if is_open(Path(file)):
        raise ValidationError("It is the memory itself, or a file that this command uses: choose another file.")
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
