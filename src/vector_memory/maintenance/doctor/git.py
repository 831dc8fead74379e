"""Checks that Git does not track the memory."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from vector_memory.domain.text import counted
from vector_memory.maintenance.doctor.report import Finding, fine, problem
from vector_memory.settings import EXPORT_FOLDER
from vector_memory.settings.repository import repository_of
from vector_memory.storage.disk.ignoring import escaped

SECONDS = 10
NAMED = 3
"""Files that are named of many."""

BRANCHES = 50
"""Branches that are looked at, the latest first."""


def git_findings(path: Path) -> Iterator[Finding]:
    """Yield whether a repository tracks the memory; nothing outside of one, or if Git does not answer."""
    real = Path(os.path.realpath(path))
    repository = repository_of(real.parent)
    if repository is None:
        return
    try:
        tracked = git(
            real.parent, "ls-files", "-z", "--", f":(glob){escaped(real.name)}*", f":(literal){EXPORT_FOLDER}"
        )
        branches = branches_with(real)
    except (OSError, subprocess.SubprocessError):
        return
    if tracked:
        yield problem_here(real, tracked, branches)
    elif branches:
        yield problem_elsewhere(real.relative_to(repository.work_tree), branches)
    else:
        yield fine("git", "Git does not track the memory.")


def problem_here(path: Path, tracked: list[str], branches: list[str]) -> Finding:
    """Return what to do about files that this checkout tracks."""
    named = ", ".join(tracked[:NAMED]) + (", ..." if len(tracked) > NAMED else "")
    tops = sorted({name.partition("/")[0] for name in tracked})
    command = shlex.join(["git", "-C", str(path.parent), "rm", "-r", "--cached", "--", *tops])
    where = f", on each of the branches {', '.join(branches)}" if len(branches) > 1 else ""
    return problem(
        "git",
        f"Git tracks {counted(len(tracked), 'file')} of the memory: {named}. A change of branch can overwrite it, and "
        "whoever clones the repository can read it.",
        f"Copy the memory with `vector-memory backup`, then run `{command}` and commit{where}. Earlier commits keep "
        "what was stored then.",
    )


def problem_elsewhere(path: Path, branches: list[str]) -> Finding:
    """Return what to do about branches that contain the memory, at this place in the repository, if ours does not."""
    names = [str(path), str(path.parent / EXPORT_FOLDER)]
    command = shlex.join(["git", "rm", "-r", "--cached", "--ignore-unmatch", "--", *names])
    return problem(
        "git",
        f"Other branches contain the memory: {', '.join(branches)}. A change to one of them overwrites it without a "
        "question, and the change back deletes it.",
        "Copy the memory with `vector-memory backup`. For each branch run `git worktree add FOLDER BRANCH`, which "
        f"changes nothing here, then in that folder `{command}`, and commit.",
    )


def branches_with(path: Path) -> list[str]:
    """Return the latest branches that contain the database or exports."""
    latest = ("--sort=-committerdate", f"--count={BRANCHES}", "--format=%(refname:short)%00", "refs/heads")
    branches = [name.strip() for name in git(path.parent, "for-each-ref", *latest)]
    return [
        name
        for name in branches
        if name and git(path.parent, "ls-tree", "-z", "--name-only", name, "--", path.name, EXPORT_FOLDER)
    ]


def git(folder: Path, *arguments: str) -> list[str]:
    """Run a command of Git that changes nothing, and return the names that it prints.

    Raises SubprocessError, OSError.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments]
    answer = subprocess.run(command, capture_output=True, check=True, timeout=SECONDS, env=environment)  # noqa: S603
    return [os.fsdecode(name) for name in answer.stdout.split(b"\0") if name]
