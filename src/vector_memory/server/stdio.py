"""Transport between standard input and output and the SDK's server: answers bad lines, limits floods, ends cleanly.

The SDK's own transport ignores lines that it cannot read, keeps lines of any length in memory, and drops unanswered
requests when the input ends.
"""

import asyncio
import logging
import select
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId
from pydantic_core import from_json

from vector_memory.server.fastmcp_adapter import (
    MessageStream,
    SessionMessage,
    coerce_request_id,
    create_client_server_memory_streams,
)
from vector_memory.server.jsonrpc import RefusedLineError, as_line, is_hook_call, is_id, read_line, read_message
from vector_memory.server.tools.waiting import stop_waiting
from vector_memory.storage.cancellation import Call, current_call

logger = logging.getLogger(__name__)

READS_AT_ONCE, WRITES_AT_ONCE, LONG_AT_ONCE = 64, 16, 4
"""Requests in progress. More would wait inside the server, where they delay others."""

LONG = 2**16
"""Bytes. Ordinary reading calls are shorter, and a call that stores this much takes longer."""

MAX_BYTES_OPEN = 32 * 2**20
"""While the lines of unanswered requests have this many bytes, no more are read."""

SECONDS_TO_ANSWER = 10.0
"""Requests received before the input ended are answered within this time, or not at all."""

SECONDS_BETWEEN_LOOKS = 0.05


@dataclass(slots=True, eq=False)
class Request:
    """A request, as text until it begins. `settled`: it is answered, or never will be. `answer`: sent already."""

    line: bytes
    settled: asyncio.Future[None]
    answer: bytes | None = None
    call: Call = field(default_factory=Call)


Lane = asyncio.Queue[Request]
"""Requests of one kind that wait, as text, which takes far less memory."""


class Wire:
    """A client's messages, from `source` to the server and from the server to `sink`.

    `answered`: requests that were answered early, in their order, with the answers; those of the server are only
    compared with these. `at_end` is called when the input has ended and its requests are answered, or when nobody reads
    the answers.
    `is_writing` tells which requests may wait for the database's write lock. These, and long lines, wait in separate
    lanes, so that all other requests are answered in the meantime. Hook calls wait for no others: a client gives them
    up after seconds, and nobody repeats them.
    """

    def __init__(
        self,
        source: BinaryIO,
        sink: BinaryIO,
        at_end: Callable[[], object],
        is_writing: Callable[[JSONRPCRequest], bool] = lambda _request: False,
        answered: deque[tuple[bytes, bytes]] | None = None,
    ) -> None:
        self._source = source
        self._sink = sink
        self._at_end = at_end
        self._is_writing = is_writing
        self._answered = deque() if answered is None else answered
        # Separate threads: tools may keep all others busy.
        self._reading = ThreadPoolExecutor(1, "stdin")
        self._writing = ThreadPoolExecutor(1, "stdout")
        self._hooks, self._reads, self._writes, self._long = Lane(), Lane(), Lane(), Lane()
        self._open: dict[RequestId, list[Request]] = {}  # some clients use an id again
        self._bytes_open = 0

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[MessageStream]:
        """Carry messages while the block runs; yield the server's pair of streams."""
        lanes = {self._hooks: READS_AT_ONCE, self._reads: READS_AT_ONCE}
        lanes |= {self._writes: WRITES_AT_ONCE, self._long: LONG_AT_ONCE}
        async with create_client_server_memory_streams() as (ours, servers), asyncio.TaskGroup() as tasks:
            from_server, self._to_server = ours
            jobs = [self._carry_in(), self._carry_out(from_server)]
            jobs += [self._follow(lane) for lane, at_once in lanes.items() for _ in range(at_once)]
            carrying = [tasks.create_task(job) for job in jobs]
            yield servers
            for task in carrying:
                task.cancel()

    def is_busy(self) -> bool:
        """Return whether a request is unanswered."""
        return bool(self._open)

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
        stop_waiting()
        give_up = loop.time() + SECONDS_TO_ANSWER
        while self._open and loop.time() < give_up and not is_hung_up(self._sink):
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        self._at_end()
        await self._to_server.aclose()

    async def _take(self, line: bytes, message: JSONRPCMessage) -> None:
        """Pass a message on. Only requests wait: a request in progress may be waiting for any other message."""
        match message:
            case JSONRPCRequest():
                answer = self._answered.popleft()[1] if self._answered and self._answered[0][0] == line else None
                request = Request(line, asyncio.get_running_loop().create_future(), answer)
                self._open.setdefault(coerce_request_id(message.id), []).append(request)
                self._lane_of(message, line).put_nowait(request)
                self._bytes_open += len(line)
                if answer is not None:  # a later request may have the same id
                    await asyncio.wait([request.settled], timeout=SECONDS_TO_ANSWER)
                while self._bytes_open > MAX_BYTES_OPEN:
                    await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
                return
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": request_id}):
                if is_id(request_id):
                    self._settle(request_id, cancelled=True)
        await self._to_server.send(SessionMessage(message))

    def _lane_of(self, message: JSONRPCRequest, line: bytes) -> Lane:
        if is_hook_call(message):
            return self._hooks
        return self._long if len(line) > LONG else self._writes if self._is_writing(message) else self._reads

    async def _follow(self, lane: Lane) -> None:
        """Pass the requests of a lane on, each when the one before it is settled."""
        while True:
            request = await lane.get()
            if not request.call.cancelled:
                # The stream passes the sender's context to the task that answers.
                current_call.set(request.call)
                await self._to_server.send(SessionMessage(read_message(request.line)))
                await request.settled
            del request  # while the next one is awaited, its line would stay in memory

    def _settle(self, request_id: RequestId, *, cancelled: bool = False) -> None:
        """Forget a request that is answered, or never will be, and let another begin."""
        key = coerce_request_id(request_id)
        if requests := self._open.get(key):
            request = requests.pop(0)
            if not requests:
                del self._open[key]
            request.call.cancelled = cancelled
            self._bytes_open -= len(request.line)
            request.settled.set_result(None)

    async def _carry_out(self, from_server: AsyncIterable[SessionMessage | Exception]) -> None:
        async for item in from_server:
            if isinstance(item, SessionMessage):
                await self._answer(item.message)

    async def _answer(self, message: JSONRPCMessage) -> None:
        """Write a message, unless it answers what was answered early."""
        request_id = message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None
        if request_id is None:
            await self._write(message)
            return
        request = next(iter(self._open.get(coerce_request_id(request_id), ())), None)
        if request is None or request.answer is None:
            await self._write(message)
        elif from_json(as_line(message)) != from_json(request.answer):
            logger.error("An early answer differs from the server's: %s", from_json(request.line)["method"])
        self._settle(request_id)

    async def _write(self, message: JSONRPCMessage) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._writing, send, self._sink, message)
        except OSError:  # nobody reads any more
            self._at_end()


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
