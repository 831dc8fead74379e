"""Whatever bytes are in the file, every call ends with an answer or a package error, and the doctor reports why."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from faults.effort import effort
from memory_files import SETTINGS
from vector_memory.store import SessionMemoryStore

pytestmark = pytest.mark.timeout(effort(quick=600, long=20_000))

FILES = effort(quick=8, long=2_000)
SECONDS_FOR_EACH = 120
DOCUMENT = "# Title\n\n" + "\n\n".join(f"## Part {number}\n\n" + f"word{number} " * 20 for number in range(6))


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "template.db"
    with SessionMemoryStore(path, SETTINGS) as store:
        store.store_memory("report", DOCUMENT, session_id="s", agent_id="a", task_code="t")
        store.store_memory("working_memory", f"Ünïcode. {DOCUMENT}", session_id="s", agent_id="b")
        store.store_memory("system_memory", "make database", session_id="s", agent_id="a")
        store.store_memory("knowledge_base", DOCUMENT, title="Lasting")
        store.tagged.store("A note about the build.", "solution", ["build-system", "make"])
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
