"""Files that users name are opened only if they are regular files, and read only up to a limit."""

import os
import socket
from collections.abc import Iterator
from errno import EFBIG
from io import BytesIO
from pathlib import Path

import pytest

from vector_memory.domain.user_files import open_regular, read_file, read_up_to


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a file, a pipe, a socket and a folder, and links to them and to a device."""
    monkeypatch.chdir(tmp_path)
    Path("file").write_bytes(b"text")
    os.mkfifo("pipe")
    Path("folder").mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        for name in ("file", "pipe", "folder", "socket"):
            Path(f"link to {name}").symlink_to(name)
        Path("link to device").symlink_to("/dev/zero")
        yield tmp_path


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
@pytest.mark.parametrize("name", ["{kind}", "link to {kind}"])
def test_what_is_no_file_is_refused_at_once_with_what_it_is(place: Path, kind: str, name: str) -> None:
    path = Path("/dev/zero") if name.format(kind=kind) == "device" else place / name.format(kind=kind)
    with pytest.raises(OSError, match=kind) as refused:
        read_file(path)
    assert kind in refused.value.strerror


@pytest.mark.usefixtures("place")
def test_links_are_followed_unless_the_caller_forbids_it() -> None:
    assert read_file("link to file") == b"text"
    with pytest.raises(OSError, match="it is a link"):
        read_file("link to file", links=False)


def test_a_file_is_read_up_to_its_limit_and_not_beyond(place: Path) -> None:
    assert read_file(place / "file", 4) == b"text"
    with pytest.raises(OSError, match="longer than 3 bytes") as refused:
        read_file(place / "file", 3)
    assert refused.value.errno == EFBIG


def test_a_file_that_grows_while_it_is_read_is_refused_too() -> None:
    with pytest.raises(OSError, match="longer than 3 bytes"):
        read_up_to(BytesIO(b"more"), 3)


def test_a_file_that_becomes_a_pipe_before_it_is_opened_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_open = os.open

    def replaced(name: str, *arguments: int, **named: int | None) -> int:
        Path(name).unlink()
        os.mkfifo(name)
        return really_open(name, *arguments, **named)

    before = sum(1 for _ in Path("/dev/fd").iterdir())
    monkeypatch.setattr(os, "open", replaced)
    with pytest.raises(OSError, match="named pipe"):
        open_regular(str(place / "file"))
    assert sum(1 for _ in Path("/dev/fd").iterdir()) == before
