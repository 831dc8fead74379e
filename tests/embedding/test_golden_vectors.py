"""The default engine computes what sentence-transformers computes.

The vectors to compare with come from scripts/make_golden_vectors.py.
"""

from pathlib import Path

import numpy as np
import pytest

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def golden_vectors():
    with np.load(DATA / "golden_vectors.npz") as stored:
        return stored["vectors"]


@pytest.fixture(scope="module")
def vectors(engine, golden_texts):
    return engine.embed(list(golden_texts.values()))


def test_there_are_many_golden_texts_each_with_a_vector(golden_texts, golden_vectors):
    assert len(golden_texts) >= 60
    assert golden_vectors.shape == (len(golden_texts), 384)


def test_every_text_has_the_vector_that_sentence_transformers_gives_it(golden_texts, golden_vectors, vectors):
    wanted, ours = golden_vectors.astype(np.float64), vectors.astype(np.float64)
    lengths = np.linalg.norm(wanted, axis=1) * np.linalg.norm(ours, axis=1)
    cosines = np.sum(wanted * ours, axis=1) / lengths
    worst = int(np.argmin(cosines))
    assert cosines[worst] >= 0.999999, f"{list(golden_texts)[worst]}: {cosines[worst]}"


def test_no_number_of_any_vector_is_off_by_more_than_a_millionth(golden_vectors, vectors):
    assert np.abs(golden_vectors - vectors).max() < 1e-6


def test_texts_that_differ_only_beyond_what_the_model_reads_have_the_same_vector(golden_texts, vectors):
    row = {name: vectors[index] for index, name in enumerate(golden_texts)}
    # The 255th piece is cut off; were one piece more or less read, the golden vectors above would not fit either.
    assert np.array_equal(row["exactly 254 pieces"], row["exactly 255 pieces"])
    assert not np.array_equal(row["exactly 126 pieces"], row["exactly 254 pieces"])
