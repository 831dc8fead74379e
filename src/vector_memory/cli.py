"""Vector memory for AI agents: keeps what they find, and finds it by meaning.

Usage: vector-memory [COMMAND] [FLAGS]

Commands:
  serve        answer an MCP client over standard input and output (the default)
  demo         store a folder of Markdown files and ask questions about it
  backfill     make the vectors that are missing
  reembed      make all vectors anew, with another model
  doctor       say whether the installation and the memory are healthy
  backup       copy the memory to a file, also while servers use it
  restore      put a backup in the memory's place
  fetch-model  download the embedding model and the token table
  --version    print the version

`vector-memory COMMAND --help` lists the flags of a command. Every setting is
also an environment variable: --default-chunk-size is DEFAULT_CHUNK_SIZE.
"""

# This docstring is what `vector-memory --help` prints: it should not cost an import.

import sys
from typing import NoReturn

from vector_memory.errors import ConfigurationError, VectorMemoryError


def main() -> None:
    """Run the command line. Exit code 0: done, 1: failed, 2: not understood."""
    words = sys.argv[1:]
    if words in (["-h"], ["--help"]):
        sys.stdout.write(__doc__)
        return
    from vector_memory import arguments, commands

    try:
        arguments.run(commands.app, words)
    except (arguments.UsageError, ConfigurationError) as error:
        fail(str(error), code=2)
    except VectorMemoryError as error:
        fail(str(error), code=1)


def fail(message: str, *, code: int) -> NoReturn:
    """Say on standard error what is wrong, and end the process."""
    sys.stderr.write(f"vector-memory: {message}\n")
    sys.exit(code)
