"""Vector memory for AI agents: keeps what they find, and finds it by meaning.

Usage: vector-memory [COMMAND] [FLAGS]

Serve:
  serve        answer an MCP client over standard input and output (the default)
  demo         store a folder of Markdown files and ask questions about it

Use:
  ingest       store files and folders of Markdown or text
  search       find what is stored, by meaning and by its words
  show         print a memory and where it comes from
  sessions     list the sessions, the latest first
  timeline     list what was stored in a session: when, by whom
  stats        count what a session, or the whole memory, holds
  report       make an HTML page of a session: its timeline, map and texts

Move:
  export       write one session, or all, to a file of JSON Lines
  import       add the memories of such a file

Keep well:
  delete       delete a memory
  backfill     make the vectors that are missing
  reembed      make all vectors anew, with another model
  doctor       say whether the installation and the memory are healthy
  backup       copy the memory to a file, also while servers use it
  restore      put a backup in the memory's place
  fetch-model  download the embedding model and the token table
  completion   let bash, zsh or fish complete commands and flags
  --version    print the version

`vector-memory COMMAND --help` lists the flags of a command. Every setting is
also an environment variable: --log-level is VECTOR_MEMORY_LOG_LEVEL.
With --json a command prints one JSON object, and errors as one, too.

Exit code 0: done, 1: failed, 2: not understood, 130: interrupted.
"""

# This docstring is what `vector-memory --help` prints: it should not cost an import.

import gc
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from vector_memory.errors import ConfigurationError, VectorMemoryError

RARELY = 100_000
"""New objects until the garbage is looked for: what is imported stays, and looking takes a tenth of the start."""

SIGNALLED = 128
"""What shells add to the number of the signal that ended a program."""

READER_GONE = 141
"""What shells say of a program that wrote to a closed pipe, as `vector-memory show 7 | head` may do."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(RARELY)
    words = sys.argv[1:]
    if words in (["-h"], ["--help"]):
        sys.stdout.write(__doc__)
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what a terminal cannot show must not fail a command
    from vector_memory.cli import arguments, commands

    try:
        with cleaned_up_when_ended():
            arguments.run(commands.app, words)
    except (arguments.UsageError, ConfigurationError) as error:
        fail(error, code=2)
    except VectorMemoryError as error:
        fail(error, code=1)
    except BrokenPipeError:
        # Python would try to write the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(READER_GONE)


@contextmanager
def cleaned_up_when_ended() -> Iterator[None]:
    """Let a signal that ends a command do so as an interrupt from the keyboard does, so that no draft is left behind.

    A signal that whoever started the command has told it to ignore stays ignored; a server has its own way to end.
    """

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        sys.exit(SIGNALLED + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in (number for number, action in before.items() if action is signal.SIG_DFL):
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def fail(error: Exception, *, code: int) -> NoReturn:
    """Say on standard error what is wrong, and end the process."""
    from vector_memory.cli.terminal_text import as_json, printable

    if "--json" in sys.argv:
        name = error.code if isinstance(error, VectorMemoryError) else ConfigurationError.code
        message = as_json({"success": False, "error": name, "message": str(error)}, sys.stderr.encoding, indent=None)
    else:
        message = f"vector-memory: {printable(str(error))}"
    sys.stderr.write(f"{message}\n")
    sys.exit(code)
