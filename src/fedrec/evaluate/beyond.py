"""Beyond accuracy: what recommended lists look like as a whole, from ``top_k``'s items (padded with -1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec.data.outline import Outline
from fedrec.data.split import Split


def _times_recommended(top: NDArray[np.int32], n_items: int) -> NDArray[np.int64]:
    return np.bincount(top[top >= 0], minlength=n_items)


def coverage(top: NDArray[np.int32], n_items: int) -> float:
    """The share of the catalogue that is recommended to anyone."""
    return float((_times_recommended(top, n_items) > 0).mean())


def gini(top: NDArray[np.int32], n_items: int) -> float:
    """Inequality of how often items are recommended: 0 all alike, near 1 a few take all.

    Over the whole catalogue, items that are never recommended included; 0 where nothing is.
    """
    times = np.sort(_times_recommended(top, n_items))
    total = times.sum()
    if total == 0:
        return 0.0
    weights = 2 * np.arange(1, n_items + 1) - n_items - 1
    return float((weights * times).sum() / (n_items * total))


def novelty(top: NDArray[np.int32], met_by: NDArray[np.int64], n_users: int) -> float:
    """Mean self-information −log2(share of users who trained on the item) of the recommended items, in bits.

    An item that nobody trained on counts as if one user had, so that the mean stays finite.
    """
    shown = top[top >= 0]
    if len(shown) == 0:
        return 0.0
    return float(-np.log2(np.maximum(met_by[shown], 1) / n_users).mean())


def beyond(top: NDArray[np.int32], split: Split | Outline) -> dict[str, float]:
    """All of them, for lists of k items, as ``name@k``."""
    k = top.shape[1]
    return {
        f"coverage@{k}": coverage(top, split.n_items),
        f"gini@{k}": gini(top, split.n_items),
        f"novelty@{k}": novelty(top, split.met_by, split.n_users),
    }
