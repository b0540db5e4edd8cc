"""Clients of methods whose score is a vector times an item row, in compiled code.

They answer like the plain engine, which is their slow twin, on the same samples in the same order.
"""

from __future__ import annotations

import time
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import Fitted, RankingPart, Setting, Wish
from fedrec.clients.kernels.mixing import Mixing
from fedrec.clients.kernels.rank import NO_ROWS, score_all_rows, score_lines
from fedrec.clients.kernels.shard import Model, Outcome, Rule, Streams, train_shard
from fedrec.clients.kernels.shards import shards
from fedrec.clients.state import DeviceState
from fedrec.clients.store import OwnRows, Rows, fetched
from fedrec.core.aligned import zeros_like
from fedrec.core.federated import Phase, weights_by
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import LogLinear
from fedrec.core.messages import Broadcast
from fedrec.core.optim import SGD
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.recency import ALIKE
from fedrec.core.rng import stream
from fedrec.core.rounding import NOWHERE
from fedrec.core.slots import Array, Arrays
from fedrec.core.upload import Total, Upload
from fedrec.data.negatives import NEGATIVES, SHUFFLE
from fedrec.data.samples import PARTS, SUPPORT, draws_negatives

EACH = 50  # samples' worth of work that every client costs, whatever its size


def _other_moves(phase: Phase, shape: LogLinear) -> str | None:
    rates: dict[str, float] = {}
    for group in phase.groups:
        if not isinstance(group.optimizer, SGD):
            return f"local {type(group.optimizer).__name__} has no kernel"
        rates |= dict.fromkeys(group.names, group.optimizer.lr)
    unknown = rates.keys() - {shape.items, shape.vector, shape.bias}
    if unknown:
        return f"it trains '{min(unknown)}' as well"
    if rates.get(shape.vector) != rates.get(shape.bias):
        return f"'{shape.vector}' and '{shape.bias}' move at different rates"
    if shape.in_turn and shape.vector in rates and next(iter(rates)) == shape.items:
        return f"'{shape.items}' move before '{shape.vector}'"
    return None


class LogLinearClients:
    """Runs clients of one log-linear method."""

    name = "fused"

    def __init__(self, shape: LogLinear, setting: Setting) -> None:
        assert isinstance(setting.method, GradientMethod)
        self.shape, self.setting, self.method, self.data = shape, setting, setting.method, setting.data
        self.histories = self.data.histories
        self.sizes = self.data.samples(np.arange(len(self.data)))
        self.fresh = setting.slots[shape.vector].owner == "fresh"
        self.tables = [shape.items]

    def blocks(self, users: Ids) -> list[Ids]:
        return shards(users, self.sizes[users] + EACH)

    def why_not(self, plan: list[Phase]) -> str | None:
        if not draws_negatives(plan):
            return "its clients train on positives alone"
        return next(filter(None, (_other_moves(phase, self.shape) for phase in plan)), None)

    def _plan(self, phases: list[Phase]) -> NDArray[np.float64]:
        """Phases as numbers: part, epochs, learning rates (0: left alone), recency (0: none)."""
        lines = []
        for phase in phases:
            rates = {n: g.optimizer.lr for g in phase.groups if isinstance(g.optimizer, SGD) for n in g.names}
            moves = rates.get(self.shape.vector, 0.0), rates.get(self.shape.items, 0.0)
            lines.append([PARTS[phase.part], phase.epochs, *moves, *(phase.recency or ALIKE)])
        return np.array(lines, np.float64).reshape(-1, 6)

    def fit(
        self,
        broadcast: Broadcast,
        state: DeviceState,
        users: Ids,
        plan: list[Phase],
        wish: Wish,
        mixing: Mixing | None = None,
    ) -> Fitted:
        start = time.perf_counter()
        shape, table = self.shape, broadcast.shared[self.shape.items]
        vectors, biases = self._private(broadcast, state, users)
        no_sums = np.zeros((0, 0), np.float32)
        total = Total({shape.items: no_sums if wish.single else zeros_like(table)})
        added = NOWHERE if wish.whole is None else wish.whole.added(shape.items, len(users))
        single = wish.single and wish.whole is None
        weights = weights_by(self.setting.uploads, self.sizes[users])
        keep = wish.rows or single
        room = int(self.sizes[users].sum()) if keep else 0
        asked = np.zeros((0, 0), np.int32) if wish.lines is None else wish.lines
        out = Outcome(
            sums=total.sums[shape.items],
            added=added,
            losses=np.zeros(len(users), np.float32),
            finite=np.ones(len(users), np.bool_),
            lines=asked,
            scores=np.zeros(asked.shape, np.float32),
            kept_ptr=np.zeros(len(users) + 1 if keep else 0, np.int64),
            kept_items=np.empty(room, np.int32),
            kept_rows=np.empty((room, table.shape[1]), np.float32),
            spent=np.zeros(2, np.int64),
        )
        radii = np.float32(shape.radius_private), np.float32(shape.radius_shared)
        rule = Rule(self._plan(plan), self.method.batch_size, self.method.tolerance, shape.in_turn, *radii)
        names = (NEGATIVES, SHUFFLE, SUPPORT)
        keys = Streams(*(np.uint64(stream(self.setting.secret, n, broadcast.round)) for n in names))
        model = Model(table, vectors, biases, weights)
        sent = train_shard(self.histories, users, keys, model, rule, out, mixing)
        total.clients = int(out.finite.sum())
        total.weight = float(weights[out.finite].sum(dtype=np.float64))
        own = None
        answer: Upload | Total = total
        if keep:
            end = out.kept_ptr[-1]
            own = {shape.items: Rows(Ragged(out.kept_ptr, out.kept_items[:end]), out.kept_rows[:end])}
        fits = None
        if wish.whole is not None:
            fits = added.fits
            answer = wish.whole.counted(weights[fits])
        if single and own is not None:
            items, rows = own[shape.items]
            moves = rows.copy() if wish.rows else rows
            take_away(moves, items.items, table)
            answer = Upload(items, {shape.items: moves}, {}, weights).only(out.finite)
        took = time.perf_counter() - start
        ranking = out.spent[1] / max(out.spent.sum(), 1)
        return Fitted(
            users,
            {shape.vector: vectors, shape.bias: biases},
            out.losses,
            out.finite,
            answer,
            sent,
            own if wish.rows else None,
            None if wish.lines is None else out.scores,
            seconds=(took * (1 - ranking), took * ranking),
            fits=fits,
        )

    def _private(self, broadcast: Broadcast, state: DeviceState, users: Ids) -> tuple[Array, Array]:
        """Copies of the clients' vectors and biases, to be trained in place."""
        names = (self.shape.vector, self.shape.bias)
        if not self.fresh:
            vector, bias = (state.lines[n][users] for n in names)
            return vector, bias
        slots, seed = self.setting.slots, self.setting.seed
        vector, bias = (
            np.repeat(slots[n].freshly(n, seed, broadcast.round)[None], len(users), axis=0) for n in names
        )
        return vector, bias

    def rebuilt(self, broadcast: Broadcast, state: DeviceState, users: Ids, own: bool) -> RankingPart:
        rows = {n: store.get(users) for n, store in state.rows.items()} if own else {}
        if self.fresh:  # made again on all of the device's samples, items as they are
            plan = self.method.rebuild(self.setting.catalog, broadcast.round)
            lines = self.fit(broadcast, state, users, plan, Wish(rows=False)).lines
        else:
            vectors, biases = self._private(broadcast, state, users)
            lines = {self.shape.vector: vectors, self.shape.bias: biases}
        return RankingPart(users, lines, rows)

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32]) -> Array:
        out = np.empty(items.shape, np.float32)
        score_lines(
            shared[self.shape.items], *self._of(part), *_flat(part.rows.get(self.shape.items)), items, out
        )
        return out

    def score_all(self, shared: Arrays, part: RankingPart) -> Array:
        table = shared[self.shape.items]
        out = np.empty((len(part.users), len(table)), np.float32)
        score_all_rows(table, *self._of(part), *_flat(part.rows.get(self.shape.items)), out)
        return out

    def _of(self, part: RankingPart) -> tuple[Array, Array]:
        return part.lines[self.shape.vector], part.lines[self.shape.bias]


@nb.njit(cache=True, nogil=True)
def take_away(rows: Any, items: Any, table: Any) -> None:
    """What is left of rows once those of a table are taken away, in place."""
    for k in range(len(items)):
        for j in range(rows.shape[1]):
            rows[k, j] -= table[items[k], j]


def _flat(own: OwnRows | None) -> tuple[Any, Any, Any]:
    """Own rows as three arrays; empty where there are none."""
    if own is None:
        return NO_ROWS
    items, values = fetched(own)
    return items.indptr, items.items, values
