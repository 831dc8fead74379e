"""The path between standard input and output and the server, with a controllable server."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, BinaryIO

import pytest
from mcp.shared.memory import MessageStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse

from vector_memory.server import stdio
from vector_memory.server.early import EarlyClient
from vector_memory.server.stdio import Wire
from vector_memory.server.turns import OTHER, Kind
from waiting import PATIENCE

pytestmark = pytest.mark.anyio

MARK = "notifications/mark"

WRITE = Kind("writes", works=False, most=16)


class Client:
    """The other end of a wire."""

    def __init__(self) -> None:
        source, self.input = pipe()
        self.output, sink = pipe()
        self._files = [self.input, source, self.output, sink]
        self.ended = asyncio.Event()
        self.early = EarlyClient(source, sink)
        self.wire = Wire(self.early, self.ended.set, lambda one: WRITE if one.method == "store" else OTHER)

    async def send(self, *messages: object) -> None:
        """Write messages, each on a line."""
        await asyncio.to_thread(lambda: [self.input.write(f"{json.dumps(message)}\n".encode()) for message in messages])

    async def received(self, count: int) -> list[dict[str, Any]]:
        """Return the next messages."""
        return await asyncio.to_thread(lambda: [json.loads(self.output.readline()) for _ in range(count)])

    def hang_up(self) -> None:
        """Close both ends, as when the client dies."""
        self.input.close()
        self.output.close()

    def close(self) -> None:
        """Close everything; the thread that reads has found the end of input by then."""
        self.wire.reading.shutdown()
        self.wire.writing.shutdown()
        for file in self._files:
            with suppress(OSError):
                file.close()


def pipe() -> tuple[BinaryIO, BinaryIO]:
    """Return what can be read from and what can be written to."""
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb", 0)


@asynccontextmanager
async def wired() -> AsyncIterator[tuple[Client, MessageStream]]:
    """Give a client and the server's streams."""
    client = Client()
    try:
        async with client.wire.streams() as streams:
            yield client, streams
            client.hang_up()
            await client.ended.wait()
    finally:
        client.hang_up()
        client.close()


def request(number: int, size: int = 0) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"text": "x" * size}}


def store(number: int, size: int = 0) -> dict[str, object]:
    return {**request(number, size), "method": "store"}


def notification(method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def answer(number: int) -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result={}))


async def arrived(client: Client, streams: MessageStream) -> list[object]:
    """Return what arrives at the server of all that was sent so far, and does not wait."""
    await client.send(notification(MARK))
    found = await arrivals(streams, 1)
    while found[-1] != MARK:
        found += await arrivals(streams, 1)
    return found[:-1]


async def arrivals(streams: MessageStream, count: int) -> list[object]:
    """Receive this many messages at the server: ids of requests, methods of notifications."""
    found: list[object] = []
    for _ in range(count):
        item = await streams[0].receive()
        assert isinstance(item, SessionMessage)
        message = item.message
        found.append(message.id if isinstance(message, JSONRPCRequest) else getattr(message, "method", None))
    return found


async def test_at_end_of_input_pending_requests_are_answered_first() -> None:
    async with wired() as (client, streams):
        await client.send(request(1), request(2))
        client.input.close()
        assert await arrivals(streams, 2) == [1, 2]
        assert not client.ended.is_set()
        await streams[1].send(answer(2))
        await streams[1].send(answer(1))
        await asyncio.wait_for(client.ended.wait(), PATIENCE)
        assert [message["id"] for message in await client.received(2)] == [2, 1]


async def test_no_call_waits_for_answers_that_are_not_read() -> None:
    async with wired() as (client, _):
        await client.send(request(1))
        client.hang_up()
        await asyncio.wait_for(client.ended.wait(), PATIENCE)


async def test_the_wait_for_answers_at_end_of_input_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "SECONDS_TO_ANSWER", 0.1)

    async with wired() as (client, _):
        await client.send(request(1))
        client.input.close()
        await asyncio.wait_for(client.ended.wait(), PATIENCE)


async def test_a_client_that_stops_reading_ends_the_server() -> None:
    async with wired() as (client, streams):
        client.output.close()
        await streams[1].send(answer(1))
        await asyncio.wait_for(client.ended.wait(), PATIENCE)


@pytest.mark.parametrize("ids", [range(OTHER.most + 10), [7] * (OTHER.most + 10)], ids=["each its own", "one"])
async def test_the_number_of_concurrent_requests_is_limited_and_each_answer_admits_another(ids: Sequence[int]) -> None:
    async with wired() as (client, streams):
        await client.send(*map(request, ids))
        assert await arrived(client, streams) == list(ids[: OTHER.most])
        await streams[1].send(answer(ids[5]))
        assert await arrivals(streams, 1) == [ids[OTHER.most]]
        assert await arrived(client, streams) == []


async def test_calls_that_read_are_forwarded_however_many_calls_wait_to_write() -> None:
    async with wired() as (client, streams):
        sending = asyncio.create_task(client.send(*map(store, range(200)), request(400)))
        first = [*range(WRITE.most), 400]
        assert await arrivals(streams, len(first)) == first
        await sending


@pytest.mark.parametrize("written", [200, "200"], ids=["as it was sent", "as text"])
async def test_a_request_that_was_cancelled_while_it_waited_is_never_forwarded(written: object) -> None:
    async with wired() as (client, streams):
        await client.send(*map(store, range(WRITE.most)), store(200), store(201))
        await client.send(notification("notifications/cancelled", requestId=written))
        assert await arrivals(streams, WRITE.most + 1) == [*range(WRITE.most), "notifications/cancelled"]
        await streams[1].send(answer(0))
        assert await arrivals(streams, 1) == [201]


async def test_what_was_answered_early_is_not_answered_again_though_another_answer_comes_first() -> None:
    async with wired() as (client, streams):
        early = f"{json.dumps(request(2))}\n".encode(), b'{"jsonrpc":"2.0","id":2,"result":{}}\n'
        client.early.answered.append(early)
        await client.send(request(1), request(2), notification("notifications/cancelled", requestId=2), request(3))
        assert await arrivals(streams, 2) == [1, 2]
        await streams[1].send(answer(1))
        assert [message["id"] for message in await client.received(1)] == [1]
        cancelled = asyncio.create_task(arrivals(streams, 1))
        await asyncio.wait([cancelled], timeout=0.1)  # it waits until the answer is swallowed
        await streams[1].send(answer(2))
        assert await cancelled == ["notifications/cancelled"]
        await streams[1].send(answer(3))
        assert [message["id"] for message in await client.received(1)] == [3]


async def test_no_more_is_read_while_too_much_is_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_BYTES_OPEN", 1_000)

    async with wired() as (client, streams):
        await client.send(store(1, 600), store(2, 600), {"jsonrpc": "2.0", "id": 3, "method": 7})
        assert await arrivals(streams, 2) == [1, 2]
        await streams[1].send(answer(1))
        assert [message["id"] for message in await client.received(2)] == [1, 3]


async def test_messages_that_are_not_requests_overtake_waiting_requests() -> None:
    """The answer to a question of the server must reach it, however much was asked since."""

    async with wired() as (client, streams):
        await client.send(*map(request, range(OTHER.most + 10)), {"jsonrpc": "2.0", "id": 1, "result": {}})
        assert (await arrived(client, streams))[OTHER.most :] == [None]


@pytest.mark.parametrize("written", [3, "3"], ids=["as it was sent", "as text"])
async def test_a_request_that_was_cancelled_makes_room_and_is_not_waited_for(written: object) -> None:
    async with wired() as (client, streams):
        await client.send(*map(request, range(OTHER.most + 1)))
        await arrived(client, streams)
        await client.send(notification("notifications/cancelled", requestId=written))
        assert await arrivals(streams, 2) == ["notifications/cancelled", OTHER.most]
        client.input.close()
        for number in {*range(OTHER.most + 1)} - {3}:
            await streams[1].send(answer(number))
        await asyncio.wait_for(client.ended.wait(), PATIENCE)


async def test_a_notification_does_not_overtake_a_request_that_need_not_wait() -> None:
    """`initialized` after `initialize`: the SDK would drop it if it came first."""

    async with wired() as (client, streams):
        await client.send(request(1), notification("notifications/initialized"), request(2))
        assert await arrived(client, streams) == [1, "notifications/initialized", 2]


async def test_a_bad_line_is_answered_while_requests_wait() -> None:
    async with wired() as (client, streams):
        await client.send(*map(request, range(OTHER.most + 10)), [], 7)
        await arrived(client, streams)
        assert [message["error"]["code"] for message in await client.received(2)] == [-32600, -32600]
