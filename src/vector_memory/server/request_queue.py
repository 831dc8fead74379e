"""Queues of waiting requests, kept as text, which takes far less memory than parsed messages."""

from collections import deque
from dataclasses import dataclass, field

from mcp_types import RequestId

from vector_memory.server.fastmcp_adapter import coerce_request_id
from vector_memory.server.jsonrpc import MAX_LINE
from vector_memory.storage.cancellation import Call

MAX_AT_ONCE = 64
"""Requests that the server processes at the same time."""

MAX_WRITES_AT_ONCE = 16
"""Writing calls processed at the same time. More would wait inside the server and delay other requests."""

MAX_LONG_AT_ONCE = 4
"""Long lines processed at the same time."""

MAX_BYTES_AT_ONCE = MAX_LINE
"""A parsed line can take fifty times its size in memory: the largest are processed one at a time."""

MAX_BYTES_HELD = 32 * 2**20
"""A lane that holds this many bytes is full."""


@dataclass(slots=True, eq=False)
class Request:
    """A request as received."""

    id: RequestId
    line: bytes
    call: Call = field(default_factory=Call)


class Lane:
    """Requests of one class: up to `at_once` are in progress, the others wait in order of arrival."""

    def __init__(self, at_once: int = MAX_AT_ONCE) -> None:
        self._at_once = at_once
        self._at_work: dict[RequestId, tuple[int, Call]] = {}
        self._held: deque[Request] = deque()
        self._held_by_id: dict[RequestId, Request] = {}
        self._held_count = 0
        self._held_bytes = 0

    def has_room_for(self, request: Request) -> bool:
        """Return whether a request can start now without overtaking another."""
        return not self._held_count and self._may_start(len(request.line))

    def is_full(self) -> bool:
        """Return whether no more requests may wait here."""
        return self._held_bytes >= MAX_BYTES_HELD

    def is_busy(self) -> bool:
        """Return whether any request is unanswered."""
        return bool(self._at_work or self._held_count)

    def start(self, request: Request) -> None:
        """Count a request as in progress until `settle`."""
        self._at_work[coerce_request_id(request.id)] = (len(request.line), request.call)

    def hold(self, request: Request) -> None:
        """Queue a request."""
        self._held.append(request)
        self._held_by_id[coerce_request_id(request.id)] = request
        self._held_count += 1
        self._held_bytes += len(request.line)

    def next(self) -> Request | None:
        """Remove and return the next request; None if none waits or there is no room yet."""
        while self._held and self._held[0].call.cancelled:
            self._held.popleft()
        if not self._held or not self._may_start(len(self._held[0].line)):
            return None
        request = self._held.popleft()
        self._forget(request)
        return request

    def close(self) -> None:
        """Mark all requests as the last ones: they should not wait for what may happen."""
        for call in (*(call for _, call in self._at_work.values()), *(request.call for request in self._held)):
            call.is_last = True

    def settle(self, request_id: RequestId) -> None:
        """Remove a request that is answered, or never will be."""
        self._at_work.pop(coerce_request_id(request_id), None)

    def cancel(self, request_id: RequestId) -> bool:
        """Mark a request as cancelled; return True if it was waiting here and will not start."""
        key = coerce_request_id(request_id)
        if key in self._at_work:
            self._at_work[key][1].cancelled = True
        request = self._held_by_id.get(key)
        if request is None:
            return False
        request.call.cancelled = True
        self._forget(request)
        request.line = b""
        return True

    def _forget(self, request: Request) -> None:
        self._held_count -= 1
        self._held_bytes -= len(request.line)
        if self._held_by_id.get(key := coerce_request_id(request.id)) is request:
            del self._held_by_id[key]

    def _may_start(self, size: int) -> bool:
        bytes_at_work = sum(length for length, _ in self._at_work.values())
        return not self._at_work or (len(self._at_work) < self._at_once and bytes_at_work + size <= MAX_BYTES_AT_ONCE)
