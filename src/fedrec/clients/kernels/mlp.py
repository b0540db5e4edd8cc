"""Clients of methods whose score is a small neural network on vectors and item rows, in compiled code.

They answer like the plain engine, which is their slow twin, on the same samples in the same order.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import Fitted, RankingPart, Setting, Wish
from fedrec.clients.kernels.mixing import Mixing
from fedrec.clients.kernels.mlp_shard import Model, Outcome, score_lines, train_shard
from fedrec.clients.kernels.mlp_step import LAYERS, ROWS, VECTORS, Rule
from fedrec.clients.kernels.shard import Streams
from fedrec.clients.kernels.shards import shards
from fedrec.clients.state import DeviceState
from fedrec.clients.store import OwnRows, Rows, StoredRows, fetched
from fedrec.core.federated import Phase, weights_by
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import Mlp
from fedrec.core.messages import Broadcast
from fedrec.core.network import make_net, places
from fedrec.core.optim import SGD, Adam, Gradient
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.recency import ALIKE
from fedrec.core.rng import stream
from fedrec.core.slots import Array, Arrays
from fedrec.core.upload import Total, Upload
from fedrec.data.negatives import NEGATIVES, SHUFFLE
from fedrec.data.samples import PARTS, SUPPORT, draws_negatives

EACH = 50  # samples' worth of work that every client costs, whatever its size
NO_ROWS = np.zeros((0, 0), np.float32)


class MlpClients:
    """Runs clients of one neural method."""

    name = "fused"

    def __init__(self, shape: Mlp, setting: Setting) -> None:
        assert isinstance(setting.method, GradientMethod)
        self.shape, self.setting, self.method, self.data = shape, setting, setting.method, setting.data
        self.histories = self.data.histories
        self.sizes = self.data.samples(np.arange(len(self.data)))
        slots = setting.slots
        self.vectors = [shape.vector, shape.product[0] if shape.product else None]
        self.tables = [shape.items, *(shape.product[1:] if shape.product else ())]
        width = [slots[n].shape[0] if n else 0 for n in self.vectors]
        hidden = tuple(slots[n].shape[0] for n in shape.weights[:-1])
        self.net = make_net(width[0], slots[shape.items].shape[1], width[1], hidden)
        named = {("vector", i): n for i, n in enumerate(self.vectors) if n}
        named |= {("weights", i): n for i, n in enumerate(shape.weights)}
        named |= {("biases", i): n for i, n in enumerate(shape.biases)}
        found = places(self.net)
        self.places = {name: found[key].reshape(slots[name].shape) for key, name in named.items()}
        self.layers = [*shape.weights, *shape.biases]
        self.mine = [n for n in self.places if slots[n].owner != "shared"]
        self.ours = [n for n in self.places if slots[n].owner == "shared"]
        self.private_layers = slots[shape.weights[0]].owner != "shared"
        self.private = self.net.size if self.private_layers else self.net.vectors
        self.kept = [n for n, s in slots.items() if s.owner == "private" and not s.rows]

    def blocks(self, users: Ids) -> list[Ids]:
        return shards(users, self.sizes[users] + EACH)

    # -- what it can run -----------------------------------------------------------------------

    def why_not(self, plan: list[Phase]) -> str | None:
        if not draws_negatives(plan):
            return "its clients train on positives alone"
        owners = {n: self.setting.slots[n].owner for n in (*self.places, *self.tables)}
        vectors = [n for n in self.vectors if n]
        expected = dict.fromkeys(vectors, "private") | dict.fromkeys(self.tables, "shared")
        expected |= dict.fromkeys(self.layers, owners[self.layers[0]])
        for name, owner in expected.items():
            if owners[name] != owner or owner not in ("private", "shared"):
                return f"'{name}' is a {owners[name]} slot"
        return next(filter(None, (self._other_moves(phase, vectors) for phase in plan)), None)

    def _other_moves(self, phase: Phase, vectors: list[str]) -> str | None:
        seen: list[str] = []
        for group in phase.groups:
            how = group.optimizer
            adam = isinstance(how, Adam) and how.keeps and set(group.names) <= set(vectors)
            if not (adam or isinstance(how, SGD | Gradient)):
                return f"local {type(how).__name__} of '{group.names[0]}' has no kernel"
            if (
                self.shape.in_turn
                and group.owner != "shared"
                and any(n in (*self.tables, *self.ours) for n in seen)
            ):
                return f"'{seen[0]}' moves before '{group.names[0]}'"
            seen += group.names
        if unknown := set(seen) - {*self.places, *self.tables}:
            return f"it trains '{min(unknown)}' as well"
        for part in (vectors, self.layers, self.tables):
            if (missing := set(part) - set(seen)) and len(missing) < len(part):
                return f"it trains '{min(set(part) - missing)}' and leaves '{min(missing)}'"
        return None

    def _rule(self, plan: list[Phase]) -> Rule:
        """Phases as numbers."""
        rates = np.zeros((len(plan), self.net.size), np.float32)
        rows, adam = np.zeros((2, len(plan), 2), np.float32)
        moves = np.zeros((len(plan), 3), np.bool_)
        terms = np.array([Adam.beta1, Adam.beta2, Adam.epsilon])
        for p, phase in enumerate(plan):
            for group in phase.groups:
                how: Any = group.optimizer
                for name in group.names:
                    rate = 1.0 if isinstance(how, Gradient) else how.lr
                    if name in self.tables:
                        moves[p, ROWS], rows[p, self.tables.index(name)] = True, rate
                        continue
                    moves[p, VECTORS if name in self.vectors else LAYERS] = True
                    if isinstance(how, Adam):
                        adam[p, self.vectors.index(name)] = rate
                        terms = np.array([how.beta1, how.beta2, how.epsilon])
                    else:
                        rates[p, self.places[name]] = rate
        shape, method = self.shape, self.method
        return Rule(
            np.array([PARTS[phase.part] for phase in plan], np.int64),
            np.array([phase.epochs for phase in plan], np.int64),
            moves, rates, rows, np.array([phase.recency or ALIKE for phase in plan], np.float32), adam, terms,
            method.batch_size, method.tolerance, shape.in_turn, shape.at_once, self.private_layers,
            np.float32(shape.radius_private), np.float32(shape.radius_shared),
        )  # fmt: skip

    # -- packing -------------------------------------------------------------------------------

    def _model(self, shared: Arrays, lines: Arrays, weights: Array) -> Model:
        """Arrays as compiled code takes them: copies of what is private."""
        theta = np.zeros(self.net.size, np.float32)
        for name in self.ours:
            theta[self.places[name]] = shared[name]
        private = np.zeros((len(weights), self.private), np.float32)
        for mine in self.mine:
            private[:, self.places[mine]] = lines[mine]
        size = self.net.vectors if self._adam else 0
        m, v, t = (np.zeros((len(weights), width), np.float32) for width in (size, size, 2))
        for i, vector in enumerate(self.vectors):
            if vector and self._adam:
                at = self.places[vector]
                m[:, at], v[:, at] = lines[f"adam.{vector}.m"], lines[f"adam.{vector}.v"]
                t[:, i] = lines[f"adam.{vector}.t"]
        tables = [np.ascontiguousarray(shared[n]) for n in self.tables]
        return Model(tables[0], tables[1] if len(tables) > 1 else NO_ROWS, theta, private, m, v, t, weights)

    @property
    def _adam(self) -> bool:
        return any(f"adam.{name}.t" in self.setting.slots for name in self.vectors)

    def _lines(self, model: Model) -> Arrays:
        """The private slots again."""
        lines = {name: model.private[:, self.places[name]] for name in self.mine}
        for i, name in enumerate(self.vectors):
            if name and self._adam:
                lines |= {
                    f"adam.{name}.{k}": v[:, self.places[name]] for k, v in (("m", model.m), ("v", model.v))
                }
                lines[f"adam.{name}.t"] = model.t[:, i].copy()
        return lines

    # -- training ------------------------------------------------------------------------------

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
        weights = weights_by(self.setting.uploads, self.sizes[users])
        model = self._model(broadcast.shared, {n: state.lines[n][users] for n in self.kept}, weights)
        keep = wish.rows or wish.single
        room = int(self.sizes[users].sum()) if keep else 0
        asked = np.zeros((0, 0), np.int32) if wish.lines is None else wish.lines
        out = Outcome(
            e=np.zeros_like(model.e),
            f=np.zeros_like(model.f),
            theta=np.zeros_like(model.theta),
            losses=np.zeros(len(users), np.float32),
            finite=np.ones(len(users), np.bool_),
            lines=asked,
            scores=np.zeros(asked.shape, np.float32),
            kept_ptr=np.zeros(len(users) + 1 if keep else 0, np.int64),
            kept_items=np.empty(room, np.int32),
            kept_e=np.empty((room, model.e.shape[1]), np.float32),
            kept_f=np.empty((room, model.f.shape[1]), np.float32),
            kept_theta=np.zeros((len(users), self.net.size - self.private if wish.single else 0), np.float32),
            spent=np.zeros(2, np.int64),
        )
        names = (NEGATIVES, SHUFFLE, SUPPORT)
        keys = Streams(*(np.uint64(stream(self.setting.secret, n, broadcast.round)) for n in names))
        sent = train_shard(self.net, self.histories, users, keys, model, self._rule(plan), out, mixing)
        own = self._own(out) if keep else None
        answer = self._upload(model, out, own) if wish.single and own is not None else self._total(model, out)
        took = time.perf_counter() - start
        ranking = out.spent[1] / max(out.spent.sum(), 1)
        return Fitted(
            users,
            self._lines(model),
            out.losses,
            out.finite,
            answer,
            sent,
            own,
            None if wish.lines is None else out.scores,
            seconds=(took * (1 - ranking), took * ranking),
        )

    def _own(self, out: Outcome) -> dict[str, Rows]:
        """The clients' rows."""
        end = out.kept_ptr[-1]
        items = Ragged(out.kept_ptr, out.kept_items[:end])
        kept = zip(self.tables, (out.kept_e, out.kept_f), strict=False)
        return {n: Rows(items, values[:end]) for n, values in kept}

    def _total(self, model: Model, out: Outcome) -> Total:
        sums: Arrays = dict(zip(self.tables, (out.e, out.f), strict=False))
        sums |= {name: out.theta[self.places[name]] for name in self.ours}
        weight = float(model.weights[out.finite].sum(dtype=np.float64))
        return Total(sums, weight, int(out.finite.sum()))

    def _upload(self, model: Model, out: Outcome, own: dict[str, Rows]) -> Upload:
        items = own[self.shape.items].items
        before = dict(zip(self.tables, (model.e, model.f), strict=False))
        rows = {n: own[n].values - before[n][items.items] for n in self.tables}
        dense = {n: out.kept_theta[:, self.places[n] - self.private] for n in self.ours}
        return Upload(items, rows, dense, model.weights).only(out.finite)

    # -- ranking -------------------------------------------------------------------------------

    def rebuilt(self, broadcast: Broadcast, state: DeviceState, users: Ids, own: bool) -> RankingPart:
        rows = {n: StoredRows(store, users) for n, store in state.rows.items()} if own else {}
        return RankingPart(users, {n: state.lines[n][users] for n in self.kept}, rows)

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32]) -> Array:
        out = np.empty(items.shape, np.float32)
        self._score(shared, part, items, out)
        return out

    def score_all(self, shared: Arrays, part: RankingPart) -> Array:
        out = np.empty((len(part.users), len(shared[self.shape.items])), np.float32)
        self._score(shared, part, np.zeros((0, 0), np.int32), out)
        return out

    def _score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32], out: Array) -> None:
        model = self._model(shared, part.lines, np.ones(len(part.users), np.float32))
        own = [_flat(part.rows.get(name)) for name in self.tables]
        score_lines(self.net, model, own[0], own[1] if len(own) > 1 else _flat(None), items, out)


def _flat(own: OwnRows | None) -> tuple[Any, Any, Any]:
    """Own rows as three arrays; empty where there are none."""
    if own is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros((0, 1), np.float32)
    items, values = fetched(own)
    return items.indptr, items.items, values
