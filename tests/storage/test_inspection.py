"""Looking at a file from outside: without a trace, again if it changes, and where it is."""

from contextlib import nullcontext
from pathlib import Path

import apsw
import pytest

from memory_files import SETTINGS, bytes_of
from vector_memory.errors import DatabaseError
from vector_memory.storage.disk import filesystem
from vector_memory.storage.sqlite.database import Database
from vector_memory.storage.sqlite.inspection import inspect
from vector_memory.store import SessionMemoryStore

MOUNTS = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 27 0:29 / /mnt rw - tmpfs tmpfs rw
30 31 0:28 / /mnt/with\040space rw shared:5 master:1 - cifs //server/share rw,vers=3
32 27 0:30 / /twice rw - nfs4 server:/a rw
33 32 0:31 / /twice rw - xfs /dev/vdb rw
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with one memory."""
    path = tmp_path / "memory.db"
    store(path, "first")
    return path


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's table of mounts."""
    table = tmp_path / "mounts"
    table.write_text(MOUNTS.lstrip())
    monkeypatch.setattr(filesystem, "MOUNTS", table)
    return table


def store(path: Path, content: str) -> None:
    with SessionMemoryStore(path, SETTINGS) as opened:
        opened.store_memory("input_prompt", content, session_id="s")


def count(connection: apsw.Connection) -> int:
    ((number,),) = connection.execute("select count(*) from session_memories").fetchall()
    return int(number)


def test_inspecting_leaves_no_trace(path: Path, tmp_path: Path) -> None:
    before = bytes_of(tmp_path)
    assert inspect(path, count) == 1
    assert bytes_of(tmp_path) == before


@pytest.mark.parametrize("in_use", [False, True])
def test_inspecting_cannot_write(path: Path, *, in_use: bool) -> None:
    with SessionMemoryStore(path, SETTINGS) if in_use else nullcontext(), pytest.raises(DatabaseError):
        inspect(path, lambda connection: connection.execute("delete from session_memories"))


def test_a_file_that_changes_during_the_inspection_is_inspected_again(path: Path) -> None:
    seen: list[int] = []

    def look(connection: apsw.Connection) -> int:
        seen.append(count(connection))
        if len(seen) == 1:
            store(path, "second")
        return count(connection)

    assert inspect(path, look) == 2
    assert seen == [1, 2]


def test_a_file_that_a_server_opens_during_the_inspection_is_inspected_again(path: Path) -> None:
    seen: list[int] = []
    opened: list[SessionMemoryStore] = []

    def look(connection: apsw.Connection) -> int:
        if not opened:
            opened.append(SessionMemoryStore(path, SETTINGS))
            opened[0].store_memory("input_prompt", "second", session_id="s")
        seen.append(count(connection))
        return seen[-1]

    assert inspect(path, look) == 2
    assert len(seen) == 2
    opened[0].close()


def test_data_that_is_only_in_the_log_is_seen(path: Path) -> None:
    with SessionMemoryStore(path, SETTINGS) as opened:
        opened.store_memory("input_prompt", "second", session_id="s")
        assert inspect(path, count) == 2


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/memory.db", "ext4"),
        ("/mnt/memory.db", "tmpfs"),
        ("/mnt/with space/deep/memory.db", "cifs"),
        ("/mnt/with spaces/memory.db", "tmpfs"),
        ("/twice/memory.db", "xfs"),
        ("link/memory.db", "cifs"),
    ],
)
def test_a_file_is_on_the_innermost_and_latest_mount_and_a_link_on_that_of_its_target(
    path: str, kind: str, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("/mnt/with space")
    assert filesystem.file_system(tmp_path / path) == kind


def test_a_network_file_system_is_refused_and_others_are_not(mounts: Path) -> None:
    with pytest.raises(DatabaseError, match=r"several machines share \(cifs\).*local disk"):
        filesystem.require_local(Path("/mnt/with space/memory.db"))
    filesystem.require_local(Path("/mnt/memory.db"))
    mounts.unlink()
    filesystem.require_local(Path("/mnt/with space/memory.db"))


def test_a_store_on_a_network_file_system_is_refused_before_a_file_is_created(tmp_path: Path, mounts: Path) -> None:
    mounts.write_text(f"30 27 0:9 / {tmp_path} rw - nfs4 server:/x rw\n")
    with pytest.raises(DatabaseError, match="several machines share"):
        Database(tmp_path / "memory.db", dimensions=8)
    assert not (tmp_path / "memory.db").exists()


@pytest.mark.parametrize(
    "kind", ["nfs4", "cifs", "smb3", "fuse.sshfs", "fuse.glusterfs", "9p", "virtiofs", "drvfs", "fuse.grpcfuse"]
)
def test_these_file_systems_are_shared(kind: str) -> None:
    assert filesystem.is_shared(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "fuse.gocryptfs"])
def test_these_are_not(kind: str) -> None:
    assert not filesystem.is_shared(kind)
