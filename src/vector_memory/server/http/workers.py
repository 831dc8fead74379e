"""Several processes that serve one socket: each has its own memory, and whichever is free takes a request."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from vector_memory.server.shutdown import stop_signals

logger = logging.getLogger(__name__)

SOCKET = "VECTOR_MEMORY_INHERITED_SOCKET"
"""The variable that tells a worker the descriptor of its socket and the process id of its supervisor."""

SECONDS_BEFORE_RESTART = 1.0
SECONDS_TO_END = 30.0
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_BETWEEN_GLANCES = 0.05


def inherited_socket() -> socket.socket | None:
    """Return the socket that the supervisor has opened for this worker; None: this process is no worker.

    A worker ends, after the calls that are running, when its supervisor is gone: nobody else would end it.
    """
    if (inherited := os.environ.pop(SOCKET, None)) is None:
        return None
    descriptor, supervisor = map(int, inherited.split())
    threading.Thread(target=end_without, args=(supervisor,), name="supervisor", daemon=True).start()
    return socket.socket(fileno=descriptor)


def end_without(supervisor: int) -> None:
    """Wait until another process has become this one's parent, and end."""
    while os.getppid() == supervisor:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    logger.warning("The supervisor is gone: this worker ends, too")
    os.kill(os.getpid(), signal.SIGTERM)


def supervise(listening: socket.socket, count: int) -> None:
    """Run this program `count` times on a socket until a signal arrives; start a worker again that has ended.

    Running calls are answered first, unless a second signal arrives.
    """
    stopping, hurrying = threading.Event(), threading.Event()
    for number in stop_signals():
        signal.signal(number, lambda _number, _frame: (hurrying if stopping.is_set() else stopping).set())
    workers = [start(listening) for _ in range(count)]
    logger.info("%d workers", count)
    while not stopping.wait(SECONDS_BEFORE_RESTART):
        for place, worker in enumerate(workers):
            if worker.poll() is not None:
                logger.warning("Worker %d ended with code %d and is started again", worker.pid, worker.returncode)
                workers[place] = start(listening)
    for worker in workers:
        worker.terminate()
    until = time.monotonic() + SECONDS_TO_END
    while any(worker.poll() is None for worker in workers) and time.monotonic() < until:
        if hurrying.wait(SECONDS_BETWEEN_GLANCES):
            break
    for worker in workers:
        worker.kill()
        worker.wait()


def start(listening: socket.socket) -> "subprocess.Popen[bytes]":
    """Start this program once more, with the same flags, as a worker."""
    command = [sys.executable, "-P", "-m", "vector_memory", *sys.argv[1:]]
    variables = os.environ | {SOCKET: f"{listening.fileno()} {os.getpid()}"}
    return subprocess.Popen(command, env=variables, pass_fds=[listening.fileno()])  # noqa: S603 - our own command
