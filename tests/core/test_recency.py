"""What a positive counts by its age."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec.core.recency import fill_weights


@pytest.mark.parametrize(("half_life", "floor"), [(1.0, 0.0), (3.0, 0.05), (30.0, 0.3), (1e-3, 0.0)])
def test_weights_halve_with_age_above_the_floor_and_have_mean_one(half_life: float, floor: float) -> None:
    found = np.empty(40, np.float32)
    fill_weights(half_life, floor, found)
    age = np.arange(39, -1, -1)
    asked = floor + (1 - floor) * 0.5 ** (age / half_life)
    np.testing.assert_allclose(found, asked / asked.mean(), rtol=1e-6, atol=1e-30)
    assert found.mean() == pytest.approx(1)
    assert found.argmax() == 39


def test_floor_one_weighs_all_alike_and_so_does_a_single_positive() -> None:
    alike, single = np.empty(9, np.float32), np.empty(1, np.float32)
    fill_weights(2.0, 1.0, alike)
    fill_weights(2.0, 0.0, single)
    assert (alike == 1).all()
    assert (single == 1).all()
