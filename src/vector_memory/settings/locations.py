"""Where the database, exports and memory files are, described once like every setting."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from vector_memory.domain.user_files import folder_of_user
from vector_memory.errors import ConfigurationError
from vector_memory.settings.database_url import DatabaseUrl, MemoryAddress, SettingsModel, checked_path

# The Git repository that a folder is in, read from its files as gitrepository-layout(5) describes them.

GIT_FILE = b"gitdir: "
COMMIT = re.compile("[0-9a-f]{40,64}")
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


def head_of(folder: Path) -> str | None:
    """Return the commit that is checked out where a folder is; None if the files of Git do not say it."""
    repository = repository_of(folder)
    if repository is None:
        return None
    entry, shared = repository.work_tree / ".git", repository.git_folder
    try:
        head = ((named_in(entry) if entry.is_file() else entry) / "HEAD").read_text().strip()
        name = head.removeprefix("ref: ")
        if name != head:
            packed = shared / "packed-refs"
            lines = packed.read_text().splitlines() if packed.is_file() else []
            listed = next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
            head = (shared / name).read_text().strip() if (shared / name).is_file() else listed
    except (OSError, ValueError):
        return None
    return head if COMMIT.fullmatch(head) else None


def _is_listed(git_folder: Path, shared: Path, entry: Path) -> bool:
    """Return whether a repository lists a checkout: a foreign folder could name any repository as its own."""
    link = git_folder / "gitdir"
    return _is_same(git_folder.parent, shared / "worktrees") and link.is_file() and _is_same(named_in(link), entry)


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


MEMORY_FOLDER = "memory"
"""Folder of a project that holds its memory and its memory files."""

EXPORT_FOLDER = "exports"
"""Folder beside a memory that documents are written to."""

DATABASE_NAME = "agent_session_memory.db"
"""Name of the memory there."""

MEMORY, FILES = f"{MEMORY_FOLDER}/{DATABASE_NAME}", f"{MEMORY_FOLDER}/**/*.md"
"""Patterns of the memory of a project, and of its memory files."""


def full_path(path: Path) -> Path:
    """Return `path` as an absolute path. No shell reads a client's settings file, so `~` is expanded here.

    Raises ValueError, and ConfigurationError for a URL.
    """
    checked_path(path)
    if "${" in str(path):
        raise ValueError("it contains a ${variable} that the client did not expand")
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise ValueError("its ~ cannot be expanded to a home folder") from None


FullPath = Annotated[Path, AfterValidator(full_path)]


def project_of(folder: Path, held: str = MEMORY) -> Path:
    """Return the real path of the project that a folder is in: the top of its repository, in the main checkout.

    A folder between them that has a memory already, or a file of the pattern `held`, keeps it. Without a repository, or
    if the repository is another user's, who could then read and change the memory, it is the folder.
    """
    folder = main_checkout(folder)
    repository = repository_of(folder)
    if repository is None:
        return folder
    top = repository.work_tree
    owner = top.stat().st_uid
    # Whoever may write to a folder, as everybody to /tmp, can make it a repository.
    if (top / ".git").lstat().st_uid not in (0, owner) or (folder.exists() and folder.stat().st_uid != owner):
        return folder
    inside = [place for place in (folder, *folder.parents) if place.is_relative_to(top)]
    return next((place for place in inside for each in (MEMORY, held) if any(place.glob(each))), top)


def client_folder() -> Path:
    """Return the folder that the client works in. Raises ValueError."""
    return full_path(Path(os.environ.get("CLAUDE_PROJECT_DIR") or Path.cwd()))


def project_folder(held: str = MEMORY) -> Path:
    """Return the project that the client works in.

    Raises ConfigurationError if the client's path is invalid.
    """
    try:
        return project_of(client_folder(), held)
    except ValueError as error:
        raise ConfigurationError(f"CLAUDE_PROJECT_DIR is invalid: {error}.") from None


def checkout_folder() -> Path | None:
    """Return the project as the client has it, which may be in a linked checkout; None if its path is invalid."""
    try:
        folder, project = real_path(client_folder()), project_folder()
        above = len(main_checkout(folder).relative_to(project).parts)
    except (ConfigurationError, OSError, ValueError):
        return None
    return (folder, *folder.parents)[above]


def state_folder() -> Path | None:
    """Return the user's folder for programs' state; None if the user has no home."""
    state = folder_of_user(".local/state", "XDG_STATE_HOME")
    return state and state / "vector-memory"


ALTERNATIVES = ("database_path", "working_dir", "database_url")
"""The fields that say where the memory is; a flag for one of them overrides the variables of all."""


class DatabaseFile(SettingsModel):
    """The file of a memory. A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`."""

    database_path: FullPath | None = Field(
        default=None, description="Database file of the memory; created when something is stored."
    )
    working_dir: FullPath | None = Field(
        default=None,
        description="Folder that contains the database, memory/agent_session_memory.db. Default: CLAUDE_PROJECT_DIR or "
        "the current folder, or the top of its Git repository.",
    )


class DatabaseServer(SettingsModel):
    """The PostgreSQL database. A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`."""

    database_url: str | None = Field(
        default=None,
        repr=False,
        description="PostgreSQL database of the memory, instead of a file: postgresql://USER@HOST/DATABASE.",
    )
    database_password_file: FullPath | None = Field(
        default=None, description="File with its password. Default: PGPASSWORD or ~/.pgpass."
    )
    database_unencrypted: bool = Field(
        default=False, description="Allow connections without TLS to a database on another machine."
    )

    def url(self) -> DatabaseUrl | None:
        """Return the address of the database, if one is named. Raises ConfigurationError if it cannot be used."""
        if self.database_url is None:
            return None
        return DatabaseUrl.parse(
            self.database_url, password_file=self.database_password_file, unencrypted=self.database_unencrypted
        )


class DatabaseLocation(DatabaseServer, DatabaseFile):
    """Where the memory is: in a file, or in a PostgreSQL database."""

    @model_validator(mode="after")
    def _one_location(self) -> "DatabaseLocation":
        if self.database_path is not None and self.working_dir is not None:
            raise ValueError("Use either --database-path or --working-dir (or one of their variables), not both")
        if self.database_path is not None and self.database_url is not None:
            raise ValueError("Use either --database-path or --database-url (or one of their variables), not both")
        return self

    def address(self) -> MemoryAddress:
        """Return where the memory is. Raises ConfigurationError for a URL that cannot be used."""
        return self.url() or self.database_path or self.folder() / DATABASE_NAME

    def folder(self) -> Path:
        """Return the folder on this machine that holds the database file, and where documents are written."""
        if self.database_path is not None:
            return self.database_path.parent
        project = project_folder() if self.working_dir is None else main_checkout(self.working_dir)
        return project / MEMORY_FOLDER

    def is_default(self) -> bool:
        """Return whether no setting says where the memory is."""
        return all(getattr(self, name) is None for name in ALTERNATIVES)


def export_folder_of(address: MemoryAddress) -> Path:
    """Return the folder that documents are written to by default: beside the file, or in the folder of the project."""
    return (address.parent if isinstance(address, Path) else DatabaseLocation().folder()) / EXPORT_FOLDER


class ServerLocations(DatabaseLocation):
    """Where the server keeps the database and may write documents."""

    export_dir: list[FullPath] | None = Field(
        default=None,
        description="Folder that documents may be written to; repeatable, in the variable separated by colons. "
        "Default: exports/ next to the database file, or where it would be by default.",
    )


class FileLocations(SettingsModel):
    """Where the Markdown files of `--toolsets files` and their index are.

    A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`, or `CWE_NAME` as in the specification.
    """

    memory_dir: FullPath | None = Field(
        default=None,
        description="Folder of Markdown files; need not exist. Default: memory/ in the project, as for --working-dir.",
    )
    db_dir: FullPath | None = Field(
        default=None,
        description="Folder for the index of the Markdown files; it should be outside the project. Default: "
        "~/.claude/cwe/memory.",
    )

    def folder(self) -> Path:
        """Return the folder of Markdown files."""
        return self.memory_dir or project_folder(FILES) / MEMORY_FOLDER

    def index_folder(self) -> Path:
        """Return the folder for the index. Raises ConfigurationError if it is in the home of a user who has none."""
        folder = self.db_dir or folder_of_user(".claude/cwe/memory")
        if folder is None:
            raise ConfigurationError(
                "No home directory to keep the index of the Markdown files in: name a folder with --db-dir."
            )
        return folder
