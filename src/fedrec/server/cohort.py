"""Who takes part in a round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.core.rng import generator

COHORT = "cohort"
TURNS = "turns"


def cohort_size(clients: float | int | None, n_users: int) -> int:
    """A number of clients from a fraction (below or equal 1.0) or a number; None is everyone."""
    if clients is None:
        return n_users
    if isinstance(clients, float) and clients <= 1:
        size = round(clients * n_users)
    else:
        size = int(clients)
        if size != clients:
            raise FedrecError(
                f"clients={clients} is neither a fraction up to 1.0 nor a whole number of clients"
            )
    if size < 1:
        raise FedrecError(f"clients={clients} samples no client of {n_users}: ask for at least one")
    if size > n_users:
        raise FedrecError(f"clients={clients} is more than the {n_users} there are: ask for fewer")
    return size


def sample_cohort(seed: int, round: int, n_users: int, size: int, poisson: bool = False) -> NDArray[np.int64]:
    """The clients of a round, in ascending order; ``poisson``: each by itself, so many on average.

    Epsilons for sampled clients hold for Poisson samples: a cohort of fixed size tells of the others.
    """
    if size == n_users:
        return np.arange(n_users)
    if poisson:
        return np.flatnonzero(generator(seed, COHORT, round).random(n_users) < size / n_users)
    return np.sort(generator(seed, COHORT, round).choice(n_users, size=size, replace=False))


def groups(seed: int, round: int, users: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """The clients of a round in so many random groups, which send one after another."""
    if count == 1:
        return [users]
    mixed = generator(seed, TURNS, round).permutation(users)
    return [np.sort(group) for group in np.array_split(mixed, min(count, len(users)))]
