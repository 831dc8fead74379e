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
also an environment variable: --default-chunk-size is DEFAULT_CHUNK_SIZE.
With --json a command prints one JSON object, and errors as one, too.

Exit code 0: done, 1: failed, 2: not understood, 130: interrupted.
"""

# This docstring is what `vector-memory --help` prints: it should not cost an import.

from vector_memory import surroundings  # noqa: F401 - must come before pydantic and numpy  # isort: skip

import gc
import io
import os
import sys
from typing import NoReturn

from vector_memory.errors import ConfigurationError, VectorMemoryError

RARELY = 100_000
"""New objects until the garbage is looked for: what is imported stays, and looking takes a tenth of the start."""

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
    from vector_memory import arguments, commands

    try:
        arguments.run(commands.app, words)
    except (arguments.UsageError, ConfigurationError) as error:
        fail(error, code=2)
    except VectorMemoryError as error:
        fail(error, code=1)
    except BrokenPipeError:
        # Python would try to write the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(READER_GONE)


def fail(error: Exception, *, code: int) -> NoReturn:
    """Say on standard error what is wrong, and end the process."""
    if "--json" in sys.argv:
        import json

        name = error.code if isinstance(error, VectorMemoryError) else ConfigurationError.code
        message = json.dumps({"success": False, "error": name, "message": str(error)}, ensure_ascii=False)
    else:
        message = f"vector-memory: {error}"
    sys.stderr.write(f"{message}\n")
    sys.exit(code)
