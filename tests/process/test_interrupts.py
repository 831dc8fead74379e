"""Ctrl-C ends every command with exit code 130 and without a traceback, at whatever moment it comes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servers import MAIN, QUICK

SIGNALS_ITSELF = """
import _signal, atexit, os, sys, weakref

number, moment, place = int(os.environ["NUMBER"]), os.environ["MOMENT"], os.environ["PLACE"]
_signal.signal(_signal.SIGINT, _signal.default_int_handler)  # a shell's background processes ignore it

def signalled(*_):
    _signal.raise_signal(number)

class InAClassBody:
    def __set_name__(self, *_):
        signalled()

class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == moment:
            sys.meta_path.remove(Finder)
            if place == "callback":
                something = InAClassBody()
                reference = weakref.ref(something, signalled)
                del something
            elif place == "class body":
                type("Another", (), {"attribute": InAClassBody()})
            else:
                signalled()

sys.meta_path.insert(0, Finder)
if moment == "exit":
    atexit.register(signalled)
"""
"""A `sitecustomize`: the process sends itself a signal as soon as it imports a module, or when it exits."""

MODULE = [sys.executable, "-P", "-m", "vector_memory"]
STARTS = {"console script": [str(Path(sys.executable).with_name("vector-memory"))], "main.py": [sys.executable, MAIN]}
SENT = {"import-sessions": ["import-sessions"], "serve": ["serve"], "search": ["search", "anything"]}


def signalled(folder: Path, *words: object, moment: str, place: str = "import", number: int = 2) -> tuple[int, str]:
    """Run a command that sends itself a signal; return its exit code and what it wrote to standard error."""
    (folder / "sitecustomize.py").write_text(SIGNALS_ITSELF)
    told = {"NUMBER": str(number), "MOMENT": moment, "PLACE": place, "PYTHONPATH": str(folder), "HOME": str(folder)}
    command = [*words, "--database-path", folder / "memory.db"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=os.environ | QUICK | told
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("moment", ["vector_memory.cli", "vector_memory.cli.commands.transfer"])
def test_an_interrupt_ends_each_way_to_start_without_a_traceback(
    tmp_path: Path, start: list[object], moment: str
) -> None:
    assert signalled(tmp_path, *start, "import-sessions", moment=moment) == (130, "")


@pytest.mark.parametrize(
    ("command", "moment"),
    [
        ("import-sessions", "signal"),
        ("import-sessions", "vector_memory.cli.main"),
        ("import-sessions", "cyclopts"),
        ("import-sessions", "vector_memory.store"),
        ("import-sessions", "exit"),
        ("search", "numpy"),
        ("sessions", "vector_memory.storage"),
        ("serve", "vector_memory.server.app"),
    ],
)
def test_an_interrupt_ends_a_command_at_any_moment(tmp_path: Path, command: str, moment: str) -> None:
    words = SENT.get(command, [command])
    if command in ("sessions", "search"):
        assert signalled(tmp_path, *MODULE, "import-sessions", moment="never")[0] == 0
    assert signalled(tmp_path, *MODULE, *words, moment=moment) == (130, "")


@pytest.mark.parametrize("moment", ["vector_memory.cli.commands", "vector_memory.cli.commands.transfer"])
@pytest.mark.parametrize("place", ["callback", "class body"])
def test_an_interrupt_that_python_would_hide_ends_a_command_too(tmp_path: Path, moment: str, place: str) -> None:
    """Python drops what a callback raises, and what a class body raises becomes a RuntimeError."""
    assert signalled(tmp_path, *MODULE, "import-sessions", moment=moment, place=place) == (130, "")


def test_a_termination_that_python_would_hide_ends_a_command_too(tmp_path: Path) -> None:
    assert signalled(
        tmp_path, *MODULE, "import-sessions", moment="vector_memory.cli.commands.transfer", place="callback", number=15
    ) == (143, "")
