"""The keys that sign an audit log, in a file apart from it: who can only write to the log cannot sign a line.

The file has one key a line. The last one signs; those before it check the lines that they have signed.
"""

import hashlib
import os
import secrets
from pathlib import Path
from typing import NamedTuple

from vector_memory.domain.user_files import MAX_BYTES, opened, read_up_to
from vector_memory.errors import ConfigurationError, DatabaseError, ValidationError
from vector_memory.settings import state_folder
from vector_memory.storage.disk.drafts import Rules, draft_of
from vector_memory.storage.disk.filesystem import make_private_folders

KEY_BYTES = 32
NAME_DIGITS = 16


class AuditKey(NamedTuple):
    """A key and its name, which tells nothing about it."""

    name: str
    secret: bytes


class AuditKeys:
    """The keys in a file. It is read for each use, so that a running server signs with a key that was just added."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Create the first key, unless there is one. Raises ConfigurationError if the file cannot be used."""
        if not self.all():
            try:
                make_private_folders(self.path.parent)
                self._write([secrets.token_bytes(KEY_BYTES)], Rules())
            except ValidationError:  # another worker was faster, or something else has this name
                self.newest()
            except (OSError, DatabaseError) as error:
                raise ConfigurationError(
                    f"The key of the audit log cannot be kept in {self.path}: name another file with --audit-key."
                ) from error

    def add(self) -> AuditKey:
        """Add a key, which signs from now on. Raises DatabaseError if the file cannot be written."""
        key = secrets.token_bytes(KEY_BYTES)
        self._write([*(known.secret for known in self.all()), key], Rules(overwrite=True))
        return self.newest()

    def all(self) -> list[AuditKey]:
        """Return the keys, the oldest first; none if there is no file. Raises ConfigurationError."""
        try:
            with opened(self.path) as stream:
                if os.fstat(stream.fileno()).st_mode & 0o077:
                    raise ConfigurationError(f"Others can use the key in {self.path}: run `chmod 600 {self.path}`.")
                keys = [bytes.fromhex(line.decode()) for line in read_up_to(stream, MAX_BYTES).splitlines()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigurationError(f"The key file {self.path} cannot be read: {error.strerror}.") from error
        except ValueError:
            keys = []
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ConfigurationError(f"{self.path} holds no keys of an audit log: restore it, or name another file.")
        return [AuditKey(hashlib.sha256(b"name" + key).hexdigest()[:NAME_DIGITS], key) for key in keys]

    def newest(self) -> AuditKey:
        """Return the key that signs. Raises ConfigurationError if there is none."""
        keys = self.all()
        if not keys:
            raise ConfigurationError(f"The key file {self.path} is missing: restore it.")
        return keys[-1]

    def _write(self, keys: list[bytes], rules: Rules) -> None:
        with draft_of(self.path, rules) as draft:
            with draft.open() as stream:
                stream.write("".join(f"{key.hex()}\n" for key in keys).encode())
            draft.publish()


def keys_of(data_dir: Path, given: Path | None = None) -> AuditKeys:
    """Return the keys of the audit log in a data folder: in the given file, or in the folder for what programs keep.

    Raises ConfigurationError for a file in the data folder, where whoever can write to the log would find it.
    """
    real = Path(os.path.realpath(data_dir))
    path = given or _own_file(real)
    if Path(os.path.realpath(path)).is_relative_to(real):
        raise ConfigurationError(
            "The key of the audit log must not be in the data folder: name a file elsewhere with --audit-key."
        )
    return AuditKeys(path)


def _own_file(data_dir: Path) -> Path:
    state = state_folder()
    if state is None:
        raise ConfigurationError("There is no home folder for the key of the audit log: name a file with --audit-key.")
    return state / "audit" / f"{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:NAME_DIGITS]}.key"
