"""Clients whose item rows are the sum of a common and a personal part (FedRAP), in compiled code.

The same clients as in the plain engine, on the same samples.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import Fitted, RankingPart, Setting, Wish
from fedrec.clients.kernels.kept import kept_in
from fedrec.clients.kernels.shard_additive import (
    Model,
    Numbers,
    Outcome,
    add_personal,
    train_additive,
)
from fedrec.clients.kernels.shards import shards
from fedrec.clients.state import DeviceState
from fedrec.clients.store import Rows, RowStore, StoredRows, fetched, overlay
from fedrec.core.aligned import zeros_like
from fedrec.core.federated import Phase
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import Additive
from fedrec.core.messages import Broadcast
from fedrec.core.optim import DecayingSGD
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.recency import ALIKE
from fedrec.core.rng import stream
from fedrec.core.rounding import NOWHERE
from fedrec.core.slots import Array, Arrays
from fedrec.core.upload import Total, Upload
from fedrec.data.negatives import NEGATIVES, SHUFFLE

EACH = 50  # samples' worth of work that every client costs, whatever its size


class AdditiveClients:
    """Runs clients with a common and a personal part; the interface is that of the plain engine."""

    name = "fused"

    def __init__(self, form: Additive, setting: Setting) -> None:
        assert isinstance(setting.method, GradientMethod)
        self.form, self.setting, self.method, self.data = form, setting, setting.method, setting.data
        self.histories = self.data.histories
        self.sizes = self.data.samples(np.arange(len(self.data)))
        (self.dim,) = setting.slots[form.vector].shape
        self.nothing = np.zeros((0, self.dim), np.float32)
        self.no_rows = RowStore((self.dim,))
        name = form.personal
        self.untouched = self.nothing if name is None else setting.slots[name].starting(name, setting.seed)

    def blocks(self, users: Ids) -> list[Ids]:
        return shards(users, self.sizes[users] + EACH)

    def why_not(self, plan: list[Phase]) -> str | None:
        if len(plan) != 1 or plan[0].part != "all":
            return "its plan is not one phase over all samples"
        form, groups = self.form, plan[0].groups
        if not all(isinstance(g.optimizer, DecayingSGD) for g in groups):
            return "its optimizer is not decaying SGD"
        rates = {n: g.optimizer for g in groups if isinstance(g.optimizer, DecayingSGD) for n in g.names}
        unknown = rates.keys() - {form.vector, form.bias, form.common, form.personal}
        if unknown:
            return f"it trains '{min(unknown)}' as well"
        if len({(o.decay, o.weight_decay) for o in rates.values()}) > 1:
            return "its groups decay differently"
        if rates.get(form.vector) != rates.get(form.bias):
            return f"'{form.vector}' and '{form.bias}' move at different rates"
        return None

    def _numbers(self, plan: list[Phase]) -> Numbers:
        """What the plan of a round says, as numbers."""
        (phase,) = plan
        by_name = {
            n: g.optimizer for g in phase.groups if isinstance(g.optimizer, DecayingSGD) for n in g.names
        }
        rates = {name: optimizer.lr for name, optimizer in by_name.items()}
        form, penalty, first = self.form, phase.terms["mu"], by_name[self.form.vector]
        recency = phase.recency or ALIKE
        return Numbers(
            lr_vector=first.lr,
            lr_common=rates.get(form.common or "", 0.0),
            lr_personal=rates.get(form.personal or "", 0.0),
            step_decay=first.decay,
            weight_decay=first.weight_decay,
            lam=phase.terms["lam"] if form.common and form.personal else 0.0,
            l1=penalty if form.regularizer == "l1" else 0.0,
            l2=penalty if form.regularizer == "l2" else 0.0,
            prox=float(phase.terms["prox"]),
            batch=self.method.batch_size,
            epochs=phase.epochs,
            tolerance=self.method.tolerance,
            half_life=recency.half_life,
            floor=recency.floor,
        )

    def fit(
        self, broadcast: Broadcast, state: DeviceState, users: Ids, plan: list[Phase], wish: Wish
    ) -> Fitted:
        start = time.perf_counter()
        form, shared = self.form, broadcast.shared
        common = shared[form.common] if form.common else self.nothing
        store = state.rows[form.personal] if form.personal else self.no_rows
        personal, whole = form.personal is not None and wish.rows, wish.whole if form.common else None
        single = wish.single and whole is None
        sums = zeros_like(common) if whole is None else self.nothing
        total = Total({form.common: sums} if form.common else {})
        vectors, biases = state.lines[form.vector][users], state.lines[form.bias][users]
        room = int(self.sizes[users].sum()) if personal or single else 0
        out = Outcome(
            sums=sums,
            added=whole.added(form.common, len(users)) if whole and form.common else NOWHERE,
            losses=np.zeros(len(users), np.float32),
            finite=np.ones(len(users), np.bool_),
            kept_ptr=np.zeros(len(users) + 1 if room else 0, np.int64),
            kept_items=np.zeros(room, np.int32),
            kept_rows=np.empty((room if personal else 0, self.dim), np.float32),
            kept_moves=np.empty((room if single and len(common) else 0, self.dim), np.float32),
        )
        keys = [np.uint64(stream(self.setting.secret, n, broadcast.round)) for n in (NEGATIVES, SHUFFLE)]
        model = Model(common, self.untouched, vectors, biases)
        sent = train_additive(self.histories, users, *keys, model, kept_in(store), self._numbers(plan), out)
        total.clients = int(out.finite.sum())
        total.weight = float(total.clients)
        lines = {form.vector: vectors, form.bias: biases}
        items = Ragged(out.kept_ptr, out.kept_items[: out.kept_ptr[-1]]) if room else Ragged(*_NO_ITEMS)
        answer: Upload | Total = total
        if whole is not None:
            answer = whole.counted(np.ones(int(out.added.fits.sum()), np.float32))
        elif single:
            moves = {form.common: out.kept_moves[: len(items.items)]} if form.common else {}
            answer = Upload(items, moves, {}, np.ones(len(users), np.float32)).only(out.finite)
            answer = answer.moved() if self.setting.uploads.moved_rows else answer
        own = (
            {form.personal: Rows(items, out.kept_rows[: len(items.items)])}
            if personal and form.personal
            else {}
        )
        trained = time.perf_counter()
        part = RankingPart(users, lines, own)
        scores = None if wish.lines is None else self.score(shared, part, wish.lines)
        seconds = (trained - start, time.perf_counter() - trained)
        return Fitted(
            users, lines, out.losses, out.finite, answer, sent, own if wish.rows else None, scores, seconds,
            None if whole is None else out.added.fits,
        )  # fmt: skip

    def rebuilt(self, broadcast: Broadcast, state: DeviceState, users: Ids, own: bool) -> RankingPart:
        """A device ranks with its own vector, and its personal rows unless the common ones are asked for."""
        lines = {name: state.lines[name][users] for name in (self.form.vector, self.form.bias)}
        rows = {name: StoredRows(store, users) for name, store in state.rows.items()} if own else {}
        return RankingPart(users, lines, rows)

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32]) -> Array:
        form = self.form
        w, b = part.lines[form.vector], part.lines[form.bias]
        rows = np.zeros((*items.shape, self.dim), np.float32)
        if form.personal:
            rows = overlay(self.untouched, part.rows.get(form.personal), items)
        if form.common:
            rows += shared[form.common][np.maximum(items, 0)]
        return np.matmul(rows, w[:, :, None])[..., 0] + b[:, None]

    def score_all(self, shared: Arrays, part: RankingPart) -> Array:
        form = self.form
        table = shared[form.common] if form.common else np.float32(0)
        table = table + self.untouched if form.personal else table
        w = part.lines[form.vector]
        out: Array = w @ table.T + part.lines[form.bias][:, None]
        own = part.rows.get(form.personal) if form.personal else None
        if own is not None:
            items, values = fetched(own)
            add_personal(*items, values, self.untouched, w, out)
        return out


_NO_ITEMS = (np.zeros(1, np.int64), np.zeros(0, np.int32))
