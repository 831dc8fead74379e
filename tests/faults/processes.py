"""Starts the processes of `child`, and reads their output."""

import json
import os
from pathlib import Path
from typing import Any

from forked import Forked

TESTS = Path(__file__).parent.parent


def started(role: str, path: Path, number: int) -> Forked:
    """Start a process in a role."""
    return Forked(
        *("-m", "faults.child", role, path, number),
        text=True,
        cwd=TESTS,
        # Without a folder for it the token table is not loaded: that would take longer than the rest.
        env={**os.environ, "TIKTOKEN_CACHE_DIR": ""},
    )


def told(process: Forked) -> list[list[Any]]:
    """Wait for a process to end and return its lines; an incomplete line does not count."""
    lines = process.stdout.readlines()
    process.communicate()
    return [json.loads(line) for line in lines if line.endswith("\n")]
