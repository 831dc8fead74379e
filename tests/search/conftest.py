"""Both ways to compare the passages of a scope."""

import pytest

from inside import compare_all, compare_likeliest


@pytest.fixture(params=["exact", "likely"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let searches compare all passages, or the likeliest of so many that no other is left."""
    (compare_all if request.param == "exact" else compare_likeliest)(monkeypatch)
    return str(request.param)
