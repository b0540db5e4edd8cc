"""Beyond-accuracy figures worked out by hand."""

import numpy as np
import pytest

from fedrec.data.interactions import from_codes
from fedrec.data.split import split
from fedrec.evaluate.beyond import beyond, coverage, gini, novelty
from fedrec.evaluate.ranking import top_k
from fedrec.methods.central.popularity import Popularity

TOP = np.array([[0, 1], [0, -1], [0, 1]], np.int32)


def test_coverage_counts_items_shown_to_anyone():
    assert coverage(TOP, 4) == 0.5


def test_gini():
    # shown 0, 0, 2, 3 times: Σ (2i − n − 1) x_i / (n Σ x) = (1·2 + 3·3) / 20
    assert gini(TOP, 4) == pytest.approx(11 / 20)
    assert gini(np.array([[0, 1], [2, 3]], np.int32), 4) == 0
    assert gini(np.zeros((5, 1), np.int32), 10) == pytest.approx(0.9)


def test_novelty_in_bits():
    met_by = np.array([8, 2, 0, 0])
    assert novelty(TOP, met_by, 8) == pytest.approx((3 * 0 + 2 * 2) / 5)
    assert novelty(np.array([[3]], np.int32), met_by, 8) == 3  # met by nobody: as if by one


def test_nothing_recommended():
    empty = np.full((3, 2), -1, np.int32)
    assert coverage(empty, 4) == gini(empty, 4) == novelty(empty, np.zeros(4, np.int64), 3) == 0


def test_popularity_covers_little_and_is_unequal():
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(50), 20).astype(np.int32)
    items = np.concatenate([rng.choice(200, 20, replace=False) for _ in range(50)]).astype(np.int32)
    parts = split(from_codes("made", users, items, np.arange(1000), np.arange(50), np.arange(200)))
    found = beyond(top_k(Popularity().fit(parts), parts.trained, 10)[0], parts)
    assert set(found) == {"coverage@10", "gini@10", "novelty@10"}
    assert found["coverage@10"] < 0.2
    assert found["gini@10"] > 0.8
