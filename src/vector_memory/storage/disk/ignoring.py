"""Keeps a memory out of Git, which would commit it, and overwrite or delete it with the next change of branch.

Git can lose rules: `git stash -u` and `git clean` take an untracked `.gitignore` away, and another branch has another
one. So the rules ignore themselves, and stand in the repository's own list, too, which no command touches.
"""

import contextlib
import os
import re
from pathlib import Path

from vector_memory.settings import DATABASE_NAME, EXPORT_FOLDER, MEMORY_FOLDER
from vector_memory.settings.repository import repository_of

REMARK = "# The memory of vector-memory: personal, and it changes all the time."
SPECIAL = re.compile(r"[\\*?\[\]!# ]")
"""Characters that mean something in a pattern, at least in some places."""


def keep_out_of_git(database: Path) -> None:
    """Let Git ignore a database, what belongs to it, and exports; whatever cannot be written is left as it is.

    A folder `memory` of a project gets rules of its own, unless it has some. If nothing else is in it, they exclude
    everything that will ever be.
    """
    real = Path(os.path.realpath(database))
    own = escaped(real.name)
    names = [f"/{own}", f"/{own}-*", f"/{own}.*", f"/{EXPORT_FOLDER}/"]  # not its neighbours that begin like it
    if database.parts[-2:] == (MEMORY_FOLDER, DATABASE_NAME):
        rules = real.parent / ".gitignore"
        if not os.path.lexists(rules):
            with contextlib.suppress(OSError):
                lines = ["*"] if holds_only(real) else ["/.gitignore", *names]
                rules.write_text("\n".join([REMARK, *lines, ""]), encoding="utf-8")
        if is_ours(rules):
            names.append("/.gitignore")
    with contextlib.suppress(OSError):
        exclude(real.parent, names)


def holds_only(database: Path) -> bool:
    """Return whether a folder contains only a database, what belongs to it, exports and rules for Git."""
    return all(
        place.name.startswith(database.name) or place.name in {EXPORT_FOLDER, ".gitignore"}
        for place in database.parent.iterdir()
    )


def is_ours(rules: Path) -> bool:
    """Return whether we have written a file of rules."""
    with contextlib.suppress(OSError), rules.open(encoding="utf-8", errors="replace") as file:
        return file.readline().strip() == REMARK
    return False


def exclude(folder: Path, names: list[str]) -> None:
    """Add names in a folder to the list of the repository that it is in, if it is in one. Raises OSError."""
    repository = repository_of(folder)
    if repository is None:
        return
    inside = folder.relative_to(repository.work_tree).parts
    prefix = "".join(f"/{escaped(part)}" for part in inside)
    wanted = [prefix + name for name in names]
    file = repository.git_folder / "info" / "exclude"
    text = os.fsdecode(file.read_bytes()) if file.exists() else ""
    missing = [line for line in wanted if line not in text.splitlines()]
    if missing:
        file.parent.mkdir(exist_ok=True)
        start = "" if text.endswith("\n") or not text else "\n"
        with file.open("ab") as rules:  # one write: other processes may add theirs
            rules.write(os.fsencode(start + "\n".join([REMARK, *missing, ""])))


def escaped(name: str) -> str:
    """Return a pattern that matches this name only."""
    return SPECIAL.sub(r"\\\g<0>", name)
