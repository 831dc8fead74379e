"""What commands print: calm at 80 columns, plain text when there is no terminal, or JSON."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, cast

from vector_memory.cli.terminal_text import as_json, printable

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 120
FILLING = re.compile(" +$", re.MULTILINE)


class Trimmed:
    """Standard output that is no terminal: the blanks that fill up lines to the width of one are left out."""

    def write(self, text: str) -> int:
        """Write text."""
        return sys.stdout.write(FILLING.sub("", text))

    def flush(self) -> None:
        """Hand on what was written."""
        sys.stdout.flush()

    def isatty(self) -> bool:
        """Tell that it is none."""
        return False


def console() -> "Console":
    """Return where a command prints; a wide terminal is not filled, because long lines read badly."""
    from rich.console import Console

    file = sys.stdout if sys.stdout.isatty() else cast("IO[str]", Trimmed())
    made = Console(file=file, highlight=False, markup=False, emoji=False)
    made.width = min(made.width, WIDEST)
    return made


def one_line(text: str) -> str:
    """Return a stored text as one line."""
    return " ".join(printable(text).split())


def moment(time: str) -> str:
    """Return a time in UTC to the minute."""
    return f"{time[:10]} {time[11:16]}"


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    say(as_json(value, sys.stdout.encoding))


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar, if standard error is a terminal; yields what to call with how much is done, and of how much."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def status(what: str) -> Iterator[None]:
    """Show that something takes time, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextmanager
def resumable() -> Iterator[None]:
    """Say to who interrupts the block that what was done is not lost."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("vector-memory: interrupted; run the same command again to go on.\n")
        raise
