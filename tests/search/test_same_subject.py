"""What is on one subject: the evidence of two texts, and what is linked by it."""

import numpy as np
import pytest

from vector_memory.embedding.description import Calibration
from vector_memory.search.links import SERIES, Subject, evidence, links, subject_of
from vector_memory.storage.records import NO_LINKS

RULE = Calibration(strong=0.5, same_subject=0.6, shared_words=0.4, change=0.1)
AXES = np.eye(4, dtype=np.float32)


def text(*passages: str, at: int = 0) -> Subject:
    """Return a text whose passages have the vectors of the axes from a place on."""
    return subject_of(passages, AXES[at : at + len(passages)])


def test_evidence_is_the_cosine_with_common_words_and_more_for_words_of_change() -> None:
    assert evidence(RULE, text("alpha beta"), text("gamma delta")) == 1.0
    assert evidence(RULE, text("alpha beta"), text("gamma delta", at=1)) == 0.0
    assert evidence(RULE, text("alpha beta gamma"), text("alpha delta", at=1)) == pytest.approx(0.2)
    assert evidence(RULE, text("alpha"), text("delta was moved", at=1)) == pytest.approx(0.1)
    assert evidence(RULE, text("alpha was moved"), text("delta", at=1)) == 0.0


def test_of_a_longer_text_what_is_nearest_to_the_shorter_one_counts() -> None:
    long, short = text("alpha", "beta", "gamma"), text("delta", at=2)
    assert evidence(RULE, long, short) == evidence(RULE, short, long) == 1.0
    assert evidence(RULE, long, text("epsilon", "zeta", at=2)) == 0.5


def test_a_memory_is_linked_with_the_best_and_those_hardly_behind_it_from_the_rules_evidence_on() -> None:
    assert links(RULE, {1: 0.59, 2: 0.3}, {1, 2}) == NO_LINKS
    assert links(RULE, {1: 0.8, 2: 0.71, 3: 0.65, 4: 0.2}, range(1, 5)).evidence == {1: 0.8, 2: 0.71}


def test_a_series_is_not_linked_but_for_what_stands_out() -> None:
    series = {number: 0.6 + number / 1_000 for number in range(SERIES)}
    assert links(RULE, series, series) == ({}, [*series], 0.85)
    assert links(RULE, series | {99: 0.9}, [*series, 99]).evidence == {99: 0.9}
    assert links(RULE, dict.fromkeys(range(2 * SERIES), 0.6), {1}).evidence == dict.fromkeys(range(2 * SERIES), 0.6)


def test_a_model_without_the_figure_links_nothing() -> None:
    assert links(Calibration(strong=0.5), {1: 1.0}, {1}) == NO_LINKS
