"""Transport between standard input and output and the SDK's server: answers bad lines, limits floods, ends cleanly.

The SDK's own transport ignores lines that it cannot read, accepts everything at once, and drops unanswered requests
when the input ends.
"""

import asyncio
import os
import select
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO

from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from vector_memory.server.fastmcp_adapter import MessageStream, SessionMessage, create_client_server_memory_streams
from vector_memory.server.jsonrpc import PIECE, RefusedLineError, as_line, is_hook_call, is_id, read_line, read_message
from vector_memory.server.request_queue import MAX_LONG_AT_ONCE, MAX_WRITES_AT_ONCE, Lane, Request
from vector_memory.storage.cancellation import current_call

STDIN, STDOUT, STDERR = range(3)

LONG = 2**16
"""Bytes. Ordinary reading calls are shorter, and a call that stores this much takes seconds."""

SERVER_BUSY = -32000
TOO_MUCH_WAITS = "Too many calls are waiting. Nothing was changed: repeat this call after others have been answered."

SECONDS_TO_ANSWER = 10.0
"""Requests received before the input ended are answered within this time, or not at all."""

SECONDS_BETWEEN_LOOKS = 0.05


class Wire:
    """A client's messages, from `source` to the server and from the server to `sink`.

    `at_end` is called when the input has ended and its requests are answered, or when nobody reads the answers.
    `is_writing` tells which requests may wait for the database's write lock. These, and long lines, wait in separate
    lanes, so that all other requests are answered meanwhile. The calls of hooks wait for no others: a client gives them
    up after seconds, and nobody repeats them.
    """

    def __init__(
        self,
        source: BinaryIO,
        sink: BinaryIO,
        at_end: Callable[[], object],
        is_writing: Callable[[JSONRPCRequest], bool] = lambda _request: False,
    ) -> None:
        self._source = source
        self._sink = sink
        self._at_end = at_end
        self._is_writing = is_writing
        # Separate threads: tools may keep all others busy.
        self._reading = ThreadPoolExecutor(1, "stdin")
        self._writing = ThreadPoolExecutor(1, "stdout")
        self._lanes = Lane(), Lane(), Lane(MAX_WRITES_AT_ONCE), Lane(MAX_LONG_AT_ONCE)
        self._hooks, self._reads, self._writes, self._long = self._lanes
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[MessageStream]:
        """Carry messages while the block runs; yield the server's pair of streams."""
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
        """Pass a message on. Only requests wait: a request in progress may be waiting for any other message."""
        if not isinstance(message, JSONRPCRequest):
            if not self._drops(message):
                await self._to_server.send(SessionMessage(message))
            return
        request = Request(message.id, line)
        lane = self._lane_of(message, line)
        if lane.has_room_for(request):
            await self._start(lane, request, message)
        elif lane.is_full() and lane in (self._writes, self._long):
            error = ErrorData(code=SERVER_BUSY, message=TOO_MUCH_WAITS)
            await self._write(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))
        else:
            await self._until(lambda: not lane.is_full())
            lane.hold(request)
            self._note_change()

    def _lane_of(self, message: JSONRPCRequest, line: bytes) -> Lane:
        if is_hook_call(message):
            return self._hooks
        return self._long if len(line) > LONG else self._writes if self._is_writing(message) else self._reads

    async def _start_held(self) -> None:
        while True:
            changed = self._changed
            for lane in self._lanes:
                while (request := lane.next()) is not None:
                    try:
                        await self._start(lane, request, read_message(request.line))
                    except RefusedLineError as refused:
                        await self._write(refused.answer)
            await changed.wait()

    async def _start(self, lane: Lane, request: Request, message: JSONRPCMessage) -> None:
        lane.start(request)
        # The stream passes the sender's context to the task that answers.
        token = current_call.set(request.call)
        try:
            await self._to_server.send(SessionMessage(message))
        finally:
            current_call.reset(token)

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
        for lane in self._lanes:
            lane.close()
        clock = asyncio.get_running_loop().time
        give_up = clock() + SECONDS_TO_ANSWER
        while any(lane.is_busy() for lane in self._lanes) and clock() < give_up and not is_hung_up(self._sink):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), SECONDS_BETWEEN_LOOKS)

    def _drops(self, message: JSONRPCMessage) -> bool:
        """Mark the request that this message cancels; return True if it has not reached the server yet.

        Such a request is never answered.
        """
        match message:
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": request_id}):
                if is_id(request_id):
                    held = [lane.cancel(request_id) for lane in self._lanes]
                    self._settle(request_id)
                    return any(held)
        return False

    def _settle(self, request_id: RequestId) -> None:
        for lane in self._lanes:
            lane.settle(request_id)
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
    """Return whether the reader of standard output is gone."""
    poller = select.poll()
    poller.register(sink, 0)
    return bool(poller.poll(0))


def take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output for the protocol only.

    From now on, reading standard input returns end of file, and printing goes to standard error.
    """
    # The next file opened would get the number of a closed standard descriptor: occupy it.
    while (nothing := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    source, sink = os.fdopen(os.dup(STDIN), "rb", PIECE), os.fdopen(os.dup(STDOUT), "wb")
    os.dup2(nothing, STDIN)
    os.dup2(STDERR, STDOUT)
    return source, sink
