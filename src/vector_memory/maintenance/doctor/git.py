"""Checks that Git does not have the memory."""

import os
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from vector_memory.errors import ConfigurationError
from vector_memory.maintenance.doctor.report import Finding, fine, first_names, problem, warning
from vector_memory.settings import MEMORY_FOLDER, MemoryAddress, export_folder_of
from vector_memory.settings.repository import repository_of
from vector_memory.storage.disk.ignoring import REMARK, RULES, escaped, patterns_of, rules_in

SECONDS = 5
"""Time for each of three commands of Git. If one needs more, nothing is said."""

VISIBLE = "? "
"""Begins a line of `git ls-files -t` about a file that is neither tracked nor ignored."""

REMOVING = ("rm", "-r", "-f", "--cached", "--ignore-unmatch", "--")
"""The command of Git that stops tracking files, which stay: -f, since what is staged is older than the file."""

ALONE = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
"""Git must not write or fetch anything, or ask anybody."""


def git_findings(address: MemoryAddress) -> Iterator[Finding]:
    """Yield what a repository has of the memory; nothing outside of one, or if Git does not answer."""
    try:
        exports = export_folder_of(address)
    except ConfigurationError:  # the client's path is invalid
        return
    repository = repository_of(exports.parent)
    if repository is None:
        return
    inside = Path(os.path.realpath(exports.parent)).relative_to(repository.work_tree)
    own = [inside / address.name] if isinstance(address, Path) else []
    if exports.parent.name == MEMORY_FOLDER or rules_in(exports / RULES)[:1] == [REMARK]:
        own.append(inside / exports.name)
    try:
        yield finding_about(repository.work_tree, own)
    except (OSError, subprocess.SubprocessError):
        return


def finding_about(root: Path, own: Sequence[PurePath]) -> Finding:
    """Return what Git has of files and folders of the memory, named from the topmost folder of a checkout.

    Raises SubprocessError, OSError.
    """
    patterns = [pattern for place in own for pattern in pathspecs(place)]
    seen = git(root, "ls-files", "-z", "-t", "-c", "-o", "--exclude-standard", "--", *patterns).split("\0")[:-1]
    tracked = [line[len(VISIBLE) :] for line in seen if not line.startswith(VISIBLE)]
    branches = other_branches_with(root, own)
    if tracked:
        command = shlex.join(["git", "-C", str(root), *REMOVING, *owners(tracked, own)])
        there = (
            f" It is also on other branches: {first_names(branches)}. {how_to_clean_branches(own)}" if branches else ""
        )
        return problem(
            "git",
            f"Git tracks {first_names(tracked)}: switching branches can overwrite the memory, and whoever clones the "
            "repository can read it.",
            f"Run `{command}` and commit: the files stay. Earlier commits keep what was stored then.{there}",
        )
    if branches:
        return problem(
            "git",
            f"Other branches contain the memory: {first_names(branches)}. Switching to one of them overwrites it "
            "without asking, and switching back deletes it.",
            how_to_clean_branches(own),
        )
    if visible := [line[len(VISIBLE) :] for line in seen]:
        return warning(
            "git",
            f"Git does not ignore {first_names(visible)}: `git add -A` takes it, and `git clean -f` deletes it.",
            "Store something: this renews the ignore rules. If this stays, one of your own rules includes it again.",
        )
    return fine("git", "Git does not track the memory.")


def how_to_clean_branches(own: Sequence[PurePath]) -> str:
    """Return how to remove the memory from other branches, none of which may be checked out here."""
    command = shlex.join(["git", *REMOVING, *map(str, own)])
    return (
        "Copy the memory with `vector-memory backup`. For each branch run `git worktree add FOLDER BRANCH`, which "
        f"changes nothing here, then in that folder `{command}`, and commit."
    )


def pathspecs(place: PurePath) -> Iterator[str]:
    """Yield what `git ls-files` needs to list a file or folder, and what belongs to it."""
    folder = "".join(f"{escaped(part)}/" for part in place.parent.parts)
    return (f":(top,glob){folder}{pattern.removeprefix('/')}" for pattern in patterns_of(place.name))


def owners(files: Sequence[str], own: Sequence[PurePath]) -> list[str]:
    """Return the files, and for those in one of our folders only that one."""
    found = [next((str(place) for place in own if PurePath(file).is_relative_to(place)), file) for file in files]
    return list(dict.fromkeys(found))


def other_branches_with(root: Path, own: Sequence[PurePath]) -> list[str]:
    """Return the branches, but for the one checked out, whose last commit has any of these files and folders."""
    listed = git(root, "for-each-ref", "--format=%(HEAD)%(refname:lstrip=2)", "refs/heads").split("\n")[:-1]
    others = [line[1:] for line in listed if not line.startswith("*")]
    asked = [(name, place) for name in others for place in own if "\n" not in str(place)]
    lines = "".join(f"refs/heads/{name}:{place}\n" for name, place in asked)
    answers = git(root, "cat-file", "--batch-check", given=lines).split("\n")[:-1]
    has = [name for (name, _), answer in zip(asked, answers, strict=True) if not answer.endswith(" missing")]
    return list(dict.fromkeys(has))


def git(root: Path, *arguments: str, given: str = "") -> str:
    """Return what a command of Git prints that changes nothing. Raises SubprocessError, OSError."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | ALONE
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(root), *arguments]
    answer = subprocess.run(  # noqa: S603 - no shell, and no argument that begins with a dash
        command, input=os.fsencode(given), capture_output=True, check=True, timeout=SECONDS, env=environment
    )
    return os.fsdecode(answer.stdout)
