"""The example in which the real clients work one after another."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from other_clients.driven import ALL, NotInstalledError, command_of

EVENING = Path(__file__).parents[2] / "examples/an_evening.py"


def is_here(name: str) -> bool:
    try:
        command_of(name)
    except NotInstalledError:
        return False
    return True


@pytest.mark.real_client
@pytest.mark.timeout(3600)  # ten clients, some of which begin again on a busy machine
def test_the_next_session_of_another_client_is_told_what_each_one_has_found() -> None:
    here = [name for name in ALL if is_here(name)]
    if len(here) < 2:
        pytest.skip("fewer than two clients are installed: uv run python tests/from_npm.py other_clients/gemini")
    done = subprocess.run([sys.executable, EVENING, *here], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.findall(r"^ *(\S+) .* that rack (\d+) is checked", done.stdout, re.MULTILINE)
    names = [name for name, _ in told]
    assert set(here) - {"grok"} <= {*names} <= set(here), "the first one is told at last"
    assert [int(rack) for _, rack in told] == [*range(1, len(names) + 1)]
