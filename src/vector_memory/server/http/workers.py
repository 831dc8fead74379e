"""Several processes that serve one port: each has its own memory, and gets the connections of clients in turn.

The processes of uvicorn share one listening socket, and the first to be told of a burst accepts all of it: connections
are kept, so one process would have all the work. Those that listen for themselves (SO_REUSEPORT) get theirs by chance.
"""

import asyncio
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from prometheus_client.multiprocess import mark_process_dead

from vector_memory.server.http.metrics import SHARED
from vector_memory.server.shutdown import stop_signals

logger = logging.getLogger(__name__)

INHERITED = "VECTOR_MEMORY_WORKER"
"""The variable that tells a worker the descriptor of its channel."""

SECONDS_BEFORE_RESTART = 1.0
SECONDS_TO_END = 30.0
SECONDS_BETWEEN_LOOKS = 0.1
MARK = b"."
"""Goes with each connection to a worker, and from a worker to its supervisor when it is ready for the first one."""


def inherited() -> socket.socket | None:
    """Return the channel through which this worker gets connections; None: this process is no worker."""
    if (descriptor := os.environ.pop(INHERITED, None)) is None:
        return None
    channel = socket.socket(fileno=int(descriptor))
    channel.settimeout(0)
    return channel


def take_connections(channel: socket.socket, serve: Callable[[socket.socket], Coroutine[Any, Any, None]]) -> None:
    """Serve the connections that the supervisor passes on, from now on.

    When its supervisor is gone, a worker finishes its running calls and ends, because no other process would end it.
    """
    loop, tasks = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def take() -> None:
        found, descriptors, _, _ = socket.recv_fds(channel, len(MARK), 1)
        if not found:
            loop.remove_reader(channel)
            logger.warning("The supervisor has ended: this worker ends too")
            os.kill(os.getpid(), signal.SIGTERM)
        for descriptor in descriptors:
            task = loop.create_task(serve(socket.socket(fileno=descriptor)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    loop.add_reader(channel, take)
    channel.send(MARK)


@dataclass(slots=True, eq=False)
class Worker:
    """A process, and our end of its channel. `is_ready`: it takes connections."""

    process: "subprocess.Popen[bytes]"
    channel: socket.socket
    is_ready: bool = False

    @classmethod
    def start(cls, figures: str) -> "Worker":
        """Start this program once more, with the same flags, as a worker that counts its calls in a folder."""
        ours, its = socket.socketpair()
        ours.settimeout(0)
        command = [sys.executable, "-P", "-m", "vector_memory", *sys.argv[1:]]
        variables = os.environ | {INHERITED: f"{its.fileno()}", SHARED: figures}
        with its:
            process = subprocess.Popen(command, env=variables, pass_fds=[its.fileno()])  # noqa: S603 - our own
        return cls(process, ours)

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    def hear(self) -> None:
        """Note that the worker is ready or has ended, which makes its channel readable."""
        with suppress(OSError):
            self.is_ready = bool(self.channel.recv(len(MARK)))
        if not self.is_ready:
            self.channel.close()

    def give(self, connection: socket.socket) -> bool:
        """Pass a connection on; False: the worker takes none for now."""
        try:
            socket.send_fds(self.channel, [MARK], [connection.fileno()])
        except OSError:
            return False
        return True


def supervise(listening: socket.socket, count: int) -> None:
    """Run this program `count` times until a signal arrives; start a worker again that has ended.

    Running calls are answered first, unless a second signal arrives.
    """
    signals: list[int] = []
    for number in stop_signals():
        signal.signal(number, lambda number, _frame: signals.append(number))
    listening.settimeout(0)
    with tempfile.TemporaryDirectory(prefix="vector-memory-figures-") as figures:
        workers = [Worker.start(figures) for _ in range(count)]
        logger.info("%d workers", count)
        next_look = 0.0
        while not signals:
            look(listening, workers)
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + SECONDS_BEFORE_RESTART
                restart(workers, figures)
        for worker in workers:
            worker.process.terminate()
        until = time.monotonic() + SECONDS_TO_END
        while len(signals) == 1 and time.monotonic() < until and not all(worker.has_ended for worker in workers):
            look(listening, workers)  # tells clients that the server is ending
        for worker in workers:
            worker.process.kill()
            worker.process.wait()


def look(listening: socket.socket, workers: list[Worker]) -> None:
    """Wait a moment for what happens, and pass new connections on. They wait while no worker is ready."""
    channels = {worker.channel: worker for worker in workers if worker.channel.fileno() >= 0}
    takes = any(worker.is_ready for worker in workers)
    for one in select.select([*channels, *([listening] if takes else [])], [], [], SECONDS_BETWEEN_LOOKS)[0]:
        if one in channels:
            channels[one].hear()
        else:
            with suppress(OSError):  # the client has left
                pass_on(listening.accept()[0], workers)


def pass_on(connection: socket.socket, workers: list[Worker]) -> None:
    """Give a connection to the worker that has not got one for the longest."""
    with connection:
        taker = next((worker for worker in workers if worker.is_ready and worker.give(connection)), None)
    if taker is not None:
        workers.remove(taker)
        workers.append(taker)


def restart(workers: list[Worker], figures: str) -> None:
    """Start a worker in place of each that has ended."""
    for place, worker in enumerate(workers):
        if worker.has_ended:
            logger.warning(
                "Worker %d ended with code %d and is started again", worker.process.pid, worker.process.returncode
            )
            worker.channel.close()
            mark_process_dead(worker.process.pid, figures)
            workers[place] = Worker.start(figures)
