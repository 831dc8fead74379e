"""Processes that start at once: copies of one that has imported everything already.

Python and a server's libraries take a second of processor time to start, and most tests claim nothing about that. The
others start the real command: tests/process/test_stdio.py, test_starting.py and test_surroundings.py among them.
"""

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Self

import pytest

COPIES = multiprocessing.get_context("forkserver")
COPIES.set_forkserver_preload(["forked_from"])

STARTING = threading.Lock()
"""Of the thread that starts the process to copy, which changes the environment for a moment."""

COMMAND = "vector-memory"


class Forked:
    """Like a `subprocess.Popen` with three pipes.

    `words` are those of the command line: `COMMAND` and its words, or as for Python `-c` and code, `-m` and a module.
    `into`: files to which standard output (1) or errors (2) go, if not into their pipes.
    """

    def __init__(
        self,
        *words: object,
        env: Mapping[str, str] = os.environ,
        cwd: Path | None = None,
        umask: int = 0o022,
        text: bool = False,
        into: Mapping[int, IO[Any]] = MappingProxyType({}),
    ) -> None:
        with STARTING:
            process_to_copy()
        (theirs, ours), *others = [COPIES.Pipe(duplex=False) for _ in range(3)]
        ours, theirs = [ours, *(reading for reading, _ in others)], [theirs, *(writing for _, writing in others)]
        for number, file in into.items():
            theirs[number].close()
            theirs[number] = Connection(os.dup(file.fileno()), readable=False)
        arguments = (list(map(str, words)), dict(env), cwd or Path.cwd(), umask, theirs)
        self._process = COPIES.Process(target=run, args=arguments, daemon=True)
        self._process.start()
        self.pid = self._process.pid
        modes = ("w", "r", "r") if text else ("wb", "rb", "rb")
        self.stdin, self.stdout, self.stderr = map(os.fdopen, (os.dup(end.fileno()) for end in ours), modes)
        for end in (*ours, *theirs):
            end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self.wait()

    def hang_up(self) -> None:
        """Close the pipes."""
        for pipe in (self.stdout, self.stderr, self.stdin):
            pipe.close()

    @property
    def returncode(self) -> int | None:
        """The exit code; of a signal, its negative number; None as long as the process runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, or None as long as the process runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(COMMAND, timeout or 0)
        return self.returncode

    def communicate(self, given: Any = None) -> tuple[Any, Any]:
        """Write what is given, read all output, and wait for the end. Errors have to fit into a pipe."""
        if given:
            self.stdin.write(given)
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()
        output, errors = self.stdout.read(), self.stderr.read()
        self.hang_up()
        self.wait()
        return output, errors

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process as if the power had gone."""
        self._process.kill()


@cache
def process_to_copy() -> None:
    """Start the process that is copied, with the folder of `forked_from` in its path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        forkserver.ensure_running()


def finished(
    *words: object, given: str = "", env: Mapping[str, str] = os.environ, cwd: Path | None = None, umask: int = 0o022
) -> subprocess.CompletedProcess[str]:
    """Run what the words name to its end; without `-c` and `-m` they are those of the command."""
    start = () if words and words[0] in ("-c", "-m") else (COMMAND,)
    process = Forked(*start, *words, env=env, cwd=cwd, umask=umask, text=True)
    output, errors = process.communicate(given)
    return subprocess.CompletedProcess(words, process.wait(), output, errors)


def run(words: list[str], variables: dict[str, str], folder: Path, umask: int, pipes: list[Connection]) -> None:
    """Be the program that the words name: in its folder, with its variables, umask and standard streams.

    It ends with the process of the tests: some servers read no input, whose end would tell them.
    """
    threading.Thread(target=end_with_tests, daemon=True).start()
    for number, pipe in enumerate(pipes):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    os.umask(umask)
    sys.path[:0] = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
    match words:
        case ["-c", code, *words]:
            sys.argv = ["-c", *words]
            exec(code, {"__name__": "__main__"})  # noqa: S102 - it is the code of a test
        case ["-m", module, *words]:
            sys.argv = [module, *words]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case _:
            from vector_memory.cli.main import main  # noqa: PLC0415 - the copy has imported it

            sys.argv = words
            main()


def end_with_tests() -> None:
    """Wait until the process of the tests is gone, and end this one."""
    tests = multiprocessing.parent_process()
    assert tests
    tests.join()
    os._exit(1)
