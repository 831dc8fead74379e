"""A client that asks and leaves before it is answered."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from waiting import PATIENCE


@contextmanager
def asked(request: httpx2.Request) -> Iterator[None]:
    """Send a request to a server over TCP, and leave at the end of the block without having read anything."""
    lines = [f"{request.method} {request.url.raw_path.decode()} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    with socket.create_connection((request.url.host, request.url.port), timeout=PATIENCE) as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode() + request.read())
        yield
