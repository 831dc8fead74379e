"""The map: a plane, and neighbours."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from vector_memory.maintenance.report.session_report import nearest_neighbours, project

VECTORS = st.integers(0, 12).flatmap(
    lambda rows: arrays(np.float32, (rows, 6), elements=st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]))
)


@given(VECTORS)
def test_every_memory_has_a_point_in_the_square(vectors: NDArray[np.float32]) -> None:
    points, share = project(vectors)
    assert points.shape == (len(vectors), 2)
    assert np.abs(points).max(initial=0) <= 1 + 1e-9
    assert 0 <= share <= 1 + 1e-9


@given(VECTORS)
def test_equal_vectors_give_equal_maps(vectors: NDArray[np.float32]) -> None:
    np.testing.assert_array_equal(project(vectors).points, project(vectors.copy()).points)


def test_what_lies_in_a_plane_keeps_its_distances() -> None:
    angles = np.array([0.0, 0.4, 1.9, 3.3, 5.0])
    flat = np.stack([np.cos(angles), np.sin(angles), np.zeros(5), np.zeros(5)], axis=1).astype(np.float32)
    turned, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))
    points, share = project((flat @ turned).astype(np.float32))
    apart = np.linalg.norm(flat[:, None] - flat[None], axis=2)
    shown = np.linalg.norm(points[:, None] - points[None], axis=2)
    off = ~np.eye(5, dtype=bool)
    ratios = shown[off] / apart[off]
    assert ratios.std() / ratios.mean() < 1e-5
    assert share == pytest.approx(1)


def test_the_length_of_a_vector_does_not_move_its_point() -> None:
    vectors = np.random.default_rng(2).normal(size=(7, 5)).astype(np.float32)
    longer = vectors * np.arange(1, 8, dtype=np.float32)[:, None]
    np.testing.assert_allclose(project(vectors).points, project(longer).points, atol=1e-5)


def test_memories_with_equal_vectors_are_one_point() -> None:
    points, share = project(np.tile(np.float32([0.1, 0.7, 0.2]), (4, 1)))
    assert not points.any()
    assert share == 1


@given(VECTORS)
def test_neighbours_equal_a_sort_by_all_cosines(vectors: NDArray[np.float32]) -> None:
    lengths = np.linalg.norm(vectors.astype(float), axis=1, keepdims=True)
    units = vectors / np.where(lengths > 0, lengths, 1)
    for row, found in enumerate(nearest_neighbours(vectors, 3)):
        others = sorted((float(units[row] @ unit) for at, unit in enumerate(units) if at != row), reverse=True)
        assert [cosine for _, cosine in found] == pytest.approx(others[:3])
        assert row not in {at for at, _ in found}
