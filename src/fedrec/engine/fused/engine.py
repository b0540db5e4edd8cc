"""The fused engine: compiled kernels for methods whose score is a vector times an item row.

It answers like the plain engine, which is its slow twin, on the same samples in the same order.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.federated import Federated, Total, View
from fedrec.core.gradient import GradientMethod, Phase
from fedrec.core.loglinear import LogLinear
from fedrec.core.optim import SGD
from fedrec.core.rng import stream
from fedrec.core.slots import Array, Catalog
from fedrec.core.wrapper import chain
from fedrec.data.negatives import NEGATIVES, SHUFFLE
from fedrec.data.split import Ragged, Split
from fedrec.engine.fused.rank import score_all_rows, score_lines
from fedrec.engine.fused.shard import train_shard
from fedrec.engine.interface import ROWS, Ask, Fitted, Held
from fedrec.engine.samples import PARTS, SUPPORT, sample_counts
from fedrec.engine.state import State, freshly
from fedrec.engine.store import Kept, Own, Rows
from fedrec.engine.upload import Upload

SHARDS = 16  # fixed: sums are made shard by shard, so results do not depend on the number of threads
SEAMS = ("logits", "loss", "cut", "step", "fit", "receive", "upload")


def why_not(method: Federated, local: bool) -> str | None:
    """Why there is no kernel for a method; None where there is one."""
    declared = method.log_linear()
    if declared is None:
        return "its score is not one inner product per item"
    if local:
        return "without aggregation every client keeps its own table"
    for part in chain(method):
        # A subclass that changes the mathematics inherits the declaration, but not its truth.
        owner = _definer(type(part), "log_linear")
        for seam in SEAMS:
            if issubclass(_definer(type(part), seam), owner) and _definer(type(part), seam) is not owner:
                return f"{type(part).__name__} changes '{seam}' of {owner.__name__}"
    return next(
        filter(None, (_other_moves(phase, declared) for phase in method.plan(Catalog(1, 1), 1))), None
    )


def _other_moves(phase: Phase, declared: LogLinear) -> str | None:
    """What a phase asks for that the kernels do not do."""
    rates: dict[str, float] = {}
    for group in phase.groups:
        if not isinstance(group.optimizer, SGD):
            return f"local {type(group.optimizer).__name__} has no kernel"
        rates |= dict.fromkeys(group.names, group.optimizer.lr)
    order = list(rates)
    unknown = rates.keys() - {declared.items, declared.vector, declared.bias}
    if unknown:
        return f"it trains '{min(unknown)}' as well"
    if rates.get(declared.vector) != rates.get(declared.bias):
        return f"'{declared.vector}' and '{declared.bias}' move at different rates"
    if declared.in_turn and declared.vector in rates and order[0] == declared.items:
        return f"'{declared.items}' move before '{declared.vector}'"
    return None


def _definer(kind: type, name: str) -> type:
    return next(c for c in kind.__mro__ if name in c.__dict__)


class Fused:
    """Runs clients of one log-linear method on one split."""

    name = "fused"

    def __init__(self, method: Federated, split: Split, seed: int) -> None:
        declared = method.log_linear()
        assert declared is not None
        assert isinstance(method, GradientMethod)
        self.method: Federated = method
        self.split, self.seed = split, seed
        self.shape: LogLinear = declared
        self.catalog = Catalog(split.n_users, split.n_items)
        self.slots = method.slots(self.catalog)
        self.uploads = method.uploads(self.catalog)
        self.sizes = sample_counts(split)
        self.batch, self.tolerance = method.batch_size, method.tolerance
        self.fresh = self.slots[declared.vector].owner == "fresh"

    def blocks(self, users: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Runs of users with about the same work each."""
        work = np.cumsum(self.sizes[users] + 50)  # every client costs a little, whatever its size
        cuts = np.searchsorted(work, work[-1] * np.arange(1, SHARDS) / SHARDS)
        return [part for part in np.split(users, cuts) if len(part)]

    def _plan(self, phases: list[Phase]) -> NDArray[np.float64]:
        """Phases as numbers: part, epochs, learning rates (0: left alone)."""
        lines = []
        for phase in phases:
            rates = {name: group.optimizer.lr for group in phase.groups for name in group.names}  # type: ignore[attr-defined]
            lines.append(
                [
                    PARTS[phase.part],
                    phase.epochs,
                    rates.get(self.shape.vector, 0.0),
                    rates.get(self.shape.items, 0.0),
                ]
            )
        return np.array(lines, np.float64).reshape(-1, 4)

    def fit(self, state: State, round: int, users: NDArray[np.int64], ask: Ask = ROWS) -> Fitted:
        keep = ask.rows or ask.single
        return self._run(
            state, round, users, self.method.plan(self.catalog, round), ask.single, keep, ask.lines
        )

    def _run(
        self,
        state: State,
        round: int,
        users: NDArray[np.int64],
        phases: list[Phase],
        single: bool,
        keep: bool,
        lines: NDArray[np.int32] | None,
    ) -> Fitted:
        start = time.perf_counter()
        table = state.shared[self.shape.items]
        dim = table.shape[1]
        vectors, biases = self._private(state, round, users)
        total = Total(
            {self.shape.items: np.zeros_like(table)},
            counts={self.shape.items: np.zeros(len(table), np.float32)},
        )
        losses, finite = np.zeros(len(users), np.float32), np.ones(len(users), np.bool_)
        asked = np.zeros((0, 0), np.int32) if lines is None else lines
        scores = np.zeros(asked.shape, np.float32)
        room = int(self.sizes[users].sum()) if keep else 0
        kept_ptr = np.zeros(len(users) + 1 if keep else 0, np.int64)
        kept_items, kept_rows = np.zeros(room, np.int32), np.zeros((room, dim), np.float32)
        spent = np.zeros(2, np.int64)
        weights = self.method.weight(self.sizes[users]).astype(np.float32)
        forbidden, train = self.split.forbidden, self.split.train
        keys = (np.uint64(stream(self.seed, name, round)) for name in (NEGATIVES, SHUFFLE, SUPPORT))
        sent = train_shard(
            *keys, self.split.keys[users], users, *train, *forbidden, self.split.protocol.negatives_per_positive,
            table, vectors, biases, self._plan(phases), self.batch, self.tolerance, self.shape.in_turn,
            np.float32(self.shape.radius_private), np.float32(self.shape.radius_shared), weights,
            total.sums[self.shape.items], total.counts[self.shape.items], losses, finite, asked, scores, kept_ptr,
            kept_items, kept_rows, spent,
        )  # fmt: skip
        total.clients = int(finite.sum())
        total.weight = float(weights[finite].sum(dtype=np.float64))
        own = None
        upload: Upload | Total = total
        if keep:
            held = Ragged(kept_ptr, kept_items[: kept_ptr[-1]])
            own = {self.shape.items: Rows(held, kept_rows[: kept_ptr[-1]])}
        if single:
            assert own is not None
            moves = own[self.shape.items].values - table[held.items]
            upload = Upload(held, {self.shape.items: moves}, {}, weights).only(finite)
        took = time.perf_counter() - start
        share = spent[1] / max(spent.sum(), 1)
        private = {self.shape.vector: vectors, self.shape.bias: biases}
        seconds = (took * (1 - share), took * share)
        return Fitted(
            users, private, losses, finite, upload, sent, own, None if lines is None else scores, seconds
        )

    def _private(self, state: State, round: int, users: NDArray[np.int64]) -> tuple[Array, Array]:
        """Copies of the clients' vectors and biases, to be trained in place."""
        if not self.fresh:
            return state.private[self.shape.vector][users], state.private[self.shape.bias][users]
        made = [freshly(n, self.slots[n], self.seed, round) for n in (self.shape.vector, self.shape.bias)]
        return np.repeat(made[0][None], len(users), axis=0), np.repeat(made[1][None], len(users), axis=0)

    def held(self, state: State, round: int, users: NDArray[np.int64], view: View) -> Held:
        own = {n: store.get(users) for n, store in state.rows.items()} if view != "global" else {}
        vectors, biases = self._private(state, round, users)
        if self.fresh:  # made again on all of the device's samples, items as they are
            phases = self.method.plan(self.catalog, round)
            names = {self.shape.vector, self.shape.bias}
            plan = [
                Phase(p.groups, p.epochs, "all")
                for p in phases
                if all(names >= set(g.names) for g in p.groups)
            ]
            private = self._run(state, round, users, plan, False, False, None).private
        else:
            private = {self.shape.vector: vectors, self.shape.bias: biases}
        return Held(users, private, own)

    def score(self, state: State, held: Held, items: NDArray[np.int32]) -> Array:
        own = held.rows.get(self.shape.items)
        out = np.empty(items.shape, np.float32)
        score_lines(state.shared[self.shape.items], *self._of(held), *_flat(own), items, out)
        return out

    def score_all(self, state: State, held: Held) -> Array:
        table = state.shared[self.shape.items]
        own = held.rows.get(self.shape.items)
        out = np.empty((len(held.users), len(table)), np.float32)
        score_all_rows(table, *self._of(held), *_flat(own), out)
        return out

    def _of(self, held: Held) -> tuple[Array, Array]:
        return held.private[self.shape.vector], held.private[self.shape.bias]


def _flat(own: Own | None) -> tuple[Any, Any, Any]:
    """Own rows as three arrays; empty where there are none."""
    if own is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros((0, 1), np.float32)
    own = own.store.get(own.users) if isinstance(own, Kept) else own
    return own.held.indptr, own.held.items, own.values
