"""The Git repository that a folder is in, read from its files as gitrepository-layout(5) describes them."""

import os
from dataclasses import dataclass
from pathlib import Path

GIT_FILE = "gitdir:"


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
        return self.git_folder.parent if self.git_folder.name == ".git" else None


def repository_of(folder: Path) -> Repository | None:
    """Return the innermost repository that a folder, which need not exist, is in."""
    real = Path(os.path.realpath(folder))
    return next(filter(None, map(_repository_at, (real, *real.parents))), None)


def main_checkout(folder: Path) -> Path:
    """Return the same folder in the main checkout if it is in a linked one, and else the folder itself."""
    repository = repository_of(folder)
    if repository is None or not repository.is_linked or repository.main_work_tree is None:
        return folder
    return repository.main_work_tree / Path(os.path.realpath(folder)).relative_to(repository.work_tree)


def _repository_at(work_tree: Path) -> Repository | None:
    """Return the repository whose checkout has this topmost folder."""
    entry = work_tree / ".git"
    try:
        git_folder = _named_in(entry) if entry.is_file() else entry
        if not os.path.lexists(git_folder / "HEAD"):
            return None
        common = git_folder / "commondir"
        if not common.is_file():
            return Repository(work_tree, git_folder, is_linked=False)
        shared = Path(os.path.realpath(git_folder / os.fsdecode(common.read_bytes().strip())))
        return Repository(work_tree, shared, is_linked=True)
    except (OSError, ValueError):  # unreadable, or not what Git writes
        return None


def _named_in(file: Path) -> Path:
    """Return the folder that a file names instead of being it, in a linked checkout or a submodule."""
    kind, _, named = os.fsdecode(file.read_bytes().strip()).partition(" ")
    if kind != GIT_FILE:
        raise ValueError(kind)
    return file.parent / named
