"""Keeps memories out of Git, which would commit them, and overwrite or delete them when branches are switched.

Git can lose rules: `git stash -u` and `git clean` remove an untracked `.gitignore`, and another branch has another one.
So the rules ignore themselves, and are also in the repository's own list, which no command touches. Failures to write
rules are ignored.
"""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from vector_memory.settings import DATABASE_NAME, EXPORT_FOLDER, MEMORY_FOLDER
from vector_memory.settings.locations import repository_of
from vector_memory.storage.disk.filesystem import make_private_folders

RULES = ".gitignore"
REMARK = "# The memory of vector-memory: personal, and it changes all the time."

SPECIAL = re.compile(r"[\\*?\[\]!# ]")
"""Characters that mean something in a pattern, at least in some places."""
LINE_ENDS = re.compile(r"[\r\n]")

DRAFTS = ".vector-memory-*.partial"
DAILY_LOGS = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9].md"
WRITTEN_HERE = (f"/{DATABASE_NAME}*", f"/{EXPORT_FOLDER}/", f"/{DAILY_LOGS}", f"/{DRAFTS}")
"""What this program writes into the folder `memory` of a project."""
EVERYTHING = ("/*",)


def keep_out_of_git(database: Path) -> None:
    """Make Git ignore a database, which need not exist, or all of a project's folder `memory`."""
    database = database.absolute()
    if database.parts[-2:] == (MEMORY_FOLDER, DATABASE_NAME):
        keep_folder_out_of_git(database.parent)
    else:
        exclude(database.parent, patterns_of(database.name))
    if database.is_symlink():
        real = Path(os.path.realpath(database))
        exclude(real.parent, patterns_of(real.name))


def keep_folder_out_of_git(folder: Path) -> None:
    """Make Git ignore the memory in a project's folder `memory`: the whole folder, if nothing else is in it.

    Files that are older than the rules belong to the project and stay visible. The user's rules are not changed.
    """
    if folder.is_symlink():
        exclude(folder.parent, [f"/{escaped(folder.name)}"])
    rules = folder / RULES
    if not rules_in(rules):
        with suppress(OSError):
            is_own = holds_only(folder / DATABASE_NAME)
            write_rules(rules, EVERYTHING if is_own else [f"/{RULES}", *WRITTEN_HERE])
    known = rules_in(rules)
    ours = [f"/{RULES}"] if known[:1] == [REMARK] else []
    exclude(folder, EVERYTHING if known == [REMARK, "*"] else [*ours, *WRITTEN_HERE])


def make_own_folder(folder: Path) -> None:
    """Create a folder, unless it exists, that neither other users nor Git can see into.

    Raises OSError.
    """
    if not folder.exists():
        make_private_folders(folder)
        write_rules(folder / RULES, EVERYTHING)
        exclude(folder, EVERYTHING)


def holds_only(database: Path) -> bool:
    """Return whether a folder contains only a database with its companions, agents' files, and rules for Git.

    Raises OSError.
    """
    beginnings = (f"{database.name}-", f"{database.name}.")
    return all(
        place.name in {database.name, EXPORT_FOLDER, RULES}
        or place.name.startswith(beginnings)
        or any(fnmatchcase(place.name, pattern) for pattern in (DRAFTS, DAILY_LOGS))
        for place in database.parent.iterdir()
    )


def patterns_of(database: str) -> list[str]:
    """Return patterns for a database, and for the files and copies that belong to it."""
    endings = ("", "-wal", "-shm", "-journal", ".before-*", ".*.lock", ".outbox", "-audit")
    return [*(f"/{escaped(database)}{ending}" for ending in endings), f"/{DRAFTS}"]


def rules_in(file: Path) -> list[str]:
    """Return the lines of a file of rules; none if there are none to read."""
    with suppress(OSError):
        if file.is_file():
            return file.read_text(encoding="utf-8", errors="replace").splitlines()
    return []


def write_rules(file: Path, patterns: Sequence[str]) -> None:
    """Write a file of rules, unless something else has its name."""
    with suppress(OSError):
        if file.is_file() or not os.path.lexists(file):
            lines = ["*"] if patterns is EVERYTHING else patterns
            with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as stream:
                stream.write("\n".join([REMARK, *lines, ""]))


def exclude(folder: Path, patterns: Sequence[str]) -> None:
    """Add patterns for a folder's contents to the exclude list of its repository, if it has one."""
    real = Path(os.path.realpath(folder))
    repository = repository_of(real)
    if repository is None:
        return
    inside = "".join(f"/{escaped(part)}" for part in real.relative_to(repository.work_tree).parts)
    with suppress(OSError):
        add_lines(repository.git_folder / "info" / "exclude", [os.fsencode(inside + pattern) for pattern in patterns])


def add_lines(file: Path, lines: Sequence[bytes]) -> None:
    """Add the lines that a file lacks, in one write: other processes may add theirs. Raises OSError."""
    file.parent.mkdir(exist_ok=True)
    if os.path.lexists(file) and not file.is_file():
        return
    present = file.read_bytes() if file.exists() else b""
    missing = [line for line in lines if line not in present.replace(b"\r\n", b"\n").split(b"\n")]
    if missing and b"\0" not in present:  # another encoding, which Git cannot read either
        begin = b"" if present.endswith(b"\n") or not present else b"\n"
        with file.open("ab", buffering=0) as stream:
            stream.write(begin + b"\n".join([REMARK.encode(), *missing, b""]))


def escaped(name: str) -> str:
    """Return a pattern that matches this name. One with a line end, which no line can contain, matches others too."""
    return LINE_ENDS.sub("?", SPECIAL.sub(r"\\\g<0>", name))
