"""Whichever byte is changed: every call ends with an answer or a package error, and the doctor finds wrong answers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from faults.effort import effort

pytestmark = pytest.mark.timeout(effort(quick=600, long=200_000))

STEP = effort(quick=8_191, long=1)
"""One in this many bytes of the file is changed: a prime number, so that it is at another place in each page."""


def test_a_changed_byte_crashes_nothing_and_is_found_and_repaired_without_losing_a_text(tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    folder.mkdir(mode=0o700)
    code = Path(__file__).with_name("use_damaged.py")
    used = subprocess.run(
        [sys.executable, code, folder, "17", str(1 << 30), str(STEP)], capture_output=True, text=True, check=False
    )
    said = used.stdout.splitlines()
    assert used.returncode == 0, f"{said[-1:]} {used.stderr[-3000:]}"
    wrong = [f"{said[number - 1]}\n{line}" for number, line in enumerate(said) if line.startswith("WRONG")]
    assert not wrong
    assert len(re.findall("^ok$", used.stdout, re.MULTILINE)) == len(said) / 2 > 0
