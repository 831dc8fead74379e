"""Says when something changes in folders, which may vanish and come back, as when Git changes the branch."""

import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchfiles import Change

DEBOUNCE_MS = 2_000
"""Maximum time for which changes are collected."""

QUIET_MS = 500
"""Changes are reported earlier if there are none for this long."""

EXISTENCE_CHECK_MS = 1_000
"""Interval of checks that the watched folders are still the same ones."""

SECONDS_BETWEEN_CHECKS = 1.0
"""Interval of checks for folders of which none exists."""


def follow(
    folders: Collection[Path], matters: Callable[["Change", str], bool], stopping: threading.Event
) -> Iterator[bool]:
    """Yield True once the folders are watched, and after each change that matters, until `stopping`.

    False: a folder was removed, replaced or has come back, and is watched again from the next True on. Raises any error
    of the system.
    """
    while not stopping.is_set():
        known = {folder: identity(folder) for folder in folders}
        if any(known.values()):
            yield from _while_the_same(known, matters, stopping)
            yield False
        else:
            stopping.wait(SECONDS_BETWEEN_CHECKS)


def _while_the_same(
    known: dict[Path, tuple[int, int] | None], matters: Callable[["Change", str], bool], stopping: threading.Event
) -> Iterator[bool]:
    import watchfiles  # noqa: PLC0415 - only for what follows a folder

    there = [folder for folder, found in known.items() if found]
    is_first = True
    try:
        for changes in watchfiles.watch(
            *there,
            watch_filter=matters,
            debounce=DEBOUNCE_MS,
            step=QUIET_MS,
            stop_event=stopping,
            rust_timeout=EXISTENCE_CHECK_MS,
            yield_on_timeout=True,
        ):
            # A folder that comes back may have the number of the one that was removed.
            removed = watchfiles.Change.deleted in {change for change, path in changes if Path(path) in known}
            if removed or {folder: identity(folder) for folder in known} != known:
                return
            if changes or is_first:  # the first time: something may have changed just before
                yield True
            is_first = False
    except FileNotFoundError:  # removed in the meantime
        stopping.wait(SECONDS_BETWEEN_CHECKS)


def identity(folder: Path) -> tuple[int, int] | None:
    """Return a folder's device and inode, which change when it is replaced; None if it does not exist."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
