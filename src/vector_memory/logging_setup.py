"""Where log records go and what they look like: one line each, no stored content, never on standard output."""

import logging
import re
import sys
import threading
import time
import traceback
from pathlib import Path
from types import TracebackType

from vector_memory.errors import ConfigurationError

logger = logging.getLogger(__name__)

CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
FRAMES_SHOWN = 6

ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class OneLineFormatter(logging.Formatter):
    """Formats a record as `time level logger: message`.

    The words of an exception and of a library may quote what they were given, that is stored content: of those only
    the type and the place in the source are logged.
    """

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        ours = record.name.split(".")[0] == "vector_memory"
        message = record.getMessage() if ours else f"{record.filename}:{record.lineno}"
        if record.exc_info:
            message += f" ({self.formatException(record.exc_info)})"
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {message}"
        return CONTROL_CHARACTERS.sub(lambda found: repr(found[0])[1:-1], line)

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802 - the name is logging's
        """Return the type of an exception and where it came from, the innermost place first."""
        kind, _, trace = ei
        places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(traceback.extract_tb(trace))]
        return " < ".join([kind.__name__ if kind else "no exception", *places[:FRAMES_SHOWN]])


def set_up_logging(level: str, log_file: Path | None) -> None:
    """Log to standard error, and to `log_file` too when there is one. `level` is for our own records.

    Libraries are heard from WARNING on: their DEBUG records hold whole requests.
    """
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if log_file is not None:
        handlers.append(_file_handler(log_file))
    for handler in handlers:
        handler.setFormatter(OneLineFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=handlers, force=True)
    logging.getLogger("vector_memory").setLevel(level)
    logging.captureWarnings(capture=True)
    threading.excepthook = log_broken_thread
    # A client that closed standard error, or a full disk, must not fail the call that wanted to log.
    logging.raiseExceptions = False


def log_broken_thread(broken: threading.ExceptHookArgs) -> None:
    """Log that a thread ended with an exception; Python itself would print what the exception says."""
    error = broken.exc_value or broken.exc_type()
    logger.error("The thread %s broke down", broken.thread.name if broken.thread else "", exc_info=error)


def _file_handler(path: Path) -> logging.Handler:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigurationError(
            f"The log file cannot be opened ({error.strerror}): choose another --log-file."
        ) from None
