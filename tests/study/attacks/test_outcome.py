"""Limits on ε hold, and find what is there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedrec.channel.accountant import epsilon_of
from fedrec.study.attacks.outcome import Trials, auc, clopper_pearson, least_epsilon, recovered, told_apart


def gaussian(mu: float, count: int, seed: int) -> Trials:
    """The guesses of the best adversary against a release that is μ-Gaussian DP."""
    rng = np.random.default_rng(seed)
    inside = rng.random(count) < 0.5
    return Trials(rng.standard_normal(count) + mu * inside, inside, np.arange(count))


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_limits_stay_below_the_truth_nearly_always(mu: float) -> None:
    delta = 1e-3
    true = epsilon_of(mu, delta)
    found = [least_epsilon(gaussian(mu, 1000, seed), delta) for seed in range(40)]
    assert np.mean(np.array(found) > true) <= 0.05
    assert mu < 1 or min(found) > 0.3, "and they find something"


def test_a_perfect_adversary_is_limited_by_the_number_of_guesses_alone() -> None:
    inside = np.arange(400) % 2 == 0
    limit = least_epsilon(Trials(inside.astype(float), inside, np.arange(400) // 2), 0.0)
    low, high = clopper_pearson(100, 100, 0.0125)[0], clopper_pearson(0, 100, 0.0125)[1]
    assert limit == pytest.approx(math.log(low / high))
    assert least_epsilon(Trials(np.zeros(400), inside, np.arange(400)), 0.0) == 0


def test_limits_of_clopper_and_pearson_are_exact() -> None:
    low, high = clopper_pearson(5, 20, 0.025)
    assert (low, high) == (pytest.approx(0.0866, abs=1e-4), pytest.approx(0.4910, abs=1e-4))
    assert clopper_pearson(0, 20, 0.025)[0] == 0
    assert clopper_pearson(20, 20, 0.025)[1] == 1


def test_auc_is_that_of_two_normals() -> None:
    trials = gaussian(1.0, 20000, 0)
    assert auc(trials.scores, trials.inside) == pytest.approx(0.7602, abs=0.01)
    one = told_apart("a", "b", trials)
    assert one.low < 0.7602 < one.high
    assert one.tpr == pytest.approx(0.0924, abs=0.03), "Φ(1 − 2.326)"


def test_scores_that_say_nothing_find_what_chance_finds() -> None:
    truth = {user: np.arange(10, dtype=np.int32) for user in range(400)}
    found = recovered("a", "b", {user: np.zeros(100) for user in truth}, truth, np.random.default_rng(0))
    assert found.value == pytest.approx(found.chance, abs=0.02)
    assert found.chance == pytest.approx(0.1)
