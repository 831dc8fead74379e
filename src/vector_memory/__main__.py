"""Start vector-memory with `python -P -m vector_memory`.

Without -P, Python searches the current folder first for every module. Only -P can prevent that for `vector_memory`
itself; this module prevents it for all later imports.
"""

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from vector_memory.cli.main import main

main()
