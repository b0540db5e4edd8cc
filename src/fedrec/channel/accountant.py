"""What releases cost: (ε, δ) of a whole user's data, one user added or removed.

Where everyone takes part, a release of noise multiplier z (σ over the clipped norm) is 1/z-Gaussian DP; the squares add
up, and (ε, δ) follow in closed form from the analytic Gaussian mechanism (Balle & Wang, ICML 2018). Where clients are
Poisson-sampled, dp-accounting composes the privacy loss distributions. Noise that devices add is in whole steps, for
which Rényi divergences are known: a little more than the same noise without steps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedrec.core.errors import FedrecError

MOST = 1e6  # an epsilon beyond it is none


class Release(NamedTuple):
    """One noisy sum: what the accountant has to know of it."""

    multiplier: float  # standard deviation of the noise over the norm that one user can add
    sampled: float = 1.0  # probability with which a user takes part
    excess: float = 0.0  # 1 over the variance, in steps², of noise in whole steps (Skellam); 0: Gaussian


def default_delta(users: int) -> float:
    """Well below one in the number of users."""
    return float(max(users, 2) ** -1.1)


def delta_of(mu: float, epsilon: float) -> float:
    """δ(ε) of μ-Gaussian differential privacy."""
    from scipy.special import log_ndtr, ndtr

    if mu == 0:
        return 0.0
    rest = math.exp(min(epsilon + log_ndtr(-epsilon / mu - mu / 2), 0.0))
    return float(ndtr(-epsilon / mu + mu / 2) - rest)


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest ε of μ-Gaussian differential privacy at δ."""
    from scipy.optimize import brentq

    if delta_of(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_of(mu, high) > delta:
        high *= 2
        if high > MOST:
            return math.inf
    return float(brentq(lambda e: delta_of(mu, e) - delta, 0.0, high, xtol=1e-10))


def mu_for(epsilon: float, delta: float) -> float:
    """The largest μ that (ε, δ) allows."""
    from scipy.optimize import brentq

    high = 1.0
    while delta_of(high, epsilon) < delta:
        high *= 2
    return float(brentq(lambda m: delta_of(m, epsilon) - delta, 1e-9, high, xtol=1e-12))


def spent(releases: Sequence[Release], delta: float) -> float:
    """ε of all these releases together."""
    if not releases:
        return 0.0
    sampled = any(one.sampled < 1 for one in releases)
    if any(one.excess for one in releases):
        if sampled:
            raise FedrecError(
                "noise by devices is accounted for where everyone takes part: leave --clients out"
            )
        return _renyi(releases, delta)
    if sampled:
        return float(_composed(releases).get_epsilon(delta))
    return epsilon_of(math.sqrt(sum(one.multiplier**-2 for one in releases)), delta)


def least_noise(cost: Callable[[float], float], epsilon: float, exact: float = 1e-6) -> float:
    """The least noise at which ``cost`` (an ε that falls with noise) is within ε."""
    low, high = 0.5, 1.0
    while cost(high) > epsilon:
        low, high = high, 2 * high
        if high > MOST:
            raise FedrecError(f"no noise keeps these releases within --epsilon {epsilon:g}: ask for more")
    while low > 1 / MOST and cost(low) <= epsilon:
        low, high = low / 2, low
    while high - low > exact * high:  # the upper end is always within the budget
        middle = (low + high) / 2
        low, high = (low, middle) if cost(middle) <= epsilon else (middle, high)
    return high


def releases_of(
    multiplier: float, shares: Sequence[float], sampled: float = 1.0, excess: float = 0.0
) -> list[Release]:
    """A round with a larger share of the budget has less noise."""
    return [Release(multiplier / math.sqrt(share), sampled, excess * share) for share in shares]


def _renyi(releases: Sequence[Release], delta: float) -> float:
    """By Rényi divergences of order a, for Skellam noise whose variance is v steps² where it is least.

    A release is within a/(2z²) + (2a + 5)/(4vz²) (Agarwal et al., NeurIPS 2021, Theorem 3.5; whole numbers have an L1
    norm of at most their squared L2 norm); to (ε, δ) by Canonne, Kamath & Steinke (NeurIPS 2020, Proposition 12).
    """
    orders = 1 + np.exp(np.linspace(np.log(1e-2), np.log(1e4), 400))
    cost = np.zeros_like(orders)
    for one, times in Counter(releases).items():
        cost += times * (orders / 2 + (2 * orders + 5) / 4 * one.excess) / one.multiplier**2
    found = cost + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return float(max(found.min(), 0.0))


def _composed(releases: Sequence[Release]) -> Any:
    try:
        from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
        from dp_accounting.pld import PLDAccountant
    except ImportError:
        raise FedrecError(
            "an epsilon for sampled clients needs dp-accounting: pip install 'fedrec[privacy]', or let everyone "
            "take part"
        ) from None
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-3)
    for one, times in Counter(releases).items():
        event = GaussianDpEvent(one.multiplier)
        accountant.compose(PoissonSampledDpEvent(one.sampled, event) if one.sampled < 1 else event, times)
    return accountant
