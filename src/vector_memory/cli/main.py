"""Persistent memory for AI agents, searchable by meaning and words.

Usage: vector-memory [COMMAND] [FLAGS]

Server:
  serve            serve an MCP client over standard input and output (default)
  install          connect the coding agents on this machine, or one of them
  uninstall        disconnect a client
  ui               open a page over the memory in a browser
  demo             store a folder of Markdown files and ask questions about it

Store and search:
  store            store a text
  ingest           store Markdown and text files
  search           search by meaning and words
  list             list memories of any kind, latest first
  show             print a memory
  sessions         list the sessions, latest first
  timeline         list what was stored in a session, when and by whom
  stats            count the memories of a session or of the whole file
  review           list memories that may be out of date
  verify           list memories about files that have changed
  report           write an HTML page of a session, or of each

Import and export:
  export           write one session, or everything, to a JSON Lines file
  import           add the memories of an exported file
  copy             copy the memory from a file to PostgreSQL, or back
  import-sessions  store the past sessions of agents on this machine

Maintenance:
  supersede        mark memories as superseded by a later one
  quarantine       take memories out of use, and all derived from them
  undo             list what agents deleted, and bring it back
  delete           delete memories, or a session
  pin              keep memories whatever their age
  unpin            undo pin
  edit             change the title, description or tags of a memory
  tag              add tags to memories, or remove them
  cleanup          delete old memories
  backfill         compute missing vectors
  reembed          recompute all vectors with another model
  models           list the embedding models, and which are installed
  doctor           check the installation and the memory, and repair them
  backup           copy the memory to a file, even while servers use it
  restore          replace the memory with a backup
  database         prepare a PostgreSQL database for servers
  namespace        create, limit or list the memories of a server for teams
  token            create, list or revoke the tokens of such a server
  audit            print and check who called what on such a server
  fetch-model      download the embedding model and the token table
  completion       print a completion script for bash, zsh or fish
  hook             keep what a client's hook reports; hooks run it
  --version        print the version

Run `vector-memory COMMAND --help` for the flags of a command. Every setting is
also an environment variable: --log-level is VECTOR_MEMORY_LOG_LEVEL.
With --json a command prints its result, or its error, as one JSON object.

Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted.
"""

# `vector-memory --help` prints this docstring without importing anything.

import errno
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
from vector_memory.server.early import answer_early

RARELY = 100_000
"""Allocations between garbage collections: imported objects stay, and collecting takes a tenth of the start time."""

SIGNALLED = 128
"""Added to a signal's number in the exit code, as shells do."""

READER_GONE = 141
"""Exit code after writing to a closed pipe, as in `vector-memory show 7 | head`."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, as in `vector-memory export > file`."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(RARELY)
    words = in_our_words(sys.argv[1:])
    if words in (["-h"], ["--help"]):
        sys.stdout.write(__doc__)
        return
    answer_early(words)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # unprintable characters must not raise
    from vector_memory.cli import arguments, commands

    try:
        with cleaned_up_when_ended(), written_out():
            arguments.run(commands.app, words)
    except (arguments.UsageError, ConfigurationError) as error:
        fail(error, code=2)
    except VectorMemoryError as error:
        fail(error, code=1)
    except BrokenPipeError:
        drop_output()
        sys.exit(READER_GONE)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        drop_output()
        fail(ConfigurationError(f"The output cannot be written ({error.strerror}): free some space."), code=1)


@contextmanager
def written_out() -> Iterator[None]:
    """Flush the output before the end of the block: errors of Python's own flush at exit look different."""
    try:
        yield
    finally:
        if sys.stdout is not None:  # it is if the parent process has closed it
            sys.stdout.flush()


def drop_output() -> None:
    """Drop pending standard output: otherwise Python tries to write it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def in_our_words(words: list[str]) -> list[str]:
    """Translate `-V` and `help`, as other programs call them, into this program's words."""
    match words:
        case ["-V"]:
            return ["--version"]
        case ["help", *command]:
            return [*command[:1], "--help"]
    return words


@contextmanager
def cleaned_up_when_ended() -> Iterator[None]:
    """Make signals that end a command raise an exception, so that it cleans up and no draft is left behind.

    Signals that the parent process set to be ignored stay ignored. A server has its own way to shut down.
    """

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        sys.exit(SIGNALLED + number)

    actions = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: end, signal.SIGHUP: end}
    before = {number: signal.getsignal(number) for number in actions}
    try:
        for number, handler in actions.items():
            if before[number] is not signal.SIG_IGN:
                signal.signal(number, handler)
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


def fail(error: Exception, *, code: int) -> NoReturn:
    """Write the error to standard error and exit. Only here are its notes shown, such as the file's path."""
    from vector_memory.cli.terminal import as_json, printable

    said = " ".join([str(error), *getattr(error, "__notes__", [])])
    if "--json" in sys.argv:
        name = error.code if isinstance(error, VectorMemoryError) else ConfigurationError.code
        message = as_json({"success": False, "error": name, "message": said}, sys.stderr.encoding, indent=None)
    else:
        message = f"vector-memory: {printable(said)}"
    sys.stderr.write(f"{message}\n")
    sys.exit(code)
