"""The package, built once."""

import pytest

from distribution.building import Distributions, build


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
