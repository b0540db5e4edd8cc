"""Clients whose own item rows keep a share of their local move, over any kernel whose clients tune rows.

All of the move is sent; what ranks, and what the device holds on to, is the downloaded row and that share of the move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import Engine, Fitted, RankingPart, Wish
from fedrec.clients.state import DeviceState
from fedrec.clients.store import Rows
from fedrec.core.federated import Phase
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ids
from fedrec.core.slots import Array, Arrays


class MildClients:
    """Runs clients of another engine."""

    def __init__(self, base: Engine, share: float) -> None:
        self.base, self.share, self.name = base, np.float32(share), base.name

    def blocks(self, users: Ids) -> list[Ids]:
        return self.base.blocks(users)

    def why_not(self, plan: list[Phase]) -> str | None:
        return self.base.why_not(plan)

    def fit(
        self, broadcast: Broadcast, state: DeviceState, users: Ids, plan: list[Phase], wish: Wish
    ) -> Fitted:
        whole = replace(wish, lines=None, rows=wish.rows or wish.lines is not None)
        fitted = self.base.fit(broadcast, state, users, plan, whole)
        rows = self._mild(broadcast.shared, fitted.rows or {})
        scores = None
        if wish.lines is not None:
            scores = self.score(broadcast.shared, RankingPart(users, fitted.lines, rows), wish.lines)
        return replace(fitted, rows=rows if wish.rows else None, scores=scores)

    def _mild(self, shared: Arrays, tuned: Mapping[str, Rows]) -> dict[str, Rows]:
        kept = {}
        for name, (items, values) in tuned.items():
            kept[name] = Rows(items, np.empty_like(values))
            _keep_share(shared[name], items.items, values, self.share, kept[name].values)
        return kept

    def rebuilt(self, broadcast: Broadcast, state: DeviceState, users: Ids, own: bool) -> RankingPart:
        return self.base.rebuilt(broadcast, state, users, own)

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32]) -> Array:
        return self.base.score(shared, part, items)

    def score_all(self, shared: Arrays, part: RankingPart) -> Array:
        return self.base.score_all(shared, part)


@nb.njit(cache=True, nogil=True)
def _keep_share(table: Any, items: Any, tuned: Any, share: Any, out: Any) -> None:
    for k in range(len(items)):
        row = table[items[k]]
        for j in range(len(row)):
            out[k, j] = row[j] + share * (tuned[k, j] - row[j])
