"""The demo: stores Markdown files through the real server and asks questions about them."""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from rich.console import Console

from vector_memory.cli.demo.output import GRAINS, Output, find_subject

# -P: import nothing from the folder in which the server is started.
SERVER = (sys.executable, "-P", "-m", "vector_memory", "serve")


def run_demo(folder: Path | None, *, questions: Sequence[str], limit: int, database: Path | None) -> None:
    """Store the Markdown files of `folder` and print what each question finds at all three granularities.

    Without `questions`, suitable ones are chosen and asked at one granularity each. Without `database`, a temporary one
    is used. Raises VectorMemoryError.
    """
    subject = find_subject(folder, limit)
    subject = replace(subject, first=0) if questions else subject
    asked = [(grain, question) for question in questions for grain in GRAINS]
    output = Output(Console())
    output.intro(subject)
    with output.waiting("Starting the server"):
        # Not at the top: the import takes a second or more, and by now the user sees progress.
        from vector_memory.cli.demo.running import Demo
    with tempfile.TemporaryDirectory(prefix="vector-memory-demo-") as scratch:
        demo = Demo(SERVER, database or Path(scratch, "memory.db"), Path(scratch, "server.log"), output)
        asyncio.run(demo.run(subject, asked or list(zip(cycle(GRAINS), subject.questions))))
    output.next_steps("uv run main.py" if Path(sys.argv[0]).name == "main.py" else "vector-memory", database)
