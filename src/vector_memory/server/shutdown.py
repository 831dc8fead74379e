"""Ends the server's process in time for clients, whatever it is doing."""

import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import NoReturn

STOP_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
ALWAYS = (signal.SIGINT, signal.SIGTERM)
SECONDS_TO_CLOSE = 0.25
"""Clients kill a server half a second after the first signal."""


def stop_signals() -> list[int]:
    """Return the signals that end a server which may outlive its terminal: not SIGHUP if nohup has started it."""
    return [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN or number in ALWAYS]


def end_process(close: Callable[[], object], *, exit_code: int = 0) -> NoReturn:
    """Call `close`, give it SECONDS_TO_CLOSE, and end the process.

    The stack is not unwound: a thread that embeds a long text, or waits for standard input, cannot be stopped from
    outside. Whatever it has not committed was never acknowledged.
    """
    closing = threading.Thread(target=close, name="closing", daemon=True)
    closing.start()
    closing.join(SECONDS_TO_CLOSE)
    os._exit(exit_code)


def stop_on_signals(stop: Callable[[], object]) -> None:
    """Call `stop` in a separate thread when a stop signal arrives. Must be called from the main thread.

    The handler does nothing: it would interrupt whatever the main thread does, which may hold the very lock that
    `stop` needs. Python also writes each signal's number to a file descriptor; that wakes the thread.
    """
    waiting, waking = socket.socketpair()
    waking.setblocking(False)  # noqa: FBT003 - socket takes it by position

    def wait() -> None:
        waiting.recv(1)
        stop()

    signal.set_wakeup_fd(waking.detach(), warn_on_full_buffer=False)
    for number in STOP_SIGNALS:
        signal.signal(number, lambda _number, _frame: None)
    threading.Thread(target=wait, name="stop-signals", daemon=True).start()
