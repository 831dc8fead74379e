"""Keeps memories out of Git, which would commit them, and overwrite or delete them with the next change of branch.

Git can lose rules: `git stash -u` and `git clean` take an untracked `.gitignore` away, and another branch has another
one. So the rules ignore themselves, and stand in the repository's own list, too, which no command touches. Whatever
cannot be written is left as it is: nothing fails because of it.
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
    """Let Git ignore a database, which need not exist; in the folder `memory` of a project all of the memory."""
    database = database.absolute()
    if database.parts[-2:] == (MEMORY_FOLDER, DATABASE_NAME):
        keep_folder_out_of_git(database.parent)
    else:
        exclude(database.parent, patterns_of(database.name))
    if database.is_symlink():
        real = Path(os.path.realpath(database))
        exclude(real.parent, patterns_of(real.name))


def keep_folder_out_of_git(folder: Path) -> None:
    """Let Git ignore the memory in the folder `memory` of a project: the whole folder, if nothing else is in it.

    Other files that are there before the rules are the project's, and stay visible. Rules of the user are not changed.
    """
    if folder.is_symlink():
        exclude(folder.parent, [f"/{escaped(folder.name)}"])
    rules = folder / RULES
    if not rules_in(rules):
        with suppress(OSError):
            is_own = holds_only(folder / DATABASE_NAME)
            write_rules(rules, EVERYTHING if is_own else [f"/{RULES}", *WRITTEN_HERE])
    match rules_in(rules):
        case [first, "*"] if first == REMARK:
            exclude(folder, EVERYTHING)
        case [first, *_] if first == REMARK:
            exclude(folder, [f"/{RULES}", *WRITTEN_HERE])
        case _:
            exclude(folder, WRITTEN_HERE)


def make_own_folder(folder: Path) -> None:
    """Create a folder unless it exists. Neither other users nor Git see what this program will keep in it.

    Raises OSError.
    """
    if not folder.exists():
        make_private_folders(folder)
        write_rules(folder / RULES, EVERYTHING)
        exclude(folder, EVERYTHING)


def holds_only(database: Path) -> bool:
    """Return whether a folder contains only a database, what belongs to it, what agents wrote, and rules for Git.

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
    endings = ("", "-wal", "-shm", "-journal", ".before-*", ".*.lock", ".outbox")
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
    """Add patterns for what is in a folder to the list of the repository that it is in, if it is in one."""
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
