"""Where the database, exports and memory files are, described once like every setting."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from vector_memory.domain.user_files import folder_of_user
from vector_memory.errors import ConfigurationError
from vector_memory.settings.database_url import DatabaseUrl, MemoryAddress, checked_path
from vector_memory.settings.repository import main_checkout, repository_of

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


def project_folder(held: str = MEMORY) -> Path:
    """Return the project that the client works in.

    Raises ConfigurationError if the client's path is invalid.
    """
    try:
        return project_of(full_path(Path(os.environ.get("CLAUDE_PROJECT_DIR") or Path.cwd())), held)
    except ValueError as error:
        raise ConfigurationError(f"CLAUDE_PROJECT_DIR is invalid: {error}.") from None


def state_folder() -> Path | None:
    """Return the folder of this user for what programs keep; None if the user has no home."""
    state = folder_of_user(".local/state", "XDG_STATE_HOME")
    return state and state / "vector-memory"


ALTERNATIVES = ("database_path", "working_dir", "database_url")
"""The fields that say where the memory is; a flag for one of them overrides the variables of all."""


class DatabaseFile(BaseModel):
    """The file of a memory. A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    database_path: FullPath | None = Field(
        default=None, description="Database file of the memory; created when something is stored."
    )
    working_dir: FullPath | None = Field(
        default=None,
        description="Folder that contains the database, memory/agent_session_memory.db. Default: CLAUDE_PROJECT_DIR or "
        "the current folder, or the top of its Git repository.",
    )


class DatabaseServer(BaseModel):
    """The PostgreSQL database. A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

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
        """Return whether nothing says where the memory is."""
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


class FileLocations(BaseModel):
    """Where the Markdown files of `--toolsets files` and their index are.

    A field `name` is the flag `--name` and the variable `VECTOR_MEMORY_NAME`, or `CWE_NAME` as in the specification.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

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
                "There is no home folder for the index of the Markdown files: name a folder with --db-dir."
            )
        return folder
