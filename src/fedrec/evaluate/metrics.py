"""Metrics of ranking one item at a time, all from one small record: where each held-out item came.

With one relevant item in a list, recall equals the hit rate and the ideal DCG is 1. A user with several held-out
items has the mean over them; users count equally.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.core.ragged import Ids


@dataclass(frozen=True, eq=False)
class Ranks:
    """Per held-out item (the positive), what it was ranked against and how it came out.

    ``ahead`` is its rank counted from 0: ties and non-finite scores stand against it. Where there was
    nothing to rank against (``among`` is 0) it comes first.
    """

    ahead: NDArray[np.int32]  # candidates ranked at or ahead of the positive
    ties: NDArray[np.int32]  # how many of those have exactly its score
    among: NDArray[np.int32]  # candidates in all
    users: Ids | None = None  # whose item it is, ascending; none: the u-th is user u's

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        """The three counts."""
        return iter((self.ahead, self.ties, self.among))

    @classmethod
    def none(cls, items: int, users: Ids | None = None) -> Ranks:
        """Nothing counted so far."""
        ahead, ties, among = (np.zeros(items, np.int32) for _ in range(3))
        return cls(ahead, ties, among, users)

    @property
    def n_users(self) -> int:
        """Users with an item."""
        return len(self.ahead) if self.users is None else len(np.unique(self.users))


def each_user(values: NDArray[Any], users: Ids | None) -> NDArray[Any]:
    """Values of items as means of their users; those without an item have none."""
    if users is None:
        return values
    counts = np.bincount(users)
    return np.bincount(users, values)[counts > 0] / counts[counts > 0]


def hits(ranks: Ranks, k: int) -> NDArray[np.bool_]:
    """Whether the positive is among the first k."""
    return ranks.ahead < k


def _mean(ranks: Ranks, values: NDArray[Any]) -> float:
    return float(each_user(values, ranks.users).mean())


def hr(ranks: Ranks, k: int) -> float:
    """Hit rate: the share of users whose positive is among the first k."""
    return _mean(ranks, hits(ranks, k))


def ndcg(ranks: Ranks, k: int) -> float:
    """A hit at rank r (from 0) gains 1 / log2(r + 2)."""
    return _mean(ranks, hits(ranks, k) / np.log2(ranks.ahead + 2.0))


def mrr(ranks: Ranks, k: int) -> float:
    """A hit at rank r (from 0) gains 1 / (r + 1)."""
    return _mean(ranks, hits(ranks, k) / (ranks.ahead + 1.0))


def recall(ranks: Ranks, k: int) -> float:
    """The share of relevant items found: with one of them in a list, the hit rate."""
    return hr(ranks, k)


def precision(ranks: Ranks, k: int) -> float:
    """The share of the k places that hold a relevant item: at most 1 / k here."""
    return hr(ranks, k) / k


def auc(ranks: Ranks) -> tuple[float, float]:
    """Chance that the positive beats a random candidate, half credit for ties, and its standard error.

    Mean over users; those without candidates have none. NaN where too few users are left.
    """
    some = ranks.among > 0
    ahead, ties, among = (values[some].astype(np.float64) for values in ranks)
    users = None if ranks.users is None else ranks.users[some]
    per_user = each_user((among - ahead + 0.5 * ties) / among, users)
    n = len(per_user)
    mean = float(per_user.mean()) if n else math.nan
    error = float(per_user.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return mean, error


METRICS = {"hr": hr, "ndcg": ndcg, "mrr": mrr, "recall": recall, "precision": precision}


def summary(ranks: Ranks, ks: Sequence[int] = (10,)) -> dict[str, float]:
    """Every metric at every k as ``name@k``, and ``auc`` where there were candidates; fractions."""
    for k in ks:
        if k < 1:
            raise FedrecError(f"metrics need a list of at least 1 item, not k={k}")
    result = {f"{name}@{k}": metric(ranks, k) for k in ks for name, metric in METRICS.items()}
    area, _ = auc(ranks)
    if not math.isnan(area):
        result["auc"] = area
    return result
