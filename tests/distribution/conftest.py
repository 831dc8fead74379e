"""The packages, built once."""

import os
from pathlib import Path

import pytest

from distribution.building import ROOT, Distributions, uv


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """What CI has built, or else what is built here."""
    built = os.environ.get("BUILT_DISTRIBUTIONS")
    folder = Path(built) if built else tmp_path_factory.mktemp("dist")
    if not built:
        uv("build", "--quiet", "--all-packages", "--out-dir", folder, ROOT)
    return Distributions(folder)
