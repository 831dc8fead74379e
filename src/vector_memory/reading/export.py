"""Files that agents may write: only inside the export folders, never through a symlink, never over an existing file.

`overwrite` allows replacing an ordinary file, but never a database (`storage.disk.drafts`).
"""

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from vector_memory.errors import MemoryStorageError, ValidationError
from vector_memory.storage.disk.drafts import Rules, Target, draft_at
from vector_memory.storage.disk.ignoring import make_own_folder


class ExportFolders:
    """The folders that exports may be written to. Relative paths start at the first one.

    Paths are opened folder by folder through descriptors, without following links, so replacing a folder by a link in
    the meantime has no effect. `databases`: files that are never written.
    """

    def __init__(self, folders: Sequence[Path], databases: Sequence[Path] = ()) -> None:
        self._databases = databases
        self._folders = [Path(os.path.realpath(folder)) for folder in folders]

    def write(self, output_path: str, data: bytes, *, overwrite: bool) -> Path:
        """Write a file, readable by its owner only, and return its absolute path.

        Raises ValidationError if the path is not allowed or the file exists, MemoryStorageError if writing fails.
        """
        folder, relative = self._split(output_path)
        rules = Rules(overwrite=overwrite, databases=self._databases)
        try:
            with opened_parent(folder, relative.parts[:-1]) as parent:
                target = Target(parent, relative.name, folder / relative, "output_path")
                with draft_at(target, rules) as draft:
                    with draft.open() as file:
                        file.write(data)
                    draft.publish()
        except FileExistsError:
            raise ValidationError("output_path already exists: choose another name, or send overwrite=true.") from None
        except OSError as error:
            raise write_refusal(error) from None
        return folder / relative

    def _split(self, output_path: str) -> tuple[Path, PurePath]:
        path = PurePath(output_path)
        if not output_path.strip() or "\0" in output_path or ".." in path.parts or not path.name:
            raise ValidationError("output_path must be a file's path, without '..', for example reports/summary.md.")
        if output_path.endswith(("/", os.sep)):
            raise ValidationError("output_path must be a file's path, not a folder's, for example reports/summary.md.")
        if not path.is_absolute():
            return self._folders[0], path
        for folder in self._folders:
            if path.is_relative_to(folder) and path != folder:
                return folder, path.relative_to(folder)
        raise ValidationError(
            "output_path is outside the export folders: send a path relative to the first one, for example "
            "reports/summary.md, or start the server with --export-dir."
        )


def write_refusal(error: OSError) -> ValidationError | MemoryStorageError:
    """Return the error for a failed write. A link in the path raises ELOOP or ENOTDIR."""
    if isinstance(error, NotADirectoryError | IsADirectoryError) or error.errno == errno.ELOOP:
        return ValidationError("output_path contains a link, or a file instead of a folder: choose another path.")
    return MemoryStorageError(f"The file was not written ({error.strerror}): choose another path or check the disk.")


@contextlib.contextmanager
def opened_parent(folder: Path, parts: Sequence[str], *, make: bool = True) -> Iterator[int]:
    """Yield a descriptor of a file's folder. `make` creates missing folders, accessible by their owner only."""
    if make:
        make_own_folder(folder)
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
