"""Servers in processes of their own, over standard input and output."""

import pytest

from eras import ERAS


@pytest.fixture(params=ERAS.values(), ids=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)
