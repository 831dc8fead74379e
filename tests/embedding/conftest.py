import json
from pathlib import Path

import pytest

from vector_memory.embedding.model_folder import ModelFolder
from vector_memory.embedding.onnx_engine import OnnxEngine
from vector_memory.embedding.weights import find_weights

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="session")
def weights() -> ModelFolder:
    return find_weights(None)


@pytest.fixture(scope="session")
def engine(weights: ModelFolder) -> OnnxEngine:
    return OnnxEngine(weights)


@pytest.fixture(scope="session")
def golden_texts() -> dict[str, str]:
    return json.loads((DATA / "golden_texts.json").read_text(encoding="utf-8"))
