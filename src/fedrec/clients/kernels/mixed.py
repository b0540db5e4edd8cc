"""Clients that mix item rows of their own with the round's (PLGC), in compiled code, whatever the kind of score.

The base's kernel trains the clients' own rows, with the round's beside them (``mixing``); this says which rows those
are, and ranks with the mixture. They answer like the plain engine, which is their slow twin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import Fitted, RankingPart, Setting, Wish
from fedrec.clients.kernels.kept import kept_in
from fedrec.clients.kernels.loglinear import LogLinearClients
from fedrec.clients.kernels.mixing import GIVES_NONE, Mixing
from fedrec.clients.kernels.mlp import MlpClients
from fedrec.clients.state import DeviceState
from fedrec.clients.store import Rows, RowStore, StoredRows, fetched, overlay
from fedrec.core.federated import Phase
from fedrec.core.kernel import LogLinear, Mixed
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.slots import Array, Arrays

NO_ROWS = RowStore((0,))


class MixedClients:
    """Runs clients of one method with mixed rows."""

    name = "fused"

    def __init__(self, shape: Mixed, setting: Setting) -> None:
        self.shape, self.setting = shape, setting
        linear = isinstance(shape.base, LogLinear)
        self.base: LogLinearClients | MlpClients = (
            LogLinearClients(shape.base, setting) if linear else MlpClients(shape.base, setting)  # type: ignore[arg-type]
        )
        self.local = dict(shape.local)
        self.of = {mine: name for name, mine in shape.local}

    def blocks(self, users: Ids) -> list[Ids]:
        return self.base.blocks(users)

    def why_not(self, plan: list[Phase]) -> str | None:
        if any(phase.recency is not None for phase in plan):
            return "samples that weigh by their age have no kernel for mixed rows"
        return self.base.why_not(self._of_base(plan))

    def _of_base(self, plan: list[Phase]) -> list[Phase]:
        """The plan as the base has it, which knows the tables by their own names."""

        def named(phase: Phase) -> Phase:
            groups = [replace(g, names=tuple(self.of.get(n, n) for n in g.names)) for g in phase.groups]
            return replace(phase, groups=groups)

        return [named(phase) for phase in plan]

    def _mixing(self, state: DeviceState, users: Ids) -> Mixing:
        stores = [*(state.rows[self.local[n]] for n in self.base.tables), NO_ROWS]
        e, f = map(kept_in, stores[:2])
        shape = self.shape
        share = GIVES_NONE if shape.share is None else np.float32(shape.share)
        weights = state.lines[shape.weight][users]
        numbers = (np.float32(x) for x in (shape.redundancy, shape.gamma, shape.carry))
        return Mixing(e, f, weights, share, *numbers)

    def fit(
        self, broadcast: Broadcast, state: DeviceState, users: Ids, plan: list[Phase], wish: Wish
    ) -> Fitted:
        mixing = self._mixing(state, users)
        without = replace(wish, lines=None, rows=wish.rows or wish.lines is not None)
        fitted = self.base.fit(broadcast, state, users, self._of_base(plan), without, mixing)
        lines = {**fitted.lines, self.shape.weight: mixing.weights}
        rows = None if fitted.rows is None else {self.local[n]: r for n, r in fitted.rows.items()}
        scores = None
        if wish.lines is not None:
            scores = self.score(broadcast.shared, RankingPart(users, lines, rows or {}), wish.lines)
        return replace(fitted, lines=lines, rows=rows if wish.rows else None, scores=scores)

    # -- ranking -------------------------------------------------------------------------------

    def rebuilt(self, broadcast: Broadcast, state: DeviceState, users: Ids, own: bool) -> RankingPart:
        rows = {n: StoredRows(store, users) for n, store in state.rows.items()} if own else {}
        kept = {n for n, s in self.setting.slots.items() if s.owner == "private" and not s.rows}
        lines = {n: state.lines[n][users] for n in kept}
        if any(s.owner == "fresh" for s in self.setting.slots.values()):  # made again on all of its samples
            plan = self.base.method.rebuild(self.setting.catalog, broadcast.round)
            lines = {**self.fit(broadcast, state, users, plan, Wish(rows=False)).lines, **lines}
        return RankingPart(users, lines, rows)

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32]) -> Array:
        """The rows that are asked for are mixed, and then they are all that the base knows."""
        count = items.shape[1]
        a, rows = part.lines[self.shape.weight][:, None, None], {}
        line = np.broadcast_to(np.arange(count, dtype=np.int32), items.shape)
        found = Ragged(count * np.arange(len(items) + 1), line.ravel())
        for name, mine in self._own(part).items():
            common = overlay(shared[name], None, items)
            own = overlay(shared[name], mine, items)
            rows[name] = Rows(found, _mixed(a, own, common).reshape(-1, own.shape[-1]))
        if not rows:
            return self.base.score(shared, part, items)
        return self.base.score(shared, replace(part, rows=rows), np.ascontiguousarray(line))

    def score_all(self, shared: Arrays, part: RankingPart) -> Array:
        rows = {}
        for name, mine in self._own(part).items():
            items, values = fetched(mine)
            a = np.repeat(part.lines[self.shape.weight], np.diff(items.indptr))[:, None]
            rows[name] = Rows(items, _mixed(a, values, shared[name][items.items]))
        return self.base.score_all(shared, replace(part, rows=rows))

    def _own(self, part: RankingPart) -> Mapping[str, Rows | StoredRows]:
        return {name: part.rows[mine] for name, mine in self.local.items() if mine in part.rows}


def _mixed(a: Array, own: Array, common: Array) -> Array:
    """The common row alone where the device has none."""
    return np.where(np.isnan(own), common, a * own + (1 - a) * common)
