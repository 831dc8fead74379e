"""Start vector-memory with `python -P -m vector_memory`.

Without -P Python looks for every module in the current folder first, also for `vector_memory` itself, which only -P can
prevent; from here on nothing is imported from there.
"""

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from vector_memory.cli.main import main

main()
