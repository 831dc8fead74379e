"""The files that `ingest` stores: their paths, texts and titles."""

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from vector_memory.cli.demo.markdown import headings
from vector_memory.errors import ConfigurationError, ValidationError
from vector_memory.storage.disk.protection import is_open
from vector_memory.validation import MAX_TITLE

SUFFIXES = {".md", ".markdown", ".txt"}
FOREIGN_FOLDERS = {"node_modules", "site-packages"}
STANDARD_INPUT = "-"


def files_of(words: Sequence[str]) -> list[str]:
    """Return the paths that files, folders and patterns match, each once.

    Raises ConfigurationError if one of them matches nothing.
    """
    found: dict[str, None] = {}
    for word in words:
        files = list(_files(word))
        if not files:
            raise ConfigurationError(f"{word} matches no Markdown or text file: check the path.")
        found.update(dict.fromkeys(files))
    return list(found)


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
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in FOREIGN_FOLDERS)
        for name in sorted(names):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                yield str(Path(place, name))


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


def title_of(file: str, text: str) -> str | None:
    """Return a text's first heading, or its file name; None if it has neither."""
    title = next(filter(None, headings(text)), "") or ("" if file == STANDARD_INPUT else Path(file).stem)
    return title[:MAX_TITLE] or None


def source_of(file: str) -> str | None:
    """Return a file's path relative to the current folder."""
    return None if file == STANDARD_INPUT else Path(os.path.relpath(file)).as_posix()
