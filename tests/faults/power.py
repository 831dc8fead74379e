"""A disk whose power can fail: a VFS that knows, of every file, what is on the platter and what is only on its way.

The real files are written as always, so that locks and shared memory work. Beside them a `Disk` keeps what each file
held when it was last synced, and every change since. A cut makes a folder of what a power failure at that moment could
have left: of the changes not yet synced each sector landed, or did not, or landed as garbage, whatever came after it;
names made or removed since the folder was last synced are there or are not; shared memory is nonsense.
"""

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import apsw

from vector_memory.storage.disk.drafts import Draft

SECTOR = 512
NEW_NAME = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
"""SQLite syncs the folder together with the first sync of such a file."""


class Change(NamedTuple):
    """Bytes written at an offset or, without bytes, the length a file was cut to."""

    offset: int
    data: bytes | None


class File:
    """The contents of a file on the platter, and the writes that have not reached it."""

    def __init__(self, content: bytes) -> None:
        self._durable = bytearray(content)
        self._pending: list[Change] = []

    def write(self, data: bytes, offset: int) -> None:
        """Note a write, sector by sector."""
        end = offset + len(data)
        while offset < end:
            stop = min(end, offset - offset % SECTOR + SECTOR)
            self._pending.append(Change(offset, data[len(data) - end + offset : len(data) - end + stop]))
            offset = stop

    def truncate(self, length: int) -> None:
        """Note that the file was cut off."""
        self._pending.append(Change(length, None))

    def sync(self) -> None:
        """Let everything land."""
        for change in self._pending:
            apply(self._durable, change)
        self._pending.clear()

    def after_power_failure(self, source: random.Random) -> bytes:
        """Return what may be left."""
        left = bytearray(self._durable)
        landing = source.choice((0.0, 0.5, 0.9, 1.0))
        for change in self._pending:
            if source.random() < landing:
                apply(left, change)
            elif change.data is not None and source.random() < 0.1:
                apply(left, Change(change.offset, source.randbytes(len(change.data))))
        return bytes(left)


def apply(content: bytearray, change: Change) -> None:
    """Carry out a change; a gap before it is filled with zeros."""
    content.extend(bytes(max(0, change.offset - len(content))))
    if change.data is None:
        del content[change.offset :]
    else:
        content[change.offset : change.offset + len(change.data)] = change.data


class Disk:
    """All files of a folder. After every `gap` changes on average, `on_cut(image)` gets what would be left."""

    def __init__(self, folder: Path, source: random.Random, gap: int, on_cut: Callable[[Path], None]) -> None:
        self._folder = folder
        self._source = source
        self._gap = gap
        self._on_cut = on_cut
        self._files: dict[str, File] = {}
        self._durable_names: dict[str, File] = {}
        self._cuts = 0
        self._left = source.randint(1, 2 * gap)

    def opened(self, path: str, read: Callable[[], bytes], *, new_name: bool) -> File:
        """Return the file of a path; `read` returns its contents if it is not known yet."""
        if path not in self._files:
            self._files[path] = File(read())
            if not new_name:
                self._durable_names[path] = self._files[path]
        return self._files[path]

    def delete(self, path: str, *, durably: bool) -> None:
        """Remove a name."""
        self._files.pop(path, None)
        if durably:
            self.sync_names()
        self.tick()

    def publish(self, draft: str, name: str) -> None:
        """Give a file its name, durably: what writes drafts syncs the file and its folder."""
        self._files[name] = self._files.pop(draft)
        self.sync_names()
        self.tick()

    def sync_names(self) -> None:
        """Let everything that was made and removed land."""
        self._durable_names = dict(self._files)

    def tick(self) -> None:
        """Let the power fail if it is time. Called when a change is noted, and before a sync."""
        self._left -= 1
        if self._left == 0:
            self._left = self._source.randint(1, 2 * self._gap)
            self._on_cut(self._image())

    def _image(self) -> Path:
        self._cuts += 1
        folder = self._folder / f"cut{self._cuts}"
        folder.mkdir(parents=True)
        for path in self._files.keys() | self._durable_names.keys():
            file = self._source.choice((self._files, self._durable_names)).get(path)
            if file is not None:
                (folder / Path(path).name).write_bytes(file.after_power_failure(self._source))
        (folder / "memory.db-shm").write_bytes(self._source.randbytes(32_768))
        return folder


class WatchedFile(apsw.VFSFile):
    """A real file that reports its changes to the disk."""

    def __init__(self, disk: Disk, path: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        self._new_name = bool(flags[0] & NEW_NAME)
        self._file = disk.opened(path, self._whole, new_name=self._new_name)

    def _whole(self) -> bytes:
        size = self.xFileSize()
        return self.xRead(size, 0) if size else b""

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._file.write(bytes(data), offset)
        self._disk.tick()
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._file.truncate(newsize)
        self._disk.tick()
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.tick()
        super().xSync(flags)
        self._file.sync()
        if self._new_name:
            self._disk.sync_names()
            self._new_name = False


class WatchedVFS(apsw.VFS):
    """The default VFS while power can fail."""

    def __init__(self, disk: Disk) -> None:
        super().__init__("power", "unix")
        self._disk = disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if name is None:
            return apsw.VFSFile("unix", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return WatchedFile(self._disk, path, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self._disk.delete(filename, durably=syncdir)


@contextlib.contextmanager
def failing_power(disk: Disk) -> Iterator[None]:
    """Let every connection that is opened in the block write to the disk."""
    vfs = WatchedVFS(disk)
    apsw.set_default_vfs("power")
    publish = Draft.publish

    def published(draft: Draft) -> None:
        publish(draft)
        disk.publish(str(draft.path), str(draft.target.path))

    try:
        with mock.patch.object(Draft, "publish", published):
            yield
    finally:
        apsw.set_default_vfs("unix")
        vfs.unregister()
