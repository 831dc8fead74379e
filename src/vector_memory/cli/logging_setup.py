"""Logging: one line per record, no stored content, never on standard output."""

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType

from vector_memory.cli.terminal import printable
from vector_memory.errors import ConfigurationError
from vector_memory.storage.disk.drafts import why_path_protected
from vector_memory.storage.disk.filesystem import make_private_folders

logger = logging.getLogger(__name__)

FRAMES_SHOWN = 6

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class OneLineFormatter(logging.Formatter):
    """Formats a record as `time level logger: message`.

    Messages of exceptions and libraries may quote their input, that is, stored content: only their type and place in
    the source are logged.
    """

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        """Return the record on one line."""
        ours = record.name.split(".")[0] == "vector_memory"
        message = record.getMessage() if ours else f"{record.filename}:{record.lineno}"
        if record.exc_info:
            message += f" ({self.formatException(record.exc_info)})"
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {message}"
        return printable(line).replace("\t", r"\t").replace("\n", r"\n")

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - the name is logging's
        """Return the type of an exception and its traceback, innermost frame first."""
        kind, _, trace = ei
        places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(traceback.extract_tb(trace))]
        return " < ".join([kind.__name__ if kind else "no exception", *places[:FRAMES_SHOWN]])


def set_up_logging(level: str, log_file: Path | None, databases: Sequence[Path] = ()) -> None:
    """Log to standard error, and to `log_file` if given. `level` applies to this package's records.

    `databases`: the paths of databases, which are refused as log files. Libraries log from WARNING on: their DEBUG
    records contain whole requests.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if log_file is not None:
        handlers.append(_file_handler(log_file, databases))
    for handler in handlers:
        handler.setFormatter(OneLineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=handlers, force=True)
    logging.getLogger("vector_memory").setLevel(level)
    logging.captureWarnings(capture=True)
    threading.excepthook = log_broken_thread
    # A client that closed standard error, or a full disk, must not make the call fail that logs.
    logging.raiseExceptions = False


def log_broken_thread(broken: threading.ExceptHookArgs) -> None:
    """Log that a thread raised an exception; Python itself would print the exception's message."""
    error = broken.exc_value or broken.exc_type()
    logger.error("The thread %s failed", broken.thread.name if broken.thread else "", exc_info=error)


class PrivateFileHandler(logging.FileHandler):
    """Appends to a file; a new file is readable by its owner only."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", errors="backslashreplace", opener=open_private)


def open_private(path: str, flags: int) -> int:
    """Open the file. A pipe without a reader is an error, instead of waiting for one."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o600)
    os.set_blocking(descriptor, True)
    return descriptor


def _file_handler(path: Path, databases: Sequence[Path]) -> logging.Handler:
    try:
        make_private_folders(path.parent)
        require_log(path, databases)
        return PrivateFileHandler(path)
    except OSError as error:
        raise ConfigurationError(
            f"The log file cannot be opened ({error.strerror}): choose another --log-file."
        ) from None


def require_log(path: Path, databases: Sequence[Path]) -> None:
    """Raise ConfigurationError if a path cannot be a log file: a database, or standard output."""
    reason = why_path_protected(path, databases)
    if reason is None and is_protocol(path):
        reason = "is standard output, which is reserved for answers"
    if reason is not None:
        raise ConfigurationError(f"{path} {reason}: choose another --log-file.")


def is_protocol(path: Path) -> bool:
    """Whether a path refers to standard output."""
    with suppress(OSError, ValueError):
        status = path.stat()
        return not os.path.samestat(status, Path(os.devnull).stat()) and os.path.samestat(status, os.fstat(1))
    return False
