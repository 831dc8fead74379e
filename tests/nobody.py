"""Runs a command as a user without rights: `python nobody.py DATABASE COPY WORDS...`.

The command is run on the copy first, by the user who runs the tests: afterwards everything is imported, wherever
Python is installed.
"""

import contextlib
import io
import os
import sys

from vector_memory.cli.main import main

NOBODY = 65534


def run(database: str, words: list[str]) -> int:
    """Run a command in this process and return its exit code."""
    sys.argv = ["vector-memory", *words, "--database-path", database]
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


if __name__ == "__main__":
    database, copy, *words = sys.argv[1:]
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()):
        run(copy, words)
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    sys.exit(run(database, words))
