"""Metrics of leave-one-out ranking, all from one small record: where each user's held-out item came.

With one relevant item per user, recall equals the hit rate and the ideal DCG is 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError


class Ranks(NamedTuple):
    """Per user, what the held-out item (the positive) was ranked against and how it came out.

    ``ahead`` is its rank counted from 0: ties and non-finite scores stand against it. Where there was
    nothing to rank against (``among`` is 0) it comes first.
    """

    ahead: NDArray[np.int32]  # candidates ranked at or ahead of the positive
    ties: NDArray[np.int32]  # how many of those have exactly its score
    among: NDArray[np.int32]  # candidates in all

    @classmethod
    def none(cls, users: int) -> Ranks:
        """Nothing counted so far."""
        return cls(*(np.zeros(users, np.int32) for _ in range(3)))


def hits(ranks: Ranks, k: int) -> NDArray[np.bool_]:
    """Whether the positive is among the first k, per user."""
    return ranks.ahead < k


def hr(ranks: Ranks, k: int) -> float:
    """Hit rate: the share of users whose positive is among the first k."""
    return float(hits(ranks, k).mean())


def ndcg(ranks: Ranks, k: int) -> float:
    """A hit at rank r (from 0) gains 1 / log2(r + 2)."""
    return float((hits(ranks, k) / np.log2(ranks.ahead + 2.0)).mean())


def mrr(ranks: Ranks, k: int) -> float:
    """A hit at rank r (from 0) gains 1 / (r + 1)."""
    return float((hits(ranks, k) / (ranks.ahead + 1.0)).mean())


def recall(ranks: Ranks, k: int) -> float:
    """The share of a user's relevant items found: with one of them, the hit rate."""
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
    per_user = (among - ahead + 0.5 * ties) / among
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
