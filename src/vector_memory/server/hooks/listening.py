"""Takes what hooks report that can only run a command: `clients/hook.py` hands it over through a socket.

Of the servers of a memory, the first one listens; when it ends, another one does. Only this user can reach the socket.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from vector_memory.clients import hook
from vector_memory.errors import where
from vector_memory.settings.locations import real_path
from vector_memory.storage.disk.filesystem import lock_file, lock_if_free

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 1.0
"""How soon another server takes over, and a socket that somebody removed is there again."""

SECONDS_TO_SPEAK = 30.0
"""Whoever has not said everything by then is not listened to: hooks wait 3 s at most."""

MOST_AT_ONCE = 1_000
"""So many may wait to be heard; the texts of more go through the outbox."""

MOST_BYTES = 2**26
"""Longer events are not read: `hook.py` keeps their texts."""


class Answer(NamedTuple):
    """What a client reads, and what to do if its hook has not waited for it, or has."""

    text: bytes
    untold: Callable[[], None]
    told: Callable[[], None] = lambda: None


Handle = Callable[[bytes, Callable[[], None]], Awaitable[Answer | None]]
"""Handles a message: calls the function once the text is on the disk. Returns None if it is not for this server."""


async def listen_at_socket(memory: Path, handle: Handle) -> None:
    """Listen for hooks while no other server of the memory does, until cancelled."""
    path = Path(hook.socket_of(str(real_path(memory))))
    turn = path.with_suffix(".lock")
    try:
        while True:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not hook.is_private(str(path.parent)):
                logger.warning("Hooks of commands reach no server: others can use %s.", path.parent)
                return
            with lock_file(turn) as lock:
                while not (is_ours := lock_if_free(lock)) and _is_at(turn, lock):
                    await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
                if is_ours and _is_at(turn, lock):
                    await _listen_at(path, handle)
    except (OSError, NotImplementedError) as error:
        logger.warning("Hooks of commands reach no server: %s", getattr(error, "strerror", error))


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether an open file still has its name: programs that clean up remove it, and another one follows."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


async def _listen_at(path: Path, handle: Handle) -> None:
    """Listen until the socket was removed, as programs do that clean up, or another server has replaced it."""
    path.unlink(missing_ok=True)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _answer(reader, writer, handle)
        except Exception as error:
            logger.warning("A hook was not answered: %s", where(error))

    def is_ours() -> bool:
        try:
            return path.stat().st_ino == ours
        except FileNotFoundError:
            return False

    listening = await asyncio.start_unix_server(answer, path, backlog=MOST_AT_ONCE)
    with closing(listening):  # which does not wait for those who say nothing
        path.chmod(0o600)
        ours = path.stat().st_ino
        try:
            while is_ours():
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        finally:
            if is_ours():
                path.unlink(missing_ok=True)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: Handle) -> None:
    """Read a message and answer it."""
    message = bytearray()
    is_taken = False

    def taken() -> None:
        nonlocal is_taken
        if not is_taken:
            writer.write(hook.TAKEN)
        is_taken = True

    try:
        async with asyncio.timeout(SECONDS_TO_SPEAK):
            while part := await reader.read(2**16):
                message += part
                if len(message) > MOST_BYTES:
                    return
        answer = await handle(bytes(message), taken)
        if answer is None:
            return
        try:
            taken()
            writer.write(answer.text)
            await writer.drain()
        except OSError:
            answer.untold()
        else:
            answer.told()
    finally:
        writer.close()


def handler(memory: Path, parts: Mapping[str, Any]) -> Handle:
    """Return what handles messages for a memory. `parts`: what the server works with, opened at the first message."""

    @cache
    def reports() -> Any:
        from vector_memory.server.hooks.reports import Reports  # noqa: PLC0415 - the first calls must not wait for it

        return Reports(memory, parts)

    async def handle(message: bytes, taken: Callable[[], None]) -> Answer | None:
        answer: Answer | None = await (await asyncio.to_thread(reports)).handle(message, taken)
        return answer

    return handle
