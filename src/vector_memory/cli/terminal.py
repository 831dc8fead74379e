"""Output of commands: fits 80 columns, plain text if standard output is not a terminal, or JSON."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOBase
from typing import IO, TYPE_CHECKING, Any, cast

from vector_memory.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters except tabs and line ends, and characters that change the text direction."""

SPECIAL = re.compile("[^\n -~]")


def printable(text: str) -> str:
    """Return a text with control characters, except line ends, written as escapes."""
    return STEERING.sub(lambda found: repr(found[0])[1:-1], text)


def as_json(value: Any, encoding: str, indent: int | None = 2) -> str:
    """Return a value as JSON, with escapes for characters that are not printable."""
    text = json.dumps(value, indent=indent, ensure_ascii="utf" not in encoding.lower())
    return SPECIAL.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


WIDEST = 120
FILLING = re.compile(" +$", re.MULTILINE)


class Trimmed(TextIOBase):
    """Standard output that is not a terminal: removes the spaces that pad lines to the terminal's width."""

    def write(self, text: str) -> int:
        """Write text."""
        return sys.stdout.write(FILLING.sub("", text))

    def flush(self) -> None:
        """Flush standard output: whoever follows `--watch` reads each line at once."""
        sys.stdout.flush()


def console() -> "Console":
    """Return the console to print to. Its width is limited, because long lines are hard to read."""
    from rich.console import Console

    file = sys.stdout if sys.stdout.isatty() else cast("IO[str]", Trimmed())
    made = Console(file=file, highlight=False, markup=False, emoji=False)
    made.width = min(made.width, WIDEST)
    return made


def one_line(text: str) -> str:
    """Return a stored text on one line."""
    return " ".join(printable(text).split())


def moment(time: str) -> str:
    """Return a UTC time to the minute."""
    return f"{time[:10]} {time[11:16]}"


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    say(as_json(value, sys.stdout.encoding))


def agreed(question: str, otherwise: str) -> bool:
    """Ask the user; if the answer is not yes, print `otherwise`. Raises ConfigurationError without a terminal."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise ConfigurationError("No terminal to ask for confirmation in: add --yes to make the change, or --dry-run.")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    say(otherwise)
    return False


def grid(headings: Sequence[str], **options: Any) -> "Table":
    """Return a table with these headings."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(*headings, padding=(0, 2), pad_edge=False, **options)
    table.add_row(*(Text(heading, style="dim") for heading in headings))
    return table


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar if standard error is a terminal; yield a callback for (done, total)."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def status(what: str, out: "Console | None" = None) -> Iterator[None]:
    """Show a spinner with a message if standard error, or the console `out`, is a terminal."""
    if not (out.is_terminal if out else sys.stderr.isatty()):
        yield
        return
    from rich.console import Console

    with (out or Console(stderr=True)).status(what):
        yield


def score_column(value: float | None) -> str:
    """Return a score as a column of four characters; a dash where nothing was compared."""
    return "   -" if value is None else f"{value:.2f}"


@contextmanager
def resumable() -> Iterator[None]:
    """Say that progress is saved if the user interrupts the block."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("vector-memory: interrupted; progress is saved: run the same command again to continue.\n")
        raise
