"""Paired tests, over users or over seeds: is one method really better than another, or was it luck?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.runs.folder import RunFolder
from fedrec.study.case import Line

ROUNDED = 1e-7


@dataclass(frozen=True)
class Paired:
    """The difference of two lines on the same users: mean, and how likely it would be by chance."""

    difference: float
    p: float
    users: int = 0
    seeds: int = 0  # where a ledger has figures alone, they are paired over seeds
    tested: bool = True  # of one observation nothing can be told


def paired(a: Line, b: Line, metric: str = "ndcg", full: bool = False) -> Paired:
    """Wilcoxon's signed-rank test over users; seeds are averaged first, so that a user counts once."""
    if _split(a) != _split(b) or not _users(a).equals(_users(b)):
        raise _unlike(a, b)
    difference = a.gains(metric, full) - b.gains(metric, full)
    return Paired(float(difference.mean()), signed_rank(difference), len(difference))


def paired_over_seeds(a: Line, b: Line, metric: str = "ndcg@10") -> Paired:
    """Student's paired test over seeds: what is left where nobody knows single users' ranks any more."""
    from scipy.special import stdtr

    of_a, of_b = ({result["seed"]: result["test"][metric] for result in line.results} for line in (a, b))
    sizes = [{(result["users"], result["items"]) for result in line.results} for line in (a, b)]
    if of_a.keys() != of_b.keys() or sizes[0] != sizes[1]:
        raise _unlike(a, b)
    difference = np.array([of_a[seed] - of_b[seed] for seed in sorted(of_a)])
    n, mean = len(difference), float(difference.mean())
    spread = float(difference.std(ddof=1)) / math.sqrt(n) if n > 1 else 0.0
    # Where seeds change nothing, they are one observation; and a ledger has rounded figures.
    tested = spread >= ROUNDED
    p = 2 * float(stdtr(n - 1, -abs(mean) / spread)) if tested else 1.0
    return Paired(mean, p, seeds=n, tested=tested)


def signed_rank(differences: NDArray[np.float64]) -> float:
    """The two-sided p-value of Wilcoxon's test: zeros left out, ties share their ranks, normal approximation.

    As SciPy's with ``method="asymptotic"``, whose import would take longer than a whole table.
    """
    moved = differences[differences != 0]
    n = len(moved)
    if n == 0:
        return 1.0
    _, group, sizes = np.unique(np.abs(moved), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(sizes) - (sizes - 1) / 2)[group]
    positive = float(ranks[moved > 0].sum())
    spread = n * (n + 1) * (2 * n + 1) / 24 - float((sizes.astype(np.float64) ** 3 - sizes).sum()) / 48
    z = (positive - n * (n + 1) / 4) / math.sqrt(spread)
    return math.erfc(abs(z) / math.sqrt(2))


def holm(ps: Sequence[float]) -> list[float]:
    """p-values corrected for the number of tests (Holm, 1979), in the given order."""
    order = np.argsort(ps)
    corrected, worst = [0.0] * len(ps), 0.0
    for rank, at in enumerate(order):
        worst = max(worst, min(1.0, (len(ps) - rank) * ps[at]))
        corrected[at] = worst
    return corrected


def _unlike(a: Line, b: Line) -> FedrecError:
    return FedrecError(
        f"{a.case.name} and {b.case.name} cannot be paired: they need the same data, protocol and seeds"
    )


def _split(line: Line) -> tuple[Any, ...]:
    """What was held out from whom: tests are paired over the same."""
    kept = ("data", "users", "items", "protocol_settings")
    return (line.seeds, *([result[name] for name in kept] for result in line.results[:1]))


def _users(line: Line) -> Any:
    return RunFolder(line.folders[0]).ranks()["user"]
