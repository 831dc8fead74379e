"""The way between standard input and output and the SDK's server: answers bad lines, holds floods back, ends well.

The SDK's own way says nothing about a line that it cannot read, takes in everything at once, and drops what it was
asked when the input ends.
"""

import asyncio
import os
import select
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO

from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from vector_memory.jsonrpc import MAX_LINE, PIECE, RefusedLineError, as_line, is_id, read_line, read_message

STDIN, STDOUT, STDERR = range(3)

MAX_AT_ONCE = 64
"""Requests that the server works on at the same time. The others wait as text, which takes far less memory."""

MAX_BYTES_AT_ONCE = MAX_LINE
"""A parsed line can take fifty times its bytes: the largest go one by one."""

MAX_BYTES_HELD = 64 * 2**20
"""When so much waits, nothing more is read until something is answered."""

SECONDS_TO_ANSWER = 10.0
"""What was asked before the input ended is answered within this time, or not at all."""

SECONDS_BETWEEN_LOOKS = 0.05


class Wire:
    """A client's messages, from `source` to the server and from the server to `sink`.

    `at_end` is called when the input has ended and what it asked is answered, or when nobody reads the answers.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO, at_end: Callable[[], object]) -> None:
        self._source = source
        self._sink = sink
        self._at_end = at_end
        # Threads of their own: tools may keep all others busy.
        self._reading = ThreadPoolExecutor(1, "stdin")
        self._writing = ThreadPoolExecutor(1, "stdout")
        self._held: deque[tuple[RequestId, bytes]] = deque()
        self._held_bytes = 0
        self._unanswered: dict[RequestId, int] = {}
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[MessageStream]:
        """Carry messages while the block runs; it is given the server's pair of streams."""
        async with create_client_server_memory_streams() as (ours, servers), asyncio.TaskGroup() as tasks:
            from_server, self._to_server = ours
            jobs = (self._carry_in(), self._start_held(), self._carry_out(from_server))
            carrying = [tasks.create_task(job) for job in jobs]
            yield servers
            for task in carrying:
                task.cancel()

    async def _carry_in(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, message = await loop.run_in_executor(self._reading, receive, self._source)
            except EOFError:
                break
            except RefusedLineError as refused:
                await self._write(refused.answer)
            else:
                await self._take(line, message)
        await self._answer_the_rest()
        self._at_end()
        await self._to_server.aclose()

    async def _take(self, line: bytes, message: JSONRPCMessage) -> None:
        """Hand a message on. What is no request never waits: a request that is under way may be waiting for it."""
        if not isinstance(message, JSONRPCRequest):
            await self._to_server.send(SessionMessage(message))
            self._note_cancelling(message)
        elif self._held or not self._has_room_for(line):
            await self._until(lambda: self._held_bytes < MAX_BYTES_HELD)
            self._held.append((message.id, line))
            self._held_bytes += len(line)
            self._note_change()
        else:
            await self._start(message.id, line, message)

    async def _start_held(self) -> None:
        while True:
            await self._until(lambda: bool(self._held) and self._has_room_for(self._held[0][1]))
            request_id, line = self._held.popleft()
            self._held_bytes -= len(line)
            try:
                await self._start(request_id, line, read_message(line))
            except RefusedLineError as refused:
                await self._write(refused.answer)

    async def _start(self, request_id: RequestId, line: bytes, request: JSONRPCMessage) -> None:
        self._unanswered[coerce_request_id(request_id)] = len(line)
        await self._to_server.send(SessionMessage(request))

    async def _carry_out(self, from_server: AsyncIterable[SessionMessage | Exception]) -> None:
        async for item in from_server:
            if isinstance(item, SessionMessage):
                await self._write(item.message)
                if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
                    self._settle(item.message.id)

    async def _write(self, message: JSONRPCMessage) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._writing, send, self._sink, message)
        except OSError:  # nobody reads any more
            self._at_end()

    async def _answer_the_rest(self) -> None:
        clock = asyncio.get_running_loop().time
        give_up = clock() + SECONDS_TO_ANSWER
        while (self._held or self._unanswered) and clock() < give_up and not is_hung_up(self._sink):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), SECONDS_BETWEEN_LOOKS)

    def _has_room_for(self, line: bytes) -> bool:
        at_work = self._unanswered.values()
        return not at_work or (len(at_work) < MAX_AT_ONCE and sum(at_work) + len(line) <= MAX_BYTES_AT_ONCE)

    def _note_cancelling(self, message: JSONRPCMessage) -> None:
        """Do not wait for the answer to a request that was cancelled: there will be none."""
        match message:
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": request_id}):
                if is_id(request_id):
                    self._settle(request_id)

    def _settle(self, request_id: RequestId) -> None:
        self._unanswered.pop(coerce_request_id(request_id), None)
        self._note_change()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()

    def _note_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def receive(source: BinaryIO) -> tuple[bytes, JSONRPCMessage]:
    """Wait for the next line and read it. Raises RefusedLineError, and EOFError at the end of input."""
    while line := read_line(source):
        if not line.isspace():
            return line, read_message(line)
    raise EOFError


def send(sink: BinaryIO, message: JSONRPCMessage) -> None:
    """Write a message as one line."""
    sink.write(as_line(message))
    sink.flush()


def is_hung_up(sink: BinaryIO) -> bool:
    """Tell whether nobody can read any more what is written."""
    poller = select.poll()
    poller.register(sink, 0)
    return bool(poller.poll(0))


def take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output for the protocol alone.

    From now on whatever reads standard input finds its end, and whatever is printed goes to standard error.
    """
    # A standard descriptor that is closed would be given to the next file that is opened: occupy it.
    while (nothing := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    source, sink = os.fdopen(os.dup(STDIN), "rb", PIECE), os.fdopen(os.dup(STDOUT), "wb")
    os.dup2(nothing, STDIN)
    os.dup2(STDERR, STDOUT)
    return source, sink
