"""Where tastes move on, recency is better; where the order is noise, it does no harm that can be told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import wilcoxon

import fedrec
from fedrec.core.errors import DataError
from fedrec.data.interactions import Interactions
from fedrec.data.worlds import drifting

SETTINGS = {"dim": 8}


def gains(spec: str, data: Interactions, **settings: float) -> np.ndarray:
    """What each user's test item gains in NDCG@10, averaged over two seeds."""
    found = []
    for seed in (0, 1):
        run = fedrec.run(spec, data, rounds=100, seed=seed, settings={**SETTINGS, **settings}, threads=1)
        ahead = run.ranks["test_rank"].to_numpy()
        found.append((ahead < 10) / np.log2(ahead + 2.0))
    return np.mean(found, axis=0)


def test_where_tastes_drift_recency_is_better() -> None:
    data = drifting()
    base, recent = gains("fedmf", data), gains("fedmf+recent", data, half_life=3, floor=0.05)
    assert recent.mean() > 1.3 * base.mean()
    assert wilcoxon(recent - base, alternative="greater").pvalue < 0.001


@pytest.mark.slow
def test_where_the_order_is_noise_the_default_is_not_significantly_worse() -> None:
    data, rng = drifting(), np.random.default_rng(0)
    shuffled = np.concatenate([rng.permutation(data.items_of(user)) for user in range(data.n_users)])
    data = replace(data, items=shuffled)
    difference = gains("fedmf+recent", data) - gains("fedmf", data)
    assert wilcoxon(difference, alternative="less").pvalue > 0.05


def test_the_drifting_world_is_what_it_says() -> None:
    data = drifting(users=24, items=40, met=5)
    for user in range(data.n_users):
        tastes = data.items_of(user) % 4
        assert len(set(data.items_of(user).tolist())) == 10
        assert len(set(tastes[:5].tolist())) == len(set(tastes[5:].tolist())) == 1
        assert tastes[0] != tastes[5]
    assert (drifting().items == drifting().items).all()
    assert (drifting(seed=1).items != drifting().items).any()
    with pytest.raises(DataError, match="too few"):
        drifting(items=20)
