"""Whatever bytes are in the file, every call ends with an answer or a package error, and the doctor reports why."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from doctor.conftest import store_all
from faults.effort import effort

pytestmark = pytest.mark.timeout(effort(quick=600, long=20_000))

FILES = effort(quick=8, long=2_000)
SECONDS_FOR_EACH = 120


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "template.db"
    store_all(path)
    return path


def test_a_damaged_file_crashes_nothing_and_the_doctor_reports_every_permanent_failure(
    template: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "damaged"
    folder.mkdir(mode=0o700)
    code = Path(__file__).with_name("use_damaged.py")
    used = subprocess.run(
        [sys.executable, code, template, folder, "0", str(FILES)],
        capture_output=True,
        text=True,
        timeout=FILES * SECONDS_FOR_EACH,
        check=False,
    )
    said = used.stdout.splitlines()
    assert used.returncode == 0, f"{said[-1:]} {used.stderr[-3000:]}"
    wrong = [f"{said[number - 1]}\n{line}" for number, line in enumerate(said) if line.startswith("WRONG")]
    assert not wrong
    assert len(re.findall("^ok$", used.stdout, re.MULTILINE)) == FILES
