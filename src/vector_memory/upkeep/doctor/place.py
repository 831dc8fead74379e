"""Checks of the storage location: file system, free space, permissions, and the write-ahead log."""

import os
import platform
import shlex
import shutil
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath

from vector_memory.domain.text import counted
from vector_memory.embedding import EmbeddingModel
from vector_memory.embedding.weights import find_model
from vector_memory.errors import ConfigurationError, DatabaseError, VectorMemoryError
from vector_memory.settings import MEMORY_FOLDER, MemoryAddress, Settings, export_folder_of
from vector_memory.settings.locations import repository_of
from vector_memory.storage.disk import filesystem
from vector_memory.storage.disk.ignoring import REMARK, RULES, escaped, holds_only, patterns_of, rules_in
from vector_memory.storage.sqlite import connecting, inspection
from vector_memory.storage.sqlite.connecting import is_writable
from vector_memory.storage.sqlite.identity import require_no_orphaned_log, require_own_log
from vector_memory.texts.tokens import find_token_counter
from vector_memory.upkeep.doctor.report import NAMED, Finding, Level, fine, first_names, fixable, problem, warning
from vector_memory.writing.outbox import Contents, Deliverer, Outbox, all_of_user, outbox_of_memory

MEGABYTE = 1_000_000
LARGE_LOG = 20 * MEGABYTE
LOW_SPACE = 500 * MEGABYTE
NO_SPACE = 20 * MEGABYTE
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def place_findings(path: Path) -> Iterator[Finding]:
    """Yield the findings about the storage location. Do not call this while this process has the file open."""
    yield file_system_finding(path)
    yield free_space(path)
    if path.is_file():
        yield permissions(path)
        yield log_size(path)


def file_system_finding(path: Path) -> Finding:
    """Check that the file is on a local file system."""
    kind = filesystem.file_system(path)
    if filesystem.is_shared(kind):
        message = f"The memory is on a file system that several machines share ({kind}), where processes can damage it."
        advice = "Move it to a local disk: stop all servers, copy it with `vector-memory backup`, and use the copy."
        return problem("file-system", message, advice)
    known = f"The file system ({kind}) is local." if kind else "The type of the file system is unknown."
    return fine("file-system", known)


def free_space(path: Path) -> Finding:
    """Check that there is free disk space."""
    folder = next(folder for folder in path.absolute().parents if folder.is_dir())
    free = shutil.disk_usage(folder).free
    message = f"{readable_size(free)} free on the disk."
    if connecting.is_full(folder):
        return problem("disk", message, "Free some space: storing fails, and servers cannot start.")
    if free < NO_SPACE:
        return problem("disk", message, "Free some space: storing will fail soon.")
    if free < LOW_SPACE:
        return warning("disk", message, "Free some space before it runs out.")
    return fine("disk", message)


def permissions(path: Path) -> Finding:
    """Check that this user can write to the memory, and that others can neither read nor replace it."""
    if not is_writable(path):
        needed = f"{with_mode(path)} and its folder {with_mode(path.parent)} have to be writable"
        advice = "Use it with `serve --read-only`, or store as a user who may write there."
        return warning("permissions", f"You can read the memory, but not write to it: {needed}.", advice)
    names = [with_mode(place) for place in exposed(path)]
    if not names:
        folder = f"; others may enter its folder {with_mode(path.parent)}" if mode_of(path.parent) & OTHERS else ""
        return fine("permissions", f"Only you can read the memory {with_mode(path)}{folder}.")
    message = f"Other users of this machine have access to {', '.join(names)}."
    return fixable("permissions", message, Level.WARNING if exposed(path) == [path.parent] else Level.PROBLEM)


def with_mode(path: Path) -> str:
    """Return the name of a file or folder with its permissions."""
    return f"{path.name or path} ({mode_of(path):03o})"


def exposed(path: Path) -> list[Path]:
    """Return the files of a memory, and its folder, that other users can access.

    A folder that contains anything else is not included.
    """
    files = [file for file in (path, filesystem.log_of(path), filesystem.log_index_of(path)) if file.exists()]
    folder = [path.parent] if holds_only(path) else []
    return [found for found in (*files, *folder) if mode_of(found) & OTHERS]


def remove_access_of_others(path: Path) -> int:
    """Remove other users' permissions; return the number of files and folders changed."""
    changed = exposed(path)
    for file in changed:
        file.chmod(mode_of(file) & ~OTHERS)
    return len(changed)


def mode_of(path: Path) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def log_size(path: Path) -> Finding:
    """Check that the write-ahead log belongs to the file and is kept short."""
    try:
        require_own_log(path)
        require_no_orphaned_log(path)
    except DatabaseError as error:
        return problem("log", "The file and its write-ahead log were separated.", str(error))
    log = filesystem.log_of(path)
    length = log.stat().st_size if log.exists() else 0
    size = f"The size of the write-ahead log is {readable_size(length)}"
    if length <= LARGE_LOG:
        return fine("log", f"{size}." if length else "The write-ahead log is empty.")
    advice = (
        "End long-running readers (backups, other programs), or close all clients. The next store, or closing the last "
        "client, shortens the log."
    )
    return warning("log", f"{size}, which makes reading slow.", advice)


def readable_size(number: int) -> str:
    """Return a size in bytes in readable form."""
    return f"{number / 1000 / MEGABYTE:,.1f} GB" if number >= 1000 * MEGABYTE else f"{number / MEGABYTE:,.1f} MB"


# Checks texts that wait on this machine to be stored, and those set aside.

OUTBOX = "outbox"
"""The name of the check."""

ADVICE = "The servers of that memory, or the relays to it, store waiting texts as soon as they can."
AND_SET_ASIDE = "Read the texts that were set aside, delete them, or run `vector-memory doctor --fix` to retry them."

SECONDS_TO_NAME = 10
"""A process that has been delivering this long is reported."""


def outbox_finding(address: MemoryAddress) -> Finding:
    """Check the texts that wait for a memory, or for any other that this user's programs store in."""
    looked_at = [(outbox, outbox.contents()) for outbox in _outboxes(address)]
    found = [(outbox, contents) for outbox, contents in looked_at if contents.waiting or contents.refused]
    if not found:
        return fine(OUTBOX, "No text from hooks or relays is waiting to be stored.")
    sentences = [f"For {box.target}, in {box.folder}: {_contents_in_words(contents)}" for box, contents in found]
    is_refused = any(contents.refused for _, contents in found)
    advice = f"{ADVICE} {AND_SET_ASIDE}" if is_refused else ADVICE
    return Finding(OUTBOX, Level.WARNING, "\n".join(sentences), advice, fixable=is_refused)


def try_again(address: MemoryAddress) -> str:
    """Requeue rejected texts; report how many. Raises DatabaseError."""
    try:
        texts = sum(outbox.put_back() for outbox in _outboxes(address))
    except OSError as error:
        raise DatabaseError(f"The texts that were set aside could not be moved back ({error.strerror}).") from error
    return f"{counted(texts, 'text')} will be retried."


def _outboxes(address: MemoryAddress) -> Iterator[Outbox]:
    """Yield the outboxes of a memory, and all others of this user."""
    own = outbox_of_memory(address)
    if own is not None:
        yield own
    yield from (outbox for outbox in all_of_user() if own is None or outbox.folder != own.folder)


def _contents_in_words(contents: Contents) -> str:
    """Describe the contents of an outbox that is not empty."""
    sentences = []
    if contents.waiting:
        wait = "waits" if contents.waiting == 1 else "wait"
        sentences.append(f"{counted(contents.waiting, 'text')} {wait} since {_as_time(contents.since or 0)}.")
        sentences += [contents.problem] if contents.problem else []
        sentences += _said_of(contents.deliverer)
    if contents.refused:
        was = "was" if len(contents.refused) == 1 else "were"
        sentences.append(f"{counted(len(contents.refused), 'text')} {was} set aside in the folder `refused` there:")
        shown = [f"{path.name}: {reason or 'The reason is unknown.'}" for path, reason in contents.refused[:NAMED]]
        sentences += [*shown, *(["..."] if len(contents.refused) > NAMED else [])]
    return " ".join(sentences)


def _said_of(deliverer: Deliverer | None) -> list[str]:
    """Say which process has been delivering for long, and since when."""
    if deliverer is None or time.time() - deliverer.since < SECONDS_TO_NAME:
        return []
    pid = deliverer.pid
    return [
        f"Process {pid} has been storing them since {_as_time(deliverer.since)}, and blocks the others.",
        f"If it is suspended (`ps -o stat= -p {pid}` prints T), run `kill -CONT {pid}`, or end it.",
    ]


def _as_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds")


# Checks of the installation: versions, SQLite, the model, the token counter.

PACKAGES = ("vector-memory", "fastmcp", "apsw", "sqlite-vec", "onnxruntime")
SAMPLE = "A vector for the doctor."
REINSTALL = "Reinstall vector-memory in its own environment."


def installation_findings(engine: Iterable[Finding], model: EmbeddingModel, settings: Settings) -> Iterator[Finding]:
    """Yield the findings about the installation, those about the engine among them."""
    yield package_versions()
    yield from engine
    yield embedding_model(model, settings)
    yield token_counter(model)


def sqlite_findings() -> Iterator[Finding]:
    """Check that SQLite cannot damage a file that several processes share, and that sqlite-vec can be loaded."""
    try:
        yield fine("sqlite", f"SQLite {inspection.sqlite_version()} is safe to use from several processes.")
    except VectorMemoryError as error:
        yield problem("sqlite", str(error), "Install apsw 3.54 or newer.")
    try:
        yield fine("vector-search", f"sqlite-vec {inspection.extension_version()} can be loaded.")
    except VectorMemoryError:
        yield problem("vector-search", "sqlite-vec cannot be loaded, so the memory cannot be opened.", REINSTALL)


def package_versions() -> Finding:
    """Report the versions that a bug report should contain."""
    try:
        found = [f"{name} {version(name)}" for name in PACKAGES]
    except PackageNotFoundError as error:
        return problem("versions", f"The package {error.name} is not installed.", REINSTALL)
    return fine("versions", ", ".join([found[0], f"Python {platform.python_version()}", *found[1:]]) + ".")


def embedding_model(model: EmbeddingModel, settings: Settings) -> Finding:
    """Check that the model exists, is the official one, and computes vectors."""
    try:
        (vector,) = model.embed([SAMPLE])
        if found := find_model(settings.embedding_model, settings.embedding_model_path):
            found.verify(*found.weights)
    except VectorMemoryError as error:
        return problem("model", f"Searches cannot compare meaning. {error}", "Storing works without a model.")
    source = f", from {found.source}," if found else ""
    checked = " Its files match the official ones." if found and found.official else ""
    return fine("model", f"{settings.embedding_model}{source} computes vectors of {len(vector)} numbers.{checked}")


def token_counter(model: EmbeddingModel) -> Finding:
    """Report how the tokens of chunks and answers are counted."""
    usable = model.is_ready
    name = find_token_counter((lambda text: len(model.token_spans(text))) if usable else None).name
    if name == "estimate":
        message = "Tokens are estimated from the length of a text, so the sizes of chunks are only approximate."
        return warning("tokens", message, "Run `vector-memory fetch-model`, which also downloads the token table.")
    means = "with cl100k_base" if name == "cl100k_base" else "with the model's tokenizer: cl100k_base is not on disk"
    return fine("tokens", f"Tokens are counted {means}.")


# Checks that Git does not contain the memory.


SECONDS = 5
"""Time limit for each of three Git commands. If one takes longer, nothing is reported."""

VISIBLE = "? "
"""Begins a line of `git ls-files -t` about a file that is neither tracked nor ignored."""

REMOVING = ("rm", "-r", "-f", "--cached", "--ignore-unmatch", "--")
"""The command of Git that stops tracking files, which stay: -f, since what is staged is older than the file."""

ALONE = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}
"""Git must not write or fetch anything, or prompt anybody."""


def git_findings(address: MemoryAddress) -> Iterator[Finding]:
    """Yield findings about memory files in a repository; none outside one, or if Git does not answer."""
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
    """Return which of the memory's files and folders Git contains, named from the topmost folder of a checkout.

    Raises SubprocessError, OSError.
    """
    patterns = [pattern for place in own for pattern in pathspecs(place)]
    seen = git(root, "ls-files", "-z", "-t", "-c", "-o", "--exclude-standard", "--", *patterns).split("\0")[:-1]
    tracked = [line[len(VISIBLE) :] for line in seen if not line.startswith(VISIBLE)]
    branches = other_branches_with(root, own)
    if tracked:
        command = shlex.join(["git", "-C", str(root), *REMOVING, *owners(tracked, own)])
        also = f" It is also on other branches: {first_names(branches)}. {how_to_clean_branches(own)}"
        there = also if branches else ""
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
    """Yield the pathspecs for `git ls-files` to list a file or folder and its companions."""
    folder = "".join(f"{escaped(part)}/" for part in place.parent.parts)
    return (f":(top,glob){folder}{pattern.removeprefix('/')}" for pattern in patterns_of(place.name))


def owners(files: Sequence[str], own: Sequence[PurePath]) -> list[str]:
    """Return the files, and for those in one of our folders only that one."""
    found = [next((str(place) for place in own if PurePath(file).is_relative_to(place)), file) for file in files]
    return list(dict.fromkeys(found))


def other_branches_with(root: Path, own: Sequence[PurePath]) -> list[str]:
    """Return the branches, except the current one, whose last commit has any of these files and folders."""
    listed = git(root, "for-each-ref", "--format=%(HEAD)%(refname:lstrip=2)", "refs/heads").split("\n")[:-1]
    others = [line[1:] for line in listed if not line.startswith("*")]
    asked = [(name, place) for name in others for place in own if "\n" not in str(place)]
    lines = "".join(f"refs/heads/{name}:{place}\n" for name, place in asked)
    answers = git(root, "cat-file", "--batch-check", given=lines).split("\n")[:-1]
    has = [name for (name, _), answer in zip(asked, answers, strict=True) if not answer.endswith(" missing")]
    return list(dict.fromkeys(has))


def git(root: Path, *arguments: str, given: str = "") -> str:
    """Return the output of a read-only Git command. Raises SubprocessError, OSError."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | ALONE
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(root), *arguments]
    answer = subprocess.run(  # noqa: S603 - no shell, and no argument that begins with a dash
        command, input=os.fsencode(given), capture_output=True, check=True, timeout=SECONDS, env=environment
    )
    return os.fsdecode(answer.stdout)
