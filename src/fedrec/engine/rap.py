"""The compiled engine of FedRAP: the same clients as in the plain engine, on the same samples."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.federated import Federated, Total, View
from fedrec.core.rng import stream
from fedrec.core.slots import Array, Catalog, Slot
from fedrec.data.negatives import NEGATIVES, SHUFFLE
from fedrec.data.split import Ragged, Split
from fedrec.engine.fused.additive import Numbers, add_personal, train_additive
from fedrec.engine.interface import ROWS, Ask, Fitted, Held
from fedrec.engine.samples import sample_counts
from fedrec.engine.state import State, starting
from fedrec.engine.store import Kept, Own, Rows, RowStore, overlay
from fedrec.engine.upload import Upload, empty_total
from fedrec.methods.fedrap import FedRAP

SHARDS = 16  # fixed: sums are made shard by shard, so results do not depend on the number of threads


def why_not(method: Federated, local: bool) -> str | None:
    """Why this engine does not run a method; None where it does."""
    if type(method) is not FedRAP:
        return f"{method.label} is not FedRAP"
    if local:
        return "without aggregation every client keeps its own table"
    return "the nuclear norm has no kernel" if method.regularizer == "nuclear" else None


class Rap:
    """Runs FedRAP clients; the interface is that of the plain engine."""

    name = "fused"

    def __init__(self, method: FedRAP, split: Split, seed: int) -> None:
        self.method: Federated = method
        self.rap, self.split, self.seed = method, split, seed
        self.catalog = Catalog(split.n_users, split.n_items)
        self.slots: dict[str, Slot] = method.slots(self.catalog)
        self.uploads: dict[str, Slot] = method.uploads(self.catalog)
        self.sizes = sample_counts(split)
        self.nothing = np.zeros((0, method.dim), np.float32)
        self.no_rows = RowStore((method.dim,))
        slot = self.slots.get("personal")
        self.untouched = self.nothing if slot is None else starting("personal", slot, seed)

    def blocks(self, users: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Runs of users with about the same work each."""
        work = np.cumsum(self.sizes[users] + 50)  # every client costs a little, whatever its size
        cuts = np.searchsorted(work, work[-1] * np.arange(1, SHARDS) / SHARDS)
        return [part for part in np.split(users, cuts) if len(part)]

    def _numbers(self, round: int) -> Numbers:
        """What the plan of a round says, as numbers."""
        (phase,) = self.rap.plan(self.catalog, round)
        rates: dict[str, Any] = {name: g.optimizer for g in phase.groups for name in g.names}
        both, penalty = self.rap.parts == "both", 0.0 if self.rap.prox > 0 else phase.terms["mu"]
        return Numbers(
            lr_vector=rates["user"].lr,
            lr_common=rates["common"].lr if "common" in rates else 0.0,
            lr_personal=rates["personal"].lr if "personal" in rates else 0.0,
            step_decay=self.rap.step_decay,
            weight_decay=self.rap.weight_decay,
            lam=phase.terms["lam"] if both else 0.0,
            l1=penalty if self.rap.regularizer == "l1" else 0.0,
            l2=penalty if self.rap.regularizer == "l2" else 0.0,
            prox=float(phase.terms["prox"]),
            batch=self.rap.batch_size,
            epochs=phase.epochs,
            tolerance=self.rap.tolerance,
        )

    def fit(self, state: State, round: int, users: NDArray[np.int64], ask: Ask = ROWS) -> Fitted:
        start = time.perf_counter()
        common = state.shared.get("common", self.nothing)
        store = state.rows.get("personal", self.no_rows)
        personal = bool(len(self.untouched)) and ask.rows
        total = empty_total(self.uploads)
        sums = total.sums.get("common", self.nothing)
        counts = total.counts.get("common", np.zeros(0, np.float32))
        vectors, biases = state.private["user"][users], state.private["bias"][users]
        losses, finite = np.zeros(len(users), np.float32), np.ones(len(users), np.bool_)
        room = int(self.sizes[users].sum()) if personal or ask.single else 0
        kept_ptr = np.zeros(len(users) + 1 if room else 0, np.int64)
        kept_items = np.zeros(room, np.int32)
        kept_rows = np.empty((room if personal else 0, self.rap.dim), np.float32)
        kept_moves = np.empty((room if ask.single and len(common) else 0, self.rap.dim), np.float32)
        keys = (np.uint64(stream(self.seed, name, round)) for name in (NEGATIVES, SHUFFLE))
        sent = train_additive(
            *keys, self.split.keys[users], users, *self.split.train, *self.split.forbidden, self.split.n_items,
            self.split.protocol.negatives_per_positive, common, self.untouched, *store.index, store.pool.chunks,
            store.pool.bits, vectors, biases, self._numbers(round), sums, counts, losses, finite, kept_ptr,
            kept_items, kept_rows, kept_moves,
        )  # fmt: skip
        total.clients = int(finite.sum())
        total.weight = float(total.clients)
        private = {"user": vectors, "bias": biases}
        held = Ragged(kept_ptr, kept_items[: kept_ptr[-1]]) if room else None
        upload: Upload | Total = total
        if ask.single:
            assert held is not None
            moves = {"common": kept_moves[: len(held.items)]} if len(common) else {}
            upload = Upload(held, moves, {}, np.ones(len(users), np.float32)).only(finite)
            upload = upload.moved() if self.method.sparse else upload
        own = {"personal": Rows(held, kept_rows[: len(held.items)])} if personal and held else {}
        trained = time.perf_counter()
        scores = None if ask.lines is None else self.score(state, Held(users, private, own), ask.lines)
        seconds = (trained - start, time.perf_counter() - trained)
        return Fitted(
            users, private, losses, finite, upload, sent, own if ask.rows else None, scores, seconds
        )

    def held(self, state: State, round: int, users: NDArray[np.int64], view: View) -> Held:
        """A device ranks with its own vector, and its personal rows unless the common ones are asked for."""
        private = {name: state.private[name][users] for name in ("user", "bias")}
        own = {name: Kept(store, users) for name, store in state.rows.items()} if view != "global" else {}
        return Held(users, private, own)

    def score(self, state: State, held: Held, items: NDArray[np.int32]) -> Array:
        w, b = held.private["user"], held.private["bias"]
        rows = np.zeros((*items.shape, self.rap.dim), np.float32)
        if len(self.untouched):
            rows = overlay(self.untouched, held.rows.get("personal"), items)
        if "common" in state.shared:
            rows += state.shared["common"][np.maximum(items, 0)]
        return np.matmul(rows, w[:, :, None])[..., 0] + b[:, None]

    def score_all(self, state: State, held: Held) -> Array:
        table = state.shared.get("common", np.float32(0))
        table = table + self.untouched if len(self.untouched) else table
        w = held.private["user"]
        out: Array = w @ table.T + held.private["bias"][:, None]
        own: Own | None = held.rows.get("personal")
        if own is not None:
            own = own.store.get(own.users) if isinstance(own, Kept) else own
            add_personal(*own.held, own.values, self.untouched, w, out)
        return out
