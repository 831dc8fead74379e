"""What a run was made with: versions, machine, data, and the code that its figures are about."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import apsw

from vector_memory.domain import Fingerprint

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("vector-memory", "vector-memory-model", "sqlite-vec", "onnxruntime", "tokenizers", "numpy")
RANKING = (
    "search/*.py",
    "texts/*.py",
    "embedding/*.py",
    *(f"storage/{name}.py" for name in ("postings", "scoring", "spelling")),
)
"""The code that decides what is found, in the package: not how what it compares is stored."""


def described(data: Path, model: Fingerprint) -> dict[str, Any]:
    """Return what a run is made with. The time of a busy machine says little, so its load is noted."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        "commit of the package": git("log", "-1", "--format=%H", "--", "src"),
        "changed since": bool(git("status", "--porcelain", "--", "src")),
        "code": code_digest(),
        "data": {"name": data.name, **identity(data)},
        "model": str(model),
        "versions": {
            **{name: version(name) for name in PACKAGES},
            "SQLite": apsw.sqlite_lib_version(),
            "Python": platform.python_version(),
        },
        "machine": {
            "processor": processor(),
            "CPUs": os.cpu_count(),
            "memory, GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "load before": round(os.getloadavg()[0], 1),
        },
    }


def identity(data: Path) -> dict[str, str]:
    """Return what identifies a file, a folder or a clone."""
    if (data / ".git").exists():
        return {"commit": git("rev-parse", "HEAD", at=data)}
    files = [data] if data.is_file() else sorted(path for path in data.rglob("*") if path.is_file())
    return {"sha256": digest(files)}


def git(*arguments: str, at: Path = ROOT) -> str:
    """Return what Git says; empty outside a repository."""
    command = ["git", "-C", str(at), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def processor() -> str:
    """Return the name of the processor, or its kind where the system does not name it."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def code_digest() -> str:
    """Return the digest of the code that decides what is found, so that a run made before a change can be told."""
    package = ROOT / "src" / "vector_memory"
    return digest(sorted(path for each in RANKING for path in package.glob(each)))


def digest(files: Sequence[Path]) -> str:
    """Return the SHA-256 of the contents of files."""
    hashed = hashlib.sha256()
    for path in files:
        hashed.update(path.read_bytes())
    return hashed.hexdigest()
