"""The files that deploy the server, as far as a machine without systemd and containers can check them."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from vector_memory.cli import commands

DEPLOY = Path(__file__).parents[2] / "deploy"


def flags_of(words: list[str]) -> None:
    """Raise an error unless the command line is one of ours."""
    command, bound, *_ = commands.app.parse_args(words[1:], exit_on_error=False, print_error=False)
    assert command.__name__ == "serve"
    assert bound.arguments["http"].http


def test_the_unit_starts_the_server_as_somebody_who_may_write_nothing_else() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "vector-memory.service")
    service = unit["Service"]
    flags_of(shlex.split(service["ExecStart"]))
    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    assert (service["ProtectSystem"], service["StateDirectoryMode"]) == ("strict", "0700")
    key = Path(re.findall(r"--audit-key (\S+)", service["ExecStart"])[0])
    assert key.parent in [Path("/var/lib") / name for name in service["StateDirectory"].split()]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "vector-memory.service").read_text().replace("/usr/local/bin/vector-memory", "/bin/true")
    unit = tmp_path / "vector-memory.service"
    unit.write_text(text)
    checked = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert not re.search(r"Unknown|Failed to parse|Invalid", checked.stderr)


def test_the_container_runs_the_server_without_root() -> None:
    lines = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    steps = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    order = [step for step, _, _ in steps]
    named = {step: rest for step, _, rest in steps}
    assert order.index("USER") > order.index("RUN")
    assert named["USER"] != "root"
    words = ["vector-memory", *re.findall(r'"([^"]+)"', named["CMD"])]
    flags_of([*words, "--data-dir", "/data", "--public-url", "https://memory.example.com"])
    assert "/healthz" in named["HEALTHCHECK"]
    key = Path(re.findall(r"VECTOR_MEMORY_AUDIT_KEY=(\S+)", named["ENV"])[0])
    assert str(key.parent) in named["VOLUME"].split()
