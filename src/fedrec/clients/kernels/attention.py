"""Clients of a method whose user vector goes through a graph attention layer (FedPerGNN), in compiled code.

They answer like the plain engine, which is their slow twin, on the same samples.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import Fitted, RankingPart, Setting, Wish
from fedrec.clients.kernels.attention_shard import Model, Outcome, train_shard, vectors_of
from fedrec.clients.kernels.attention_step import Layer
from fedrec.clients.kernels.rank import NO_ROWS, score_all_rows, score_lines
from fedrec.clients.kernels.shards import shards
from fedrec.clients.leaving import left
from fedrec.clients.state import DeviceState
from fedrec.clients.store import Rows
from fedrec.core.federated import Phase, weights_by
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import Attention
from fedrec.core.messages import Broadcast
from fedrec.core.optim import SGD, Gradient
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.rng import stream
from fedrec.core.slots import Array, Arrays
from fedrec.core.upload import Upload, summed
from fedrec.data.negatives import NEGATIVES

EACH = 50  # samples' worth of work that every client costs, whatever its size


class AttentionClients:
    """Runs clients that hear from neighbours."""

    name = "fused"

    def __init__(self, form: Attention, setting: Setting) -> None:
        assert isinstance(setting.method, GradientMethod)
        self.form, self.setting, self.method, self.data = form, setting, setting.method, setting.data
        self.histories = self.data.histories
        self.sizes = self.data.samples(np.arange(len(self.data)))

    def blocks(self, users: Ids) -> list[Ids]:
        """Clients of similar size together: what they are given is padded to the largest."""
        order = users[np.argsort(self.sizes[users], kind="stable")]
        return shards(order, self.sizes[order] + EACH)

    def why_not(self, plan: list[Phase]) -> str | None:
        form, at_once = self.form, self.sizes.max(initial=0) <= self.method.batch_size
        if len(plan) != 1 or plan[0].part != "all" or plan[0].epochs != 1 or not at_once:
            return "its clients do not take all their samples at once"
        expected = {form.user: SGD, form.bias: SGD} | dict.fromkeys((form.items, *form.layer), Gradient)
        moved = {n: type(g.optimizer) for g in plan[0].groups for n in g.names}
        if moved != expected or len({g.optimizer for g in plan[0].groups if g.owner == "private"}) != 1:
            return "it trains other arrays, or in another way, than its kernel says"
        return None

    def _model(self, broadcast: Broadcast, state: DeviceState, users: Ids, given: Arrays) -> Model:
        """Arrays as compiled code takes them; private ones are copies."""
        form, shared = self.form, broadcast.shared
        return Model(
            shared[form.items], Layer(*(np.ascontiguousarray(shared[n]) for n in form.layer)), given[form.nearby],
            given[form.links], state.lines[form.user][users], state.lines[form.bias][users],
            *self.data.trained.take(users),
        )  # fmt: skip

    def fit(
        self, broadcast: Broadcast, state: DeviceState, users: Ids, plan: list[Phase], wish: Wish
    ) -> Fitted:
        start = time.perf_counter()
        form, given = self.form, broadcast.given(users)
        model = self._model(broadcast, state, users, given)
        room, dim = int(self.sizes[users].sum()), model.users.shape[1]

        def zeros(*shape: int) -> Array:
            return np.zeros(shape, np.float32)

        clients = len(users)
        out = Outcome(
            zeros(clients), np.ones(clients, np.bool_), np.zeros(clients + 1, np.int64), np.empty(room, np.int32),
            zeros(room, dim), zeros(clients, dim, dim), zeros(clients, dim), zeros(clients, dim), zeros(clients, dim),
        )  # fmt: skip
        rates = {n: g.optimizer.lr for g in plan[0].groups if isinstance(g.optimizer, SGD) for n in g.names}
        shares = any(form.items in group.names for group in plan[0].groups)
        key = np.uint64(stream(self.setting.secret, NEGATIVES, broadcast.round))
        train_shard(self.histories, users, key, model, rates[form.user], shares, out)
        items = Ragged(out.ptr, out.items[: out.ptr[-1]])
        rows, finite, uploads = out.rows[: out.ptr[-1]], out.finite, self.setting.uploads
        dense = dict(zip(form.layer, (out.weight, out.ask, out.answer), strict=True)) | {
            form.told: model.users
        }
        weights = weights_by(uploads, self.sizes[users])
        upload = Upload(items, {form.items: rows}, dense, weights).only(finite)
        upload = left(self.setting, upload, broadcast.round, users[finite], self.sizes[users[finite]])
        lines = {form.user: model.users, form.bias: model.biases, form.vector: out.vectors}
        own = {form.items: Rows(items, model.table[items.items] + rows)} if wish.rows else None
        trained = time.perf_counter()
        part = RankingPart(users, lines, own or {}, given)
        scores = None if wish.lines is None else self.score(broadcast.shared, part, wish.lines)
        return Fitted(
            users,
            lines,
            out.losses,
            finite,
            sent=upload if wish.single else summed(upload, uploads.arrays),
            rows_sent=len(upload.items.items),
            rows=own,
            scores=scores,
            seconds=(trained - start, time.perf_counter() - trained),
        )

    def rebuilt(self, broadcast: Broadcast, state: DeviceState, users: Ids, own: bool) -> RankingPart:
        """The layer once more, on the items as they are now."""
        form, given = self.form, broadcast.given(users)
        model = self._model(broadcast, state, users, given)
        vectors = np.empty_like(model.users)
        vectors_of(model, vectors)
        lines = {form.user: model.users, form.bias: model.biases, form.vector: vectors}
        return RankingPart(users, lines, {}, given)

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32]) -> Array:
        out = np.empty(items.shape, np.float32)
        score_lines(shared[self.form.items], *self._of(part), *self._own(part), items, out)
        return out

    def score_all(self, shared: Arrays, part: RankingPart) -> Array:
        table = shared[self.form.items]
        out = np.empty((len(part.users), len(table)), np.float32)
        score_all_rows(table, *self._of(part), *self._own(part), out)
        return out

    def _of(self, part: RankingPart) -> tuple[Array, Array]:
        return part.lines[self.form.vector], part.lines[self.form.bias]

    def _own(self, part: RankingPart) -> tuple[NDArray[np.int64], NDArray[np.int32], Array]:
        own = part.rows.get(self.form.items)
        return (*own.items, own.values) if isinstance(own, Rows) else NO_ROWS
