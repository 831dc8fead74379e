"""A fresh process: what is imported when, and how much memory the engine takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FIRST_VECTOR = """
import json
from vector_memory.embedding import EmbeddingModel, load_embedder
from vector_memory.settings import Settings

model = EmbeddingModel(lambda: load_embedder(Settings()))
vector = model.encode_query("lease").vector
# Not getrusage: its maximum begins at what the parent process had.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({"vector": vector.tolist(), "kilobytes": int(status["VmHWM"].split()[0])}))
"""
IMPORTS = """
import sys
import vector_memory.embedding.model, vector_memory.embedding.weights, vector_memory.embedding.onnx_engine
print(*sys.modules)
"""


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_a_fresh_process_computes_the_same_vector_and_stays_under_150_megabytes(engine):
    result = json.loads(run(FIRST_VECTOR))
    print(f"first vector: {result['kilobytes'] / 1024:.0f} MB resident at most")
    assert np.array_equal(np.array(result["vector"], np.float32), engine.embed(["lease"])[0])
    assert result["kilobytes"] < 150 * 1024


def test_the_engine_leaves_nothing_in_the_home_folder(tmp_path):
    """ONNX Runtime's telemetry writes a device id there, before it reports anything."""
    environment = os.environ | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", FIRST_VECTOR], check=True, env=environment, capture_output=True)
    assert list(tmp_path.iterdir()) == []


def test_importing_the_package_imports_no_runtime():
    loaded = set(run(IMPORTS).split())
    assert "numpy" in loaded
    assert not loaded & {"onnxruntime", "tokenizers", "sentence_transformers", "torch", "tiktoken", "pydantic"}
