"""The Git repository that a folder is in, read from its files as gitrepository-layout(5) describes them."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GIT_FILE = b"gitdir: "
BARE = re.compile(rb"^\s*(\[core\]\s*)?bare\s*(=\s*(true|yes|on|1))?\s*$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Repository:
    """A checkout. `work_tree`: its topmost folder. `git_folder`: of its repository, which several checkouts can share.

    `is_linked`: it was made by `git worktree add`.
    """

    work_tree: Path
    git_folder: Path
    is_linked: bool

    @property
    def main_work_tree(self) -> Path | None:
        """The checkout that the repository was made with; None if it has none, or it is somewhere else."""
        if not self.is_linked:
            return self.work_tree
        return self.git_folder.parent if self.git_folder.name == ".git" and not is_bare(self.git_folder) else None

    def work_trees(self) -> Iterator[Path]:
        """Yield the topmost folders of this checkout and of all that were made by `git worktree add`."""
        yield self.work_tree
        for link in sorted(self.git_folder.glob("worktrees/*/gitdir")):
            with suppress(OSError):
                yield Path(os.path.realpath(named_in(link))).parent


def real_path(folder: Path) -> Path:
    """Return the one path of a folder: without links, and with names as they are on the disk.

    Some file systems also find a name in other cases. The folder need not exist.
    """
    real = Path(os.path.realpath(folder))
    if not _is_same(real, Path(str(real).swapcase())):  # the file system tells cases apart, as most do
        return real
    path = Path(real.anchor)
    for name in real.parts[1:]:
        path /= _name_on_disk(path, name)
    return path


def _name_on_disk(folder: Path, name: str) -> str:
    """Return how a folder's list names the entry that `name` finds."""
    try:
        entries = [entry.name for entry in folder.iterdir()]
    except OSError:
        return name
    same = (entry for entry in entries if _is_same(folder / entry, folder / name))
    return name if name in entries else next(same, name)


def repository_of(folder: Path) -> Repository | None:
    """Return the innermost repository that a folder, which need not exist, is in."""
    real = real_path(folder)
    return next(filter(None, map(_repository_at, (real, *real.parents))), None)


def main_checkout(folder: Path) -> Path:
    """Return the real path of the same folder in the main checkout if it is in a linked one, else of the folder."""
    repository, real = repository_of(folder), real_path(folder)
    if repository is None or not repository.is_linked or repository.main_work_tree is None:
        return real
    return repository.main_work_tree / real.relative_to(repository.work_tree)


def checkouts(folder: Path) -> list[Path]:
    """Return the real path of the same folder in every checkout of its repository, itself first."""
    repository, real = repository_of(folder), real_path(folder)
    if repository is None:
        return [real]
    inside = real.relative_to(repository.work_tree)
    return list(dict.fromkeys([real, *(work_tree / inside for work_tree in repository.work_trees())]))


def is_bare(git_folder: Path) -> bool:
    """Return whether a repository has no checkout of its own."""
    files = [git_folder / name for name in ("config", "config.worktree")]
    return any(BARE.search(file.read_bytes()) for file in files if file.is_file())


def named_in(file: Path) -> Path:
    """Return the path that a file of Git contains."""
    return file.parent / os.fsdecode(file.read_bytes().removeprefix(GIT_FILE).rstrip(b"\r\n"))


def _repository_at(work_tree: Path) -> Repository | None:
    """Return the repository whose checkout has this topmost folder."""
    entry = work_tree / ".git"
    try:
        git_folder = named_in(entry) if entry.is_file() else entry
        if not os.path.lexists(git_folder / "HEAD"):
            return None
        common = git_folder / "commondir"
        if not common.is_file():
            return Repository(work_tree, git_folder, is_linked=False)
        shared = Path(os.path.realpath(named_in(common)))
        return Repository(work_tree, shared, _is_listed(git_folder, shared, entry))
    except (OSError, ValueError):  # unreadable, or not what Git writes
        return None


def _is_listed(git_folder: Path, shared: Path, entry: Path) -> bool:
    """Return whether a repository lists a checkout: a foreign folder could name any repository as its own."""
    link = git_folder / "gitdir"
    return _is_same(git_folder.parent, shared / "worktrees") and link.is_file() and _is_same(named_in(link), entry)


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)
