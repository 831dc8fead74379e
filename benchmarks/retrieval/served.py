"""The real server at the other end of a pipe, in the profile that a client would start."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "performance"))

from client import OUR_SERVER, Server

Call = Callable[..., dict[str, Any]]
"""Calls a tool and returns the whole result, which has to be a success."""


@contextmanager
def server_on(memory: Path, profile: str, *options: str) -> Iterator[Call]:
    """Start a server on a memory, with nothing set but its profile and `options`; yield what calls its tools."""
    started = Server(command=[*OUR_SERVER, str(memory), "--profile", profile, *options])
    started.initialize()
    yield started.result
    started.stop()
