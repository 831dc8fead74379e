"""The built packages, and environments with nothing else. Needs uv and the package index."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
MODEL_PACKAGE = "vector-memory-model"


def uv(*words: str | Path) -> None:
    """Run uv."""
    done = subprocess.run(["uv", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Distributions:
    """What would be published, in a folder."""

    folder: Path

    @property
    def wheel(self) -> Path:
        return next(self.folder.glob("vector_memory-*.whl"))

    @property
    def sdist(self) -> Path:
        return next(self.folder.glob("vector_memory-*.tar.gz"))

    @property
    def model(self) -> Path:
        return next(self.folder.glob("vector_memory_model-*.whl"))

    @property
    def multilingual(self) -> Path:
        return next(self.folder.glob("vector_memory_multilingual-*.whl"))


def copy_of_the_clone(folder: Path) -> Path:
    """Make a new folder with what git knows, or would if it were added."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in listed.split("\0")[:-1]:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
    return folder


def commands_of(heading: str) -> dict[str, str]:
    """Return the commands in the table of a section of docs/installing.md, by what is in front of them."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {row[0]: row[1].strip("`") for row in rows if row[1].startswith("`")}


@dataclass(frozen=True)
class Installed:
    """An installed package, for a user whose home is empty."""

    folder: Path
    executables: Path

    @property
    def variables(self) -> dict[str, str]:
        return {"HOME": str(self.folder / "home"), "PATH": os.defpath}

    def command(self, *words: str) -> list[str]:
        return [str(self.executables / "vector-memory"), *words]

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


def install(folder: Path, *distributions: Path) -> Installed:
    """Install distributions into a new environment in a new folder."""
    executables = folder / "environment" / "bin"
    (folder / "home").mkdir(parents=True)
    uv("venv", "--quiet", "--python", sys.executable, folder / "environment")
    uv("pip", "install", "--quiet", "--python", executables / "python", *distributions)
    return Installed(folder, executables)
