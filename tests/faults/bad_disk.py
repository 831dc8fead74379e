"""A disk that is full or reports errors: SQLite's own VFS, some calls of which answer with an error code.

The functions are exchanged in SQLite's tables (https://www.sqlite.org/c3ref/io_methods.html). A VFS written in Python
could not tell what happens: apsw raises an exception of a VFS even if SQLite went on in spite of it, as it does when a
checkpoint after a commit fails.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from typing import Any, ClassVar

import apsw

FULL = {"write": apsw.SQLITE_FULL, "shm": apsw.SQLITE_IOERR_SHMSIZE}
"""What the operations answer on a full disk. `open` is not among them: the files are there already."""

BROKEN = {
    "open": apsw.SQLITE_CANTOPEN,
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "shm": apsw.SQLITE_IOERR_SHMMAP,
}
"""What they answer when the disk reports errors."""


Codes = dict[str, int]
"""What operations answer instead of doing their work."""


class Methods(ctypes.Structure):
    """sqlite3_io_methods."""

    _fields_: ClassVar = [
        ("version", c_int),
        *[(name, c_void_p) for name in ("close", "read", "write", "truncate", "sync", "size")],
        *[(name, c_void_p) for name in ("lock", "unlock", "reserved", "control", "sector", "characteristics")],
        *[(name, c_void_p) for name in ("shm", "shm_lock", "shm_barrier", "shm_unmap", "fetch", "unfetch")],
    ]


class File(ctypes.Structure):
    """sqlite3_file."""

    _fields_: ClassVar = [("methods", POINTER(Methods))]


class Vfs(ctypes.Structure):
    """The beginning of sqlite3_vfs."""

    _fields_: ClassVar = [
        ("version", c_int),
        ("file_size", c_int),
        ("path_size", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
    ]


OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, POINTER(File), c_int, c_void_p)
PROTOTYPES = {
    "read": CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64),
    "write": CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64),
    "truncate": CFUNCTYPE(c_int, c_void_p, c_int64),
    "sync": CFUNCTYPE(c_int, c_void_p, c_int),
    "shm": CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int, c_void_p),
}


class BadDisk:
    """Decides which operations fail. Files that are opened inside `bad_disk` ask it before each of theirs."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._left = 0
        self._lasting = False
        self.failed = False
        self._kept: list[Any] = []
        self._methods: dict[int, Any] = {}

    def fail(self, codes: dict[str, int], at: int, *, lasting: bool) -> None:
        """Let the operation number `at` of those in `codes` fail and, if `lasting`, all that follow."""
        self._codes, self._left, self._lasting, self.failed = codes, at, lasting, False

    def heal(self) -> None:
        """Let every operation work again."""
        self._codes = {}

    def code(self, operation: str) -> int | None:
        """Return what an operation has to answer, or None if it may go on."""
        if operation not in self._codes:
            return None
        self._left -= 1
        if self._left > 0 or (self._left < 0 and not self._lasting):
            return None
        self.failed = True
        return self._codes[operation]

    def open_with(self, original: Callable[..., int]) -> Callable[..., int]:
        """Return an xOpen that puts this disk under the files it opens."""

        def opened(vfs: int, name: int, file: Any, flags: int, out_flags: int) -> int:
            code = self.code("open")
            if code is not None:
                file[0].methods = None
                return code
            code = original(vfs, name, file, flags, out_flags)
            if file[0].methods:
                file[0].methods = self._under(file[0].methods)
            return code

        return opened

    def _under(self, original: Any) -> Any:
        """Return the functions of a file, each asking first; the same for files with the same functions."""
        address = ctypes.addressof(original[0])
        if address not in self._methods:
            methods = Methods.from_buffer_copy(original[0])
            for operation, prototype in PROTOTYPES.items():
                # Only the database itself has shared memory.
                if function := getattr(original[0], operation):
                    replacement = prototype(self._asking(operation, prototype(function)))
                    self._kept.append(replacement)
                    setattr(methods, operation, ctypes.cast(replacement, c_void_p).value)
            self._methods[address] = ctypes.pointer(methods)
        return self._methods[address]

    def _asking(self, operation: str, original: Callable[..., int]) -> Callable[..., int]:
        def asked(file: int, *arguments: int) -> int:
            code = self.code(operation)
            if code is None:
                return original(file, *arguments)
            if operation == "write":
                # A disk that is full takes some of it.
                buffer, amount, offset = arguments
                original(file, buffer, amount // 2, offset)
            return code

        return asked


def default_vfs() -> Vfs:
    """Return SQLite's own description of the default VFS."""
    pointer = c_void_p()
    connection = apsw.Connection(":memory:")
    connection.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(pointer))
    connection.close()
    assert pointer.value is not None
    return Vfs.from_address(pointer.value)


@contextlib.contextmanager
def bad_disk() -> Iterator[BadDisk]:
    """Give a disk under every file that is opened in the block. All of them have to be closed at its end."""
    disk, vfs = BadDisk(), default_vfs()
    original = vfs.open
    replacement = OPEN(disk.open_with(OPEN(original)))
    vfs.open = ctypes.cast(replacement, c_void_p).value
    try:
        yield disk
    finally:
        disk.heal()
        vfs.open = original
