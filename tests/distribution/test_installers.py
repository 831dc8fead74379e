"""The commands of docs/installing.md, and the original server's, for a user whose home is empty.

Downloads are taken from the caches of whoever runs this.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from distribution.building import Distributions, commands_of, copy_of_the_clone
from distribution.test_installed import HEAVY, installation

pytestmark = pytest.mark.distribution

GET_UV = commands_of("uv")
INSTALLERS = commands_of("The package")
BEFORE = {
    "pip, in a virtual environment": f"{shlex.quote(sys.executable)} -m venv ~/own && . ~/own/bin/activate",
    "pipx": "uv tool install --quiet pipx",
}
UV = Path(os.environ.get("UV") or shutil.which("uv") or "uv")


def shell(script: str, folder: Path, home: Path, *places: Path) -> subprocess.CompletedProcess[str]:
    """Run commands as somebody whose commands are in these places and in those of the system."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(cache), "HF_HOME": str(home / "no models")}
    path = {"PATH": os.pathsep.join(map(str, (home / ".local" / "bin", *places, "/usr/bin", "/bin")))}
    network = {name: value for name, value in os.environ.items() if name.startswith(("SSL_", "PIP_", "UV_"))}
    words = ["bash", "-euo", "pipefail", "-c", script]
    return subprocess.run(words, cwd=folder, env=network | own | path, capture_output=True, text=True, check=False)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture(scope="module")
def clone(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which `uv build --all-packages` was run."""
    folder = copy_of_the_clone(tmp_path_factory.mktemp("clone"))
    (folder / "dist").symlink_to(distributions.folder)
    return folder


@pytest.mark.parametrize("installer", INSTALLERS)
def test_one_command_installs_everything_and_no_torch(installer: str, clone: Path, home: Path) -> None:
    command = INSTALLERS[installer]
    if not command.endswith(" vector-memory"):  # which runs it, too
        command = f"{{ {BEFORE.get(installer, ':')} && {command}; }} >&2 && vector-memory"
    done = shell(f"{command} doctor --json --database-path ~/memory.db", clone, home, UV.parent)
    assert set(installation(done).values()) == {"ok"}, done.stderr
    assert not {path.name for path in home.rglob("site-packages/*")}.intersection(HEAVY)


def test_uv_can_be_installed_where_python_belongs_to_the_system(home: Path) -> None:
    done = shell(f"{GET_UV['a virtual environment']} && uv --version", home, home)
    assert done.stdout.splitlines()[-1].startswith("uv "), done.stderr


def test_the_original_servers_commands_install_a_clone(home: Path, tmp_path: Path) -> None:
    clone = copy_of_the_clone(tmp_path / "clone")
    install = "uv venv && source .venv/bin/activate && uv pip install -r requirements.txt"
    done = shell(f"{install} && python main.py --help", clone, home, UV.parent)
    assert "vector-memory COMMAND" in done.stdout, done.stderr
    done = shell(".venv/bin/python main.py doctor --json", clone, home)
    assert set(installation(done).values()) == {"ok"}, done.stderr


@pytest.mark.parametrize("package", ["model", "multilingual"])
def test_pip_builds_the_same_package_of_weights(
    package: str, distributions: Distributions, home: Path, tmp_path: Path
) -> None:
    clone = copy_of_the_clone(tmp_path / "clone")
    make = f"{BEFORE['pip, in a virtual environment']} && pip wheel --no-deps --wheel-dir ~ ./packages/{package}"
    done = shell(make, clone, home)
    assert done.returncode == 0, done.stderr
    built = getattr(distributions, package)
    assert (home / built.name).read_bytes() == built.read_bytes()
