"""The main job on real input: stores Markdown files through the real server, and asks questions about them."""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from vector_memory.cli.demo.files import find_subject
from vector_memory.cli.demo.output import GRAINS, Output

# -P: nothing is imported from the folder that the server happens to be started in.
SERVER = (sys.executable, "-P", "-m", "vector_memory", "serve")


def run_demo(folder: Path | None, *, questions: Sequence[str], limit: int, database: Path | None) -> None:
    """Store the Markdown files of `folder` and print what the questions find, each at all three grains.

    Without questions three are found that suit the files, and each is asked at another grain. Without a database a
    temporary one is used. Raises VectorMemoryError.
    """
    subject = find_subject(folder, limit)
    asked = [(grain, question) for question in questions for grain in GRAINS]
    kept = database.expanduser().absolute() if database else None
    output = Output(Console())
    output.intro(subject)
    with output.waiting("Starting the server"):
        # Not at the top: it takes a second or more, and by now the user knows what is going on.
        from vector_memory.cli.demo.running import Demo
    with tempfile.TemporaryDirectory(prefix="vector-memory-demo-") as scratch:
        demo = Demo(SERVER, kept or Path(scratch, "memory.db"), Path(scratch, "server.log"), output)
        asyncio.run(demo.run(subject, asked or list(zip(GRAINS, subject.questions, strict=False))))
    output.next_steps(SERVER, kept)
