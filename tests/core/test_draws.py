"""Draws in compiled code have the distributions that they are called by."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from scipy import stats

from fedrec.core.draws import laplace, normal


@nb.njit
def _fill(key: Any, laplaces: Any, normals: Any) -> None:
    for k in range(len(laplaces)):
        laplaces[k], normals[k] = laplace(key, np.uint64(k)), normal(key, np.uint64(k))


def test_laplace_and_normal_draws_have_their_distributions() -> None:
    laplaces, normals = np.empty((2, 200_000), np.float32)
    _fill(np.uint64(7), laplaces, normals)
    for drawn, known in ((laplaces, stats.laplace), (normals, stats.norm)):
        assert stats.kstest(drawn, known.cdf).pvalue > 0.01
        assert np.isfinite(drawn).all()
        assert abs(drawn.mean()) < 0.01
        assert abs(drawn.std() / known.std() - 1) < 0.01
        far = np.abs(drawn) > known.ppf(0.9995)
        assert 0.0008 < far.mean() < 0.0012
