"""Hands what a client's hook reports to a server of the same memory: `python -I -S hook.py CLIENT EVENT [FLAGS]`.

Standard input has the event as the client describes it, and standard output what the client reads. A client runs this
for each prompt, so it imports next to nothing: the server knows what each client writes. If no server takes the event
in time, the command `hook` of this package keeps its text in the outbox. Whatever happens, it fails silently: clients
show errors of hooks to the user.
"""

import itertools
import os
import sys
import time
import zlib

START = "start"
"""The event that only asks for a recap: its client has just started a server, for which it waits."""

SECONDS = {"prompt": 0.1, START: 3.0}
"""How long an event waits for a server: a user waits for each prompt."""

SECONDS_OF_OTHERS = 2.0

LEAVE_OUT = b"remember this session"
"""A prompt with these words may ask to keep nothing more. It waits until that is noted: its answer must not be kept."""

PAUSE_SECONDS = 0.05

TAKEN = b"+"
"""An answer begins with it if the text is on the disk; the rest is for the client."""

FOLDER = f"/tmp/vector-memory-{os.getuid() if hasattr(os, 'getuid') else ''}"  # noqa: S108 - see `is_private`
"""Folder of the sockets. Variables do not name it: some clients start servers with other ones than hooks."""

FOR_OWNER = 0o040000
"""The mode of a folder that no other user can use, without the owner's own rights."""

MEMORY = "memory/agent_session_memory.db"
"""The memory of a project."""

OPTIONS = (("database-path", ""), ("working-dir", MEMORY), ("database-url", ""))
"""What can name the memory, and where it is there."""


def hand_over() -> None:
    """Hand over the event, or keep it."""
    client, event, *flags = sys.argv[1:]
    started, now = time.monotonic(), time.time_ns()
    folder = os.path.expanduser(os.environ.get("CLAUDE_PROJECT_DIR", "")) or os.getcwd()  # noqa: PTH109, PTH111
    data = sys.stdin.buffer.read()
    named, until = named_memory(flags), started + SECONDS.get(event, SECONDS_OF_OTHERS)
    while True:
        for memory in [named] if named else memories_above(folder):
            head = "\0".join([client, event, str(now), memory, named, folder, ""])
            answer = answer_to(socket_of(memory), os.fsencode(head) + data, until)
            if answer is not None:
                sys.stdout.buffer.write(answer)
                return
        if event != START:
            break
        if time.monotonic() > until:
            return
        time.sleep(PAUSE_SECONDS)
    is_apart, apart = os.pipe()
    keeper = os.fork() if hasattr(os, "fork") else 0
    if not keeper:
        leave_the_client(apart)
        start_package([client, event, str(now), *flags], data)
        return
    os.close(apart)
    os.read(is_apart, 1)  # until nothing that the client does to this process ends the other one
    if event not in SECONDS or LEAVE_OUT in data.lower():
        os.waitpid(keeper, 0)


def named_memory(flags: list[str]) -> str:
    """Return the memory that a flag, or else a variable, names; empty: the project's own."""
    after = dict(itertools.pairwise(flags))
    given = [(after.get(f"--{option}", ""), below) for option, below in OPTIONS]
    for option, below in OPTIONS:
        given.append((os.environ.get(f"VECTOR_MEMORY_{option.replace('-', '_').upper()}", ""), below))
    for value, below in given:
        if value:
            path = os.path.expanduser(value)  # noqa: PTH111 - pathlib takes 10 ms
            return value if "://" in value else os.path.realpath(os.path.join(path, below) if below else path)  # noqa: PTH118
    return ""


def memories_above(folder: str) -> list[str]:
    """Return where the memory of a project can be: in this folder, or in one above it in the same repository.

    In a checkout that `git worktree add` made, it can also be at the same places of the main one.
    """
    top = folder = os.path.realpath(folder)
    memories = list[str]()
    while True:
        memories.append(os.path.realpath(f"{top}/{MEMORY}"))
        above = os.path.dirname(top)  # noqa: PTH120
        if above == top or os.path.lexists(f"{top}/.git/HEAD"):
            return memories
        if os.path.isfile(f"{top}/.git"):  # noqa: PTH113
            main = checkout_of(top)
            return [*memories, *(memories_above(main + folder[len(top) :]) if main else ())]
        top = above


def checkout_of(top: str) -> str:
    """Return the main checkout of one that `git worktree add` made; empty if it is none."""
    try:
        with open(f"{top}/.git", "rb") as file:  # noqa: PTH123
            main, is_linked, _ = file.read(2**12).partition(b"/.git/worktrees/")
    except OSError:
        return ""
    return os.path.realpath(os.path.join(top, os.fsdecode(main.removeprefix(b"gitdir: ")))) if is_linked else ""  # noqa: PTH118


def socket_of(memory: str) -> str:
    """Return the socket of the servers of a memory. Its length does not depend on that of the memory's path."""
    path = os.fsencode(memory)
    return f"{FOLDER}/{zlib.crc32(path):08x}{zlib.crc32(path[::-1]):08x}"


def is_private(folder: str) -> bool:
    """Return whether only this user can use a folder, which another one might have made."""
    found = os.lstat(folder)
    return found.st_uid == os.getuid() and found.st_mode & 0o170077 == FOR_OWNER


def answer_to(path: str, message: bytes, until: float) -> bytes | None:
    """Return what the server answers, as far as it does in time; None if it has not taken the event."""
    try:
        if not os.path.exists(path) or not is_private(FOLDER):  # noqa: PTH110
            return None
    except FileNotFoundError:  # it has just been removed
        return None
    from _socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket  # noqa: PLC0415 - the module socket takes 10 ms

    server, answer, is_open = socket(AF_UNIX, SOCK_STREAM), b"", True
    try:
        server.settimeout(until - time.monotonic())
        server.connect(path)
        server.sendall(message)
        server.shutdown(SHUT_WR)
        while is_open:
            server.settimeout(until - time.monotonic())
            part = server.recv(2**16)
            answer, is_open = answer + part, bool(part)
    except (OSError, ValueError):  # ValueError: the time is up
        answer = answer[: len(TAKEN)]
    finally:
        server.close()
    return answer.removeprefix(TAKEN) if answer.startswith(TAKEN) else None


def leave_the_client(apart: int) -> None:
    """Go on alone, because the client may end everything that it has started, and read until nobody can write."""
    if hasattr(os, "setsid"):
        os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.close(apart)


def start_package(words: list[str], data: bytes) -> None:
    """Have the package keep the text, without the secrets in it. The hook of a prompt does not wait for it."""
    import io  # noqa: PLC0415
    import runpy  # noqa: PLC0415
    import site  # noqa: PLC0415

    site.main()
    sys.argv, sys.stdin = ["vector-memory", "hook", *words], io.TextIOWrapper(io.BytesIO(data))
    runpy.run_module("vector_memory", run_name="__main__")


if __name__ == "__main__":
    try:  # noqa: SIM105 - contextlib takes 5 ms
        hand_over()
    except Exception:  # noqa: S110
        pass
