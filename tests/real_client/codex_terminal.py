"""The real Codex in a terminal: what it shows, and keys that the user presses."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from waiting import eventually

CONTROLS = re.compile(rb"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[=>78()][B0]?")
QUESTIONS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62c"}
"""What programs ask a terminal, and what one answers: where the cursor is, and which terminal it is."""

ROWS, COLUMNS = 50, 120


class CodexTerminal:
    """Codex running in a terminal; it is killed at the end."""

    def __init__(self, command: Path, project: Path, variables: Mapping[str, str]) -> None:
        self._shown = b""
        self._terminal, theirs = pty.openpty()
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [command, "--no-daemon"],
            cwd=project,
            env={**variables, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._terminal)

    def wait_for(self, holds: Callable[[str], object]) -> None:
        """Wait until a condition holds for what it has shown since the last key."""
        eventually(lambda: holds(self._read()))

    def press(self, key: str) -> None:
        """Press a key. What was shown until then is forgotten."""
        self._shown = b""
        os.write(self._terminal, key.encode())

    def press_until(self, key: str, text: str) -> None:
        """Press a key until a text is shown: some are lost while a screen is being drawn."""

        def is_shown() -> bool:
            self.press(key)
            time.sleep(0.5)
            return text in self._read()

        eventually(is_shown)

    def _read(self) -> str:
        """Return the words that it has shown; a screen is drawn by moving the cursor between them."""
        while select.select([self._terminal], [], [], 0)[0]:
            try:
                new = os.read(self._terminal, 65536)
            except OSError:  # it has ended
                break
            self._shown += new
            for question, answer in QUESTIONS.items():
                if question in new:
                    os.write(self._terminal, answer)
        return " ".join(CONTROLS.sub(b" ", self._shown).decode(errors="replace").split())
