"""What lies under the database: which file system, and the files that belong to it."""

import os
import re
from pathlib import Path

from vector_memory.errors import DatabaseError

MOUNTS = Path("/proc/self/mountinfo")
NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|ncpfs|afs|ceph|lustre|gpfs|beegfs|ocfs2|gfs2|davfs"
    r"|fuse\.(sshfs|ceph.*|glusterfs|rclone|s3fs|goofys|gcsfuse|davfs2?|smbnetfs|curlftpfs|blobfuse2?|seaweedfs|juicefs)"
)
PASSED_THROUGH = re.compile(r"9p|vboxsf|drvfs|fuse\.(grpcfuse|osxfs|vmhgfs-fuse)|vmhgfs|prl_fs")
"""How a virtual machine sees its host's files. Processes on either side do not see each other's shared memory."""

OCTAL = re.compile(r"\\([0-7]{3})")


def file_system(path: Path) -> str | None:
    """Return the type of the file system that `path` is on, or will be; None where the system does not tell."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    real = Path(os.path.realpath(path))
    depth, kind = 0, None
    for mount in mounts:
        before, _, after = mount.partition(" - ")
        point = Path(OCTAL.sub(lambda code: chr(int(code[1], 8)), before.split()[4]))
        # Of several mounts on one point the last one is seen.
        if real.is_relative_to(point) and len(point.parts) >= depth:
            depth, kind = len(point.parts), after.split()[0]
    return kind


def is_network(kind: str | None) -> bool:
    """Tell whether this is a file system that other machines share, where a write-ahead log does not work."""
    return kind is not None and NETWORK.fullmatch(kind) is not None


def is_passed_through(kind: str | None) -> bool:
    """Tell whether this is a folder of the machine that this virtual machine runs on."""
    return kind is not None and PASSED_THROUGH.fullmatch(kind) is not None


def require_local(path: Path) -> None:
    """Refuse a database on a network file system: machines there do not share the memory that keeps them in step."""
    kind = file_system(path)
    if is_network(kind):
        raise DatabaseError(
            f"The database would be on a network file system ({kind}), where several processes can damage it: choose "
            "a --database-path (for the index of memory files a --db-dir) on a local disk."
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


def make_private_folders(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for its owner only, whatever the umask allows."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
