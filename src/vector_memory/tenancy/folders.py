"""Namespaces on one machine: each is a folder with a memory file of its own, in a data folder."""

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from vector_memory.settings import DATABASE_NAME
from vector_memory.storage.disk.filesystem import log_of, make_private_folders, size_of
from vector_memory.storage.disk.ignoring import make_own_folder
from vector_memory.tenancy.quotas import Quota, read_quota, write_quota
from vector_memory.tenancy.registry import Sizes, existing_name, invalid_name, missing_namespace
from vector_memory.tenancy.tokens import Tokens, token_file

LONGEST_NAME = 64
NAME = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{LONGEST_NAME - 1}}}")
FOLDER = "namespaces"
KEY_BYTES = 32


class FolderRegistry:
    """`Registry` over a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._folder = data_dir / FOLDER
        self.tokens: Tokens = token_file(data_dir)

    def names(self) -> list[str]:
        """Return the names of all namespaces, sorted."""
        return sorted(path.name for path in self._folder.glob("*/") if NAME.fullmatch(path.name))

    def create(self, name: str) -> None:
        """Create an empty namespace. Raises ValidationError for a name that is invalid or in use."""
        if not NAME.fullmatch(name):
            raise invalid_name(LONGEST_NAME)
        make_own_folder(self._data_dir)
        make_private_folders(self._folder)
        try:
            (self._folder / name).mkdir(mode=0o700)
        except FileExistsError:
            raise existing_name(name) from None

    def require(self, name: str) -> None:
        """Raise NotFoundError unless there is such a namespace."""
        if not NAME.fullmatch(name) or not (self._folder / name).is_dir():
            raise missing_namespace(name)

    def address(self, name: str) -> Path:
        """Return the file of a namespace."""
        return self._folder / name / DATABASE_NAME

    def quota(self, name: str) -> Quota:
        """Return the limits of a namespace. Raises ConfigurationError if their file is damaged."""
        return read_quota(self._folder / name)

    def set_quota(self, name: str, quota: Quota) -> None:
        """Limit a namespace. Raises NotFoundError."""
        self.require(name)
        write_quota(self._folder / name, quota)

    def sizes(self, name: str) -> Sizes:
        """Return the sizes of a namespace's files."""
        path = self.address(name)
        return Sizes(size_of(path), size_of(log_of(path)))

    def key(self) -> bytes:
        """Return the key of the folder, which is made at its first use."""
        path = self._data_dir / "state.key"
        if not path.exists():
            make_own_folder(self._data_dir)
            descriptor, draft = tempfile.mkstemp(dir=self._data_dir)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(os.urandom(KEY_BYTES))
            with suppress(FileExistsError):  # another worker was faster
                os.link(draft, path)
            Path(draft).unlink()
        return path.read_bytes()

    def require_available(self) -> None:
        """Do nothing: whoever serves a folder can read it."""

    def close(self) -> None:
        """Do nothing: files are opened for each use."""
