"""A TCP proxy in front of a PostgreSQL server's socket: it passes on, delays, splits, swallows or cuts what is sent."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

COMMITTED = b"C" + (11).to_bytes(4, "big") + b"COMMIT\0"
"""The message by which a server confirms a commit."""


class Proxy:
    """Listens on a port of this machine. Whoever is connected through it shares its moods."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.delay = 0.0
        """Seconds before anything is passed on."""
        self.piece = 65_536
        """Bytes that are passed on at once."""
        self.silent = threading.Event()
        """While it is set nothing is passed on, and new connections get no answer."""
        self.confirmations_to_lose = 0
        """So many commits will be carried out, and their connections cut before the client hears of it."""
        self._connections: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: str, user: str = "postgres") -> str:
        """Return the address of a database behind the proxy."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def cut(self) -> None:
        """Close all connections."""
        for one in list(self._connections):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            pair = {client, server}
            self._connections |= pair
            try:
                server.connect(str(self._target))
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                back = threading.Thread(target=self._carry, args=(server, client), daemon=True)
                back.start()
                self._carry(client, server)
                back.join()
            finally:
                self._connections -= pair

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        """Pass on what comes from one side, until either is closed."""
        with suppress(OSError):
            while data := source.recv(65_536):
                time.sleep(self.delay)
                while self.silent.is_set() and source.fileno() >= 0:
                    time.sleep(0.01)
                if self.confirmations_to_lose and COMMITTED in data:
                    self.confirmations_to_lose -= 1
                    break
                for start in range(0, len(data), self.piece):
                    target.sendall(data[start : start + self.piece])
        for side in (source, target):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(folder: Path) -> Iterator[Proxy]:
    """Run a proxy in front of the server whose socket is in a folder."""
    proxy = Proxy(folder / ".s.PGSQL.5432")
    try:
        yield proxy
    finally:
        proxy.close()
