"""A virtual environment for each server, and the model where each of them looks for it without a network.

The model is all-MiniLM-L6-v2 for all: its weights come with the package `vector-memory-model`. Those that run it with
ONNX Runtime are given an ONNX export made here with PyTorch, in place of the one that they would download.
"""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ONNX, WEIGHTS = "onnx", "weights"
WEIGHTS_PACKAGE = "vector_memory_model"
TORCH = "torch==2.13.0"
PYTHON = "3.11"
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
BESIDE_THE_GRAPH = ("config.json", "special_tokens_map.json", "tokenizer_config.json", "tokenizer.json", "vocab.txt")

EXPORT = """
import sys, torch, transformers
class Hidden(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = transformers.AutoModel.from_pretrained(sys.argv[1], attn_implementation="eager").eval()
    def forward(self, ids, mask, types):
        return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
names = ["input_ids", "attention_mask", "token_type_ids"]
example = torch.ones(2, 8, dtype=torch.int64)
torch.onnx.export(
    Hidden(), (example, example, example * 0), sys.argv[2], input_names=names, output_names=["last_hidden_state"],
    dynamic_axes={name: {0: "batch", 1: "length"} for name in [*names, "last_hidden_state"]},
    opset_version=17, dynamo=False,
)
"""

# A Python without loadable extensions cannot load sqlite-vec; then SQLite comes from a package.
CAN_LOAD_EXTENSIONS = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension"
SQLITE_PACKAGE = "pysqlite3-binary"
SQLITE_PATH_FILE = (
    "import sys, pysqlite3, pysqlite3.dbapi2; "
    "sys.modules.update({'sqlite3': pysqlite3, 'sqlite3.dbapi2': pysqlite3.dbapi2})"
)


class Environment(NamedTuple):
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> str:
        """Return its interpreter."""
        return self.script("python")

    def script(self, name: str) -> str:
        """Return a program in it."""
        return str(self.folder / "bin" / name)

    def version(self, package: str) -> str:
        """Return the version of an installed package."""
        asked = f"import importlib.metadata as m; print(m.version({package!r}))"
        return subprocess.check_output([self.python, "-c", asked], text=True).strip()


def make(folder: Path, python: str | None, requirements: Sequence[str], *, torch: bool = False) -> Environment:
    """Create an environment with the newest versions of the requirements, unless it exists."""
    environment = Environment(folder)
    if (folder / "complete").exists():
        return environment
    shutil.rmtree(folder, ignore_errors=True)
    run("uv", "venv", "--quiet", "--seed", "--python", python or PYTHON, folder)
    if torch:  # with pip, which is what finds the build for CPUs where a configured index has it
        run(environment.python, "-m", "pip", "install", "--quiet", TORCH)
    any_certifi = folder / "overrides.txt"
    any_certifi.write_text("certifi\n")  # an index that lags behind by days has not the one that some require
    run("uv", "pip", "install", "--quiet", "--python", environment.python, "--override", any_certifi, *requirements)
    with_extensions(environment)
    (folder / "complete").touch()
    return environment


def with_extensions(environment: Environment) -> None:
    """See to it that the environment's sqlite3 can load sqlite-vec."""
    if subprocess.run(
        [environment.python, "-c", CAN_LOAD_EXTENSIONS], stderr=subprocess.DEVNULL, check=False
    ).returncode:
        run("uv", "pip", "install", "--quiet", "--python", environment.python, SQLITE_PACKAGE)
        packages = next(environment.folder.glob("lib/python*/site-packages"))
        (packages / "sqlite_with_extensions.pth").write_text(SQLITE_PATH_FILE)


def make_models(cache: Path) -> dict[str, Path]:
    """Return the folders with the model's weights and with its ONNX export, which is made on first use."""
    package = importlib.util.find_spec(WEIGHTS_PACKAGE)
    assert package is not None, "uv sync installs it"
    assert package.origin is not None
    weights = Path(package.origin).parent / "all-MiniLM-L6-v2"
    exported = cache / "models" / "onnx"
    if not (exported / "model.onnx").exists():
        exporter = make(cache / "exporter", PYTHON, ("transformers>=5", "onnx", "onnxscript"), torch=True)
        exported.mkdir(parents=True, exist_ok=True)
        for name in BESIDE_THE_GRAPH:
            shutil.copy(weights / name, exported)
        run(exporter.python, "-W", "ignore", "-c", EXPORT, weights, exported / "made.onnx")
        (exported / "made.onnx").rename(exported / "model.onnx")
    return {WEIGHTS: weights, ONNX: exported}


def furnish(home: Path, models: dict[str, str], folders: dict[str, Path]) -> None:
    """Put the model into a new home folder, where a download would have put it."""
    home.mkdir(parents=True)
    for place, kind in models.items():
        target = home / place
        target.parent.mkdir(parents=True)
        target.symlink_to(folders[kind], target_is_directory=True)
        if target.parent.name == "snapshots":  # the layout of Hugging Face: a reference names the snapshot
            (target.parent.parent / "refs").mkdir()
            (target.parent.parent / "refs" / "main").write_text(target.name)


def run(*command: str | os.PathLike[str]) -> None:
    """Run a command that has to succeed."""
    subprocess.run(command, check=True)
