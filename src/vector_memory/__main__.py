"""Start vector-memory: `vector-memory`, or `python -P -m vector_memory`.

Without -P, Python searches the current folder first for every module. Only -P can prevent that for `vector_memory`
itself; this module prevents it for all later imports.

An interrupt ends the process with exit code 130 and without a traceback, even while modules are imported.
"""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]

INTERRUPTED = 130

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def end_uncaught(kind: type[BaseException], error: BaseException, trace: "TracebackType | None") -> None:
    """Print an error, unless an interrupt caused it: some imports turn it into an error of another class."""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, KeyboardInterrupt):
            os._exit(INTERRUPTED)
        cause = cause.__cause__ or cause.__context__
    sys.__excepthook__(kind, error, trace)


def end_unraisable(lost: "sys.UnraisableHookArgs") -> None:
    """End the process if a signal arrived in a callback that cannot raise: Python would print it and go on."""
    if isinstance(lost.exc_value, KeyboardInterrupt | SystemExit):
        os._exit(getattr(lost.exc_value, "code", INTERRUPTED))
    sys.__unraisablehook__(lost)


sys.excepthook, sys.unraisablehook = end_uncaught, end_unraisable

import signal  # noqa: E402 - it imports much itself

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))  # nothing needs cleaning up yet

from vector_memory.cli.main import main  # noqa: E402 - interrupts come first

__all__ = ["main"]

if __name__ == "__main__":
    main()
