"""The file system of a database, and the files that SQLite keeps next to it."""

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from vector_memory.errors import DatabaseError, MemoryStorageError
from vector_memory.storage.cancellation import current_call, require_wanted

MOUNTS = Path("/proc/self/mountinfo")
SHARED = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|ncpfs|afs|ceph|lustre|gpfs|beegfs|ocfs2|gfs2|davfs"
    r"|fuse\.(sshfs|ceph.*|glusterfs|rclone|s3fs|goofys|gcsfuse|davfs2?|smbnetfs|curlftpfs|blobfuse2?|seaweedfs|juicefs)"
    r"|9p|virtiofs|vboxsf|drvfs|vmhgfs|prl_fs|fuse\.(grpcfuse|osxfs|vmhgfs-fuse)"
)
"""Network file systems, and those that give a virtual machine its host's files."""

OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """A mounted file system: the numbers of its device (as in 8:1), where it is mounted, and its type."""

    device: str
    point: Path
    kind: str


def mount_of(path: Path) -> Mount | None:
    """Return the mounted file system of `path`, which need not exist; None if the system does not report it."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    real, found = Path(os.path.realpath(path)), None
    for line in lines:
        before, _, after = line.partition(" - ")
        _, _, device, _, point, *_ = before.split()
        mount = Mount(device, Path(OCTAL.sub(lambda code: chr(int(code[1], 8)), point)), after.split()[0])
        # The last of several mounts on one point is the visible one.
        if real.is_relative_to(mount.point) and (found is None or len(mount.point.parts) >= len(found.point.parts)):
            found = mount
    return found


def file_system(path: Path) -> str | None:
    """Return the type of the file system of `path`, which need not exist; None if the system does not report it."""
    mount = mount_of(path)
    return None if mount is None else mount.kind


def is_shared(kind: str | None) -> bool:
    """Return whether other machines use this file system, where a write-ahead log does not work."""
    return kind is not None and SHARED.fullmatch(kind) is not None


def require_local(path: Path) -> None:
    """Raise DatabaseError for a shared file system: machines do not share the memory that SQLite needs for locking."""
    kind = file_system(path)
    if is_shared(kind):
        raise DatabaseError(
            f"The database would be on a file system that several machines share ({kind}), where processes can damage "
            "it: choose a --database-path (for the index of memory files a --db-dir) on a local disk."
        )


def log_of(path: Path) -> Path:
    """Return the write-ahead log of a database."""
    return path.with_name(f"{path.name}-wal")


def journal_of(path: Path) -> Path:
    """Return the rollback journal of a database, which the original server wrote."""
    return path.with_name(f"{path.name}-journal")


def log_index_of(path: Path) -> Path:
    """Return the shared index of the write-ahead log of a database."""
    return path.with_name(f"{path.name}-shm")


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def make_private_folders(folder: Path) -> None:
    """Create a folder and its missing parents, accessible by their owner only, whatever the umask allows."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def is_private_folder(folder: Path) -> bool:
    """Return whether a folder exists that only this user can use; another one might have made it."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077


def flush_to_disk(descriptor: int) -> None:
    """Flush a file or folder to the disk; on macOS, fsync leaves it in the disk's cache.

    Raises OSError.
    """
    import fcntl  # noqa: PLC0415 - not available on every system

    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is None:
        os.fsync(descriptor)
        return
    try:
        fcntl.fcntl(descriptor, full)
    except OSError:  # a file system that does not know it, such as a share
        os.fsync(descriptor)


# Locks on open files. A lock ends with the descriptor that holds it, and so with its process.

FILE_LOCK_TIMEOUT_SECONDS = 30.0
SECONDS_BETWEEN_ATTEMPTS = 0.005


def lock(descriptor: int) -> None:
    """Lock a file; wait for other processes until 30 s after the client's call arrived.

    Raises MemoryStorageError after that, and CancelledCallError if the client cancels the call.
    """
    call = current_call.get()
    until = (call.arrived_at if call else time.monotonic()) + FILE_LOCK_TIMEOUT_SECONDS
    while not lock_if_free(descriptor):
        require_wanted()
        if time.monotonic() >= until:
            raise MemoryStorageError("Another process keeps the file locked. Nothing was written: try again.")
        time.sleep(SECONDS_BETWEEN_ATTEMPTS)
    require_wanted()


@contextmanager
def lock_file(path: Path) -> Iterator[int]:
    """Yield a descriptor of a file that exists only to be locked; the block releases its lock.

    Raises OSError if it cannot be opened.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def lock_if_free(descriptor: int) -> bool:
    """Lock a file unless another process has locked it; False if it has."""
    import fcntl  # noqa: PLC0415 - Windows has none; servers there offer all tools that need no lock

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
