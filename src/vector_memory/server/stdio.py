"""Transport between standard input and output and the SDK's server: answers bad lines, limits floods, ends cleanly.

The SDK's own transport ignores lines that it cannot read, keeps lines of any length in memory, and drops unanswered
requests when the input ends.
"""

import asyncio
import logging
import select
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO

from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId
from pydantic_core import from_json

from vector_memory.server.early import EarlyClient
from vector_memory.server.fastmcp_adapter import (
    MessageStream,
    SessionMessage,
    coerce_request_id,
    create_client_server_memory_streams,
)
from vector_memory.server.jsonrpc import RefusedLineError, as_line, is_hook_call, is_id, read_line, read_message
from vector_memory.server.turns import HOOK, OTHER, Kind, Turn, all_turns, stop_waiting
from vector_memory.storage.cancellation import Call, current_call, give_way

logger = logging.getLogger(__name__)

MAX_BYTES_OPEN = 32 * 2**20
"""While unanswered requests take this many bytes, no more are read."""

SECONDS_TO_ANSWER = 10.0
"""Requests received before the input ended are answered within this time, or not at all."""

SECONDS_BETWEEN_LOOKS = 0.05


@dataclass(slots=True, eq=False)
class Request:
    """A request, kept as text until it begins, to save memory. `answer`: the early answer, if one was sent."""

    line: bytes
    answer: bytes | None = None
    call: Call = field(default_factory=Call)
    turn: Turn = field(init=False)


class Wire:
    """A client's messages, to the server and back.

    The server's answers to requests that were answered early are only compared with those answers. `kind_of`: returns
    the kind of a request, whose turn it waits for. `at_end`: called when the input has ended and its requests are
    answered, or when nobody reads the answers.
    """

    def __init__(
        self,
        client: EarlyClient,
        at_end: Callable[[], object],
        kind_of: Callable[[JSONRPCRequest], Kind] = lambda request: HOOK if is_hook_call(request) else OTHER,
    ) -> None:
        self._client, self._at_end, self._kind_of = client, at_end, kind_of
        # Separate threads: tools may keep all others busy.
        self.reading = ThreadPoolExecutor(1, "stdin")
        self.writing = ThreadPoolExecutor(1, "stdout")
        self._ready: asyncio.Queue[Request | JSONRPCMessage] = asyncio.Queue()
        self._settled = asyncio.Event()
        self._open: dict[RequestId, list[Request]] = {}  # some clients reuse an id
        self._bytes_open = 0

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[MessageStream]:
        """Carry messages while the block runs; yield the server's pair of streams."""
        async with create_client_server_memory_streams() as (ours, servers), asyncio.TaskGroup() as tasks:
            from_server, self._to_server = ours
            jobs = self._carry_in(), self._hand_on(), self._carry_out(from_server)
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
                line, message = await loop.run_in_executor(self.reading, receive, self._client.source)
            except EOFError:
                break
            except RefusedLineError as refused:
                await self._write(refused.answer)
            else:
                await self._take(line, message)
        stop_waiting()
        give_up = loop.time() + SECONDS_TO_ANSWER
        while self._open and loop.time() < give_up and not is_hung_up(self._client.sink):
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        self._at_end()
        await self._to_server.aclose()

    async def _take(self, line: bytes, message: JSONRPCMessage) -> None:
        """Pass a message on. Only requests wait: a request in progress may be waiting for any other message."""
        if not isinstance(message, JSONRPCRequest):
            self._ready.put_nowait(message)
            match message:
                case JSONRPCNotification(method="notifications/cancelled", params={"requestId": request_id}):
                    if is_id(request_id):
                        self._settle(request_id, cancelled=True)
            return
        early = self._client.answered
        request = Request(line, early.popleft()[1] if early and early[0][0] == line else None)
        same_id = self._open.setdefault(coerce_request_id(message.id), [])
        same_id.append(request)
        self._bytes_open += len(line)
        request.turn = all_turns().wait(partial(self._ready.put_nowait, request), self._kind_of(message))
        if request.answer is not None:  # a later request may have the same id
            with suppress(TimeoutError):
                async with asyncio.timeout(SECONDS_TO_ANSWER):
                    while request in same_id:
                        self._settled.clear()
                        await self._settled.wait()
        while self._bytes_open > MAX_BYTES_OPEN:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    async def _hand_on(self) -> None:
        """Pass messages whose turn has come to the server, in order."""
        while True:
            item = await self._ready.get()
            if isinstance(item, Request):
                # The stream passes this context to the task that answers.
                current_call.set(item.call)
                give_way.set(item.turn.give_way)
                item = read_message(item.line)
            await self._to_server.send(SessionMessage(item))
            del item  # while the next one is awaited, it would stay in memory

    def _settle(self, request_id: RequestId, *, cancelled: bool = False) -> None:
        """Remove a request that is answered, or never will be, and let another begin."""
        key = coerce_request_id(request_id)
        if requests := self._open.get(key):
            request = requests.pop(0)
            if not requests:
                del self._open[key]
            request.call.cancelled = cancelled
            self._bytes_open -= len(request.line)
            self._settled.set()
            all_turns().end(request.turn)

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
        if request is not None:
            request.turn.give_way()
        if request is None or request.answer is None:
            await self._write(message)
        else:
            await asyncio.get_running_loop().run_in_executor(self.writing, self._client.written)
            if from_json(as_line(message)) != from_json(request.answer):
                logger.error("An early answer differs from the server's: %s", from_json(request.line)["method"])
        self._settle(request_id)

    async def _write(self, message: JSONRPCMessage) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self.writing, send, self._client.sink, message)
        except (OSError, ValueError):  # nobody reads any more, or the output is closed
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
