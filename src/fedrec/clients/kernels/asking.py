"""What clients that solved their vector w ask of item rows, for channels that take uploads one by one.

Uploads that are looked at, and those added up in whole numbers, are made of the same numbers: here, in one place.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from fedrec.core.entropy import FAST
from fedrec.core.prefetch import prefetch
from fedrec.core.rounding import NOT, Added, add_multiple, how_rounded, largest

ONE = np.float32(1)


@nb.njit(cache=True, nogil=True, fastmath=FAST)
def ask(
    users: Any, starts: Any, indptr: Any, items: Any, table: Any, w: Any, alpha: Any, asked: Any, loss: Any
) -> None:
    """α w·v_j − (1 + α) for each positive j of each client; of one that is not finite ``starts`` leaves no room."""
    for c in range(len(users)):
        left, first = np.float32(0), indptr[users[c]]
        for r in range(starts[c + 1] - starts[c]):
            j, score = items[first + r], np.float32(0)
            for k in range(w.shape[1]):
                score += table[j, k] * w[c, k]
            asked[starts[c] + r] = alpha * score - (ONE + alpha)
            left += ONE - score
        loss[c] = (ONE + alpha) * left


@nb.njit(cache=True, nogil=True)
def add_whole(
    users: Any, finite: Any, starts: Any, indptr: Any, items: Any, asked: Any, w: Any, added: Added,
    senders: Any, outer: Any,
) -> None:  # fmt: skip
    """Add what each client asks times w, w wᵀ, and 1 for each positive (where ``senders`` has room), in whole steps."""
    steps, words, d = added.steps, added.words, w.shape[1]
    upper = np.zeros((d, d), np.int64)  # w wᵀ is the same below its diagonal
    for c in range(len(users)):
        if not finite[c]:
            continue
        mine = asked[starts[c] : starts[c + 1]]
        long = largest(
            w[c : c + 1]
        )  # rounding keeps order: the largest product is that of the largest factors
        how = how_rounded(long * long, ONE, steps)
        how = min(how, how_rounded(largest(mine.reshape(1, -1)) * long, ONE, steps))
        added.fits[c] = how != NOT
        if how == NOT:
            continue
        first = indptr[users[c]]
        for r in range(len(mine)):
            prefetch(words, items[first + min(r + 4, len(mine) - 1)])
            add_multiple(words[items[first + r]], w[c], mine[r], steps.scale, how)
            if len(senders):
                senders[items[first + r]] += np.int64(steps.scale)
        for i in range(d):
            add_multiple(upper[i, i:], w[c, i:], w[c, i], steps.scale, how)
    for i in range(d):
        for k in range(i, d):
            outer[i, k] += upper[i, k]
            outer[k, i] += upper[i, k] if k > i else 0
