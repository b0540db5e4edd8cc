"""The accountant: closed form where everyone takes part, dp-accounting where clients are sampled; they agree."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from fedrec.channel.accountant import (
    Release,
    default_delta,
    delta_of,
    epsilon_of,
    least_noise,
    mu_for,
    releases_of,
    spent,
)
from fedrec.core.errors import FedrecError

DELTA = 1e-5


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_the_closed_form_is_the_trade_off_between_two_gaussians(mu: float, epsilon: float) -> None:
    """δ(ε) is what the best test gains: P(x > t) under N(μ, 1) less e^ε times the same under N(0, 1)."""
    t = epsilon / mu + mu / 2
    assert delta_of(mu, epsilon) == pytest.approx(norm.sf(t - mu) - math.exp(epsilon) * norm.sf(t), abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 20.0])
def test_mu_and_epsilon_are_each_others_inverse(epsilon: float) -> None:
    for delta in (1e-3, 1e-9):
        assert epsilon_of(mu_for(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-6)


def test_squares_of_releases_add_up() -> None:
    assert spent([Release(2.0)] * 4, DELTA) == pytest.approx(spent([Release(1.0)], DELTA))
    assert spent([], DELTA) == 0
    assert spent([Release(1.0)] * 3, DELTA) > spent([Release(1.0)] * 2, DELTA)


@pytest.mark.parametrize(("multiplier", "times"), [(1.5, 1), (4.0, 20)])
def test_both_accountants_agree_where_both_apply(multiplier: float, times: int) -> None:
    pld = pytest.importorskip("dp_accounting.pld", reason="dp-accounting is not installed")
    import dp_accounting

    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp_accounting.GaussianDpEvent(multiplier), times)
    assert spent([Release(multiplier)] * times, DELTA) == pytest.approx(
        accountant.get_epsilon(DELTA), rel=1e-3
    )


def test_sampling_costs_less_than_everyone_and_less_the_fewer_take_part() -> None:
    pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    costs = [spent([Release(1.0, q)] * 10, DELTA) for q in (1.0, 0.3, 0.05)]
    assert costs[0] > costs[1] > costs[2] > 0


@pytest.mark.parametrize("sampled", [1.0, pytest.param(0.2, marks=pytest.mark.slow)])
def test_the_noise_that_is_found_spends_the_budget_and_no_more(sampled: float) -> None:
    if sampled < 1:
        pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    shares = [0.5, 1.0, 1.5]
    found = least_noise(lambda z: spent(releases_of(z, shares, sampled), DELTA), 2.0, 1e-3)
    cost = spent(releases_of(found, shares, sampled), DELTA)
    assert 1.98 < cost <= 2.0


def test_noise_in_fine_steps_costs_what_noise_without_steps_does_by_the_same_accounting() -> None:
    """And never less than the closed form, which is exact for Gaussian noise."""
    gaussian, fine, coarse = ([Release(2.0, 1.0, excess)] * 4 for excess in (0.0, 1e-9, 0.1))
    assert spent(gaussian, DELTA) < spent(fine, DELTA) < 1.15 * spent(gaussian, DELTA)
    assert spent(coarse, DELTA) > 1.05 * spent(fine, DELTA)
    with pytest.raises(FedrecError, match="noise by devices is accounted for where everyone takes part"):
        spent([Release(2.0, 0.5, 1e-9)], DELTA)


def test_delta_is_below_one_in_the_number_of_users() -> None:
    assert all(default_delta(n) < 1 / n for n in (2, 100, 10**6))
