"""Clients that are autoencoders (FedAE, FedDAE), in compiled code.

They answer like the plain engine, which is their slow twin, on the same samples.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import Fitted, RankingPart, Setting, Wish
from fedrec.clients.kernels.encoded_shard import Model, Outcome, codes_of, own_of_met, train_shard
from fedrec.clients.kernels.rank import NO_ROWS, score_all_rows, score_lines
from fedrec.clients.kernels.shards import SHARDS, shards
from fedrec.clients.state import DeviceState
from fedrec.clients.store import Rows
from fedrec.core.aligned import zeros_like
from fedrec.core.federated import Phase, weights_by
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import Encoded
from fedrec.core.messages import Broadcast
from fedrec.core.optim import SGD, Gradient
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.rng import stream
from fedrec.core.slots import Array, Arrays
from fedrec.core.upload import Total, Upload
from fedrec.data.negatives import NEGATIVES
from fedrec.data.samples import SUPPORT

EACH = 50  # samples' worth of work that every client costs, whatever its size
LARGEST = 1 << 28  # numbers that the single uploads of a block may hold


class EncodedClients:
    """Runs clients that encode what they met."""

    name = "fused"

    def __init__(self, form: Encoded, setting: Setting) -> None:
        assert isinstance(setting.method, GradientMethod)
        self.form, self.setting, self.method, self.data = form, setting, setting.method, setting.data
        self.histories = self.data.histories
        self.sizes = self.data.samples(np.arange(len(self.data)))
        self.hidden = setting.slots[form.encoder].shape[1]
        self.begun = (
            setting.slots[form.own[0]].starting(form.own[0], setting.seed)
            if form.own
            else np.zeros((0, 0), np.float32)
        )

    def blocks(self, users: Ids) -> list[Ids]:
        numbers = int(self.sizes[users].sum()) * (2 * self.hidden + 1)
        return shards(users, self.sizes[users] + EACH, max(SHARDS, 1 + numbers // LARGEST))

    def why_not(self, plan: list[Phase]) -> str | None:
        form = self.form
        if form.own and not self.setting.slots[form.own[0]].met:
            return f"its devices keep rows of '{form.own[0]}' that they never read"
        once = all(phase.epochs == 1 and phase.recency is None for phase in plan)
        if not once or [phase.part for phase in plan] != ["support", "all"] or plan[0].groups:
            return "its clients do not look at a half of their items, and then once at all samples"
        if self.sizes.max(initial=0) > self.method.batch_size:
            return "its clients do not take all their samples at once"
        shared = dict.fromkeys((form.encoder, form.decoder, form.appeal, form.offset), Gradient)
        own = dict.fromkeys(form.own or (), SGD)
        moved = {n: type(g.optimizer) for g in plan[1].groups for n in g.names}
        rates = {g.optimizer for g in plan[1].groups if isinstance(g.optimizer, SGD)}
        if plan[1].terms != {"items": float(self.data.n_items)}:
            return "its loss has other terms than the size of the catalogue"
        if moved not in ({**shared, **own}, shared, own) or not moved or len(rates) > 1:
            return "it trains other arrays, or in another way, than its kernel says"
        return None

    def _model(self, shared: Arrays, state: DeviceState, users: Ids, weights: Array) -> Model:
        """Arrays as compiled code takes them; the devices' own are copies."""
        form, met = self.form, self.data.trained.take(users)
        own, offsets, gates = self.begun, np.zeros((0, 0), np.float32), np.zeros(0, np.float32)
        if form.own:
            rows, offset, gate = form.own
            kept = state.rows[rows].get(users)
            own = np.empty((len(met.items), self.begun.shape[1]), np.float32)
            own_of_met(self.begun, *met, *kept.items, kept.values, own)
            offsets, gates = state.lines[offset][users], state.lines[gate][users]
        return Model(
            shared[form.encoder], shared[form.decoder], shared[form.appeal], shared[form.offset], met.indptr, met.items,
            own, offsets, gates, weights,
        )  # fmt: skip

    def fit(
        self, broadcast: Broadcast, state: DeviceState, users: Ids, plan: list[Phase], wish: Wish
    ) -> Fitted:
        start = time.perf_counter()
        form, uploads, clients = self.form, self.setting.uploads, len(users)
        weights = weights_by(uploads, self.sizes[users])
        model = self._model(broadcast.shared, state, users, weights)
        names = (form.encoder, form.decoder, form.appeal, form.offset)
        slot = self.setting.slots[form.code]
        begun = slot.freshly(form.code, self.setting.seed, broadcast.round)
        one_by_one, room = (clients, int(self.sizes[users].sum())) if wish.single else (0, 0)
        sums = [np.zeros_like(v[:0]) if wish.single else zeros_like(v) for v in model[:4]]
        out = Outcome(
            losses=np.zeros(clients, np.float32),
            finite=np.ones(clients, np.bool_),
            codes=np.repeat(begun[None], clients, axis=0),
            encoder=sums[0],
            decoder=sums[1],
            appeal=sums[2],
            offset=sums[3],
            ptr=np.zeros(clients + 1 if wish.single else 0, np.int64),
            items=np.empty(room, np.int32),
            encoder_rows=np.zeros((room, self.hidden), np.float32),
            decoder_rows=np.zeros((room, self.hidden), np.float32),
            appeals=np.zeros(room, np.float32),
            offsets=np.zeros((one_by_one, self.hidden), np.float32),
        )
        moved = [g.optimizer for g in plan[-1].groups]
        rate = next((m.lr for m in moved if isinstance(m, SGD)), 0.0)
        shares = any(isinstance(m, Gradient) for m in moved)
        negatives, support = (
            np.uint64(stream(self.setting.secret, n, broadcast.round)) for n in (NEGATIVES, SUPPORT)
        )
        sent = train_shard(self.histories, users, negatives, support, model, shares, rate, out)
        answer: Upload | Total
        if wish.single:
            last = out.ptr[-1]
            each = (out.encoder_rows[:last], out.decoder_rows[:last], out.appeals[:last])
            rows = dict(zip(names, each, strict=False))
            dense = {form.offset: out.offsets}
            answer = Upload(Ragged(out.ptr, out.items[:last]), rows, dense, weights).only(out.finite)
        else:
            answer = Total(dict(zip(names, sums, strict=True)), clients=int(out.finite.sum()))
            answer.weight = float(weights[out.finite].sum(dtype=np.float64))
        lines = {form.code: out.codes}
        kept: dict[str, Rows] = {}
        if form.own:
            lines |= {form.own[1]: model.own_offsets, form.own[2]: model.gates}
            kept = {form.own[0]: Rows(Ragged(model.met_ptr, model.met), model.own)}
        trained = time.perf_counter()
        part = RankingPart(users, lines, {})
        scores = None if wish.lines is None else self.score(broadcast.shared, part, wish.lines)
        return Fitted(
            users,
            lines,
            out.losses,
            out.finite,
            answer,
            sent,
            kept if wish.rows else None,
            scores,
            seconds=(trained - start, time.perf_counter() - trained),
        )

    def rebuilt(self, broadcast: Broadcast, state: DeviceState, users: Ids, own: bool) -> RankingPart:
        """Encoded again, from all that a device met."""
        model = self._model(broadcast.shared, state, users, np.zeros(0, np.float32))
        codes = np.empty((len(users), self.hidden), np.float32)
        codes_of(model, codes)
        lines = {n: state.lines[n][users] for n in (self.form.own or ())[1:]}
        return RankingPart(users, {**lines, self.form.code: codes}, {})

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32]) -> Array:
        out = np.empty(items.shape, np.float32)
        codes = part.lines[self.form.code]
        none = np.zeros(len(codes), np.float32)
        score_lines(shared[self.form.decoder], codes, none, *NO_ROWS, items, out)
        out += shared[self.form.appeal][np.maximum(items, 0)]
        return out

    def score_all(self, shared: Arrays, part: RankingPart) -> Array:
        codes, appeal = part.lines[self.form.code], shared[self.form.appeal]
        out = np.empty((len(codes), len(appeal)), np.float32)
        score_all_rows(shared[self.form.decoder], codes, np.zeros(len(codes), np.float32), *NO_ROWS, out)
        out += appeal
        return out
