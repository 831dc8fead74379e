"""Files that agents may write: inside the export folders only, never through a symlink, never over a file unasked."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from vector_memory.errors import MemoryStorageError, ValidationError


class ExportFolders:
    """The folders that exports may go to; relative paths are meant from the first one.

    A path is walked folder by folder from there without following links, and what is opened is what was checked: a
    folder that is swapped for a link meanwhile leads nowhere else.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [Path(os.path.realpath(folder)) for folder in folders]

    def write(self, output_path: str, data: bytes, *, overwrite: bool) -> Path:
        """Write a file, readable by its owner only, and return its absolute path.

        Raises ValidationError for a path that is not allowed or taken, MemoryStorageError when the disk refuses.
        """
        folder, relative = self._place(output_path)
        try:
            with opened_parent(folder, relative.parts[:-1]) as parent:
                (replace_file if overwrite else create_file)(parent, relative.name, data)
        except FileExistsError:
            raise ValidationError(
                "There is a file already at output_path: choose another name, or send overwrite=true."
            ) from None
        except OSError as error:
            raise refusal(error) from None
        return folder / relative

    def _place(self, output_path: str) -> tuple[Path, PurePath]:
        """Return the export folder and the path inside it."""
        path = PurePath(output_path)
        if not output_path.strip() or "\0" in output_path or ".." in path.parts or not path.name:
            raise ValidationError("output_path must name a file, without '..', for example reports/summary.md.")
        if output_path.endswith(("/", os.sep)):
            raise ValidationError("output_path must name a file, not a folder, for example reports/summary.md.")
        if not path.is_absolute():
            return self._folders[0], path
        for folder in self._folders:
            if path.is_relative_to(folder) and path != folder:
                return folder, path.relative_to(folder)
        raise ValidationError(
            "output_path is outside the export folders: send a path relative to the first one, for example "
            "reports/summary.md, or start the server with --export-dir."
        )


def refusal(error: OSError) -> ValidationError | MemoryStorageError:
    """Return the error for a failed write; a link on the way shows as ELOOP or ENOTDIR."""
    if isinstance(error, NotADirectoryError | IsADirectoryError) or error.errno in LINK_ERRORS:
        return ValidationError("output_path leads through a link or a file that is no folder: choose another path.")
    return MemoryStorageError(f"The file was not written ({error.strerror}): choose another path or mend the disk.")


LINK_ERRORS = {40, 62}
"""ELOOP on Linux and on BSD and macOS."""


@contextlib.contextmanager
def opened_parent(folder: Path, parts: Sequence[str], *, make: bool = True) -> Iterator[int]:
    """Give a descriptor of the folder that a file is in; with `make` missing folders are made, for their owner only."""
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for part in parts:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, mode=0o700, dir_fd=descriptor)
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def create_file(parent: int, name: str, data: bytes) -> None:
    """Write a new file; FileExistsError if anything, even a dangling link, has the name."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(name, dir_fd=parent)
        raise


def replace_file(parent: int, name: str, data: bytes) -> None:
    """Write a file in the place of an ordinary one, at once: readers see the old or the new, never a part."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise IsADirectoryError
    draft = f".{secrets.token_hex(8)}.draft"
    create_file(parent, draft, data)
    try:
        os.rename(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        os.unlink(draft, dir_fd=parent)
        raise
