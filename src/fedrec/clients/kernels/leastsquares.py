"""Clients that solve their vector in closed form (FedALS, FCF), in compiled code.

Everything is done in the basis of the eigenvectors of the Gramian, where what all clients share is a diagonal.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import Fitted, RankingPart, Setting, Wish
from fedrec.clients.gathering import Whole
from fedrec.clients.kernels.ages import ages_of
from fedrec.clients.kernels.asking import add_whole, ask
from fedrec.clients.kernels.conjugate import solve_block
from fedrec.clients.kernels.nextitem import NextItems
from fedrec.clients.kernels.shards import shards
from fedrec.clients.state import DeviceState
from fedrec.core.entropy import STEADY
from fedrec.core.factors import Factors
from fedrec.core.federated import Phase
from fedrec.core.kernel import Bounded, LeastSquares
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ids, run_ends
from fedrec.core.recency import aims
from fedrec.core.slots import Array, Arrays
from fedrec.core.sums import dot
from fedrec.core.upload import Total, Upload, summed

EACH = 10  # positives' worth of work that every client costs, whatever its size


@dataclass(frozen=True)
class Basis:
    """An item table seen from the eigenvectors of its Gramian, and the clients solved on it so far.

    A client's vector depends on the table and its positives alone. Without recency what ranks after a round is
    what the next round starts from: it is solved once.
    """

    items: Array
    rotated: Array
    vectors: Array
    values: Array
    prior: Array
    users: Array  # none where ages count
    solved: NDArray[np.bool_]


class LeastSquaresClients:
    """Runs clients that solve their vector; the interface is that of the plain engine."""

    name = "fused"

    def __init__(self, form: LeastSquares, setting: Setting) -> None:
        self.form, self.setting, self.data = form, setting, setting.data
        self.numbers = tuple(map(np.float32, (form.alpha, form.lam, form.scale)))
        self.prior = form.prior.astype(np.float64)
        self.sizes = np.diff(self.data.trained.indptr)
        self._lock = threading.Lock()
        self._basis: Basis | None = None
        aged = form.recency is not None or form.next_item is not None
        trained = self.data.trained
        self.ages = (
            ages_of(self.data.train, trained, self.data.n_items)
            if aged
            else np.zeros(len(trained.items), np.int32)
        )
        self.oldest = int(self.ages.max(initial=0))
        self.head = NextItems(form.next_item, trained, self.ages) if form.next_item else None

    def blocks(self, users: Ids) -> list[Ids]:
        return shards(users, self.sizes[users] + EACH)

    def why_not(self, plan: list[Phase]) -> str | None:
        head = self.form.next_item
        numbers = {"alpha": self.form.alpha, "lam": self.form.lam, "most": head.most if head else None}
        once = len(plan) == 1 and not plan[0].groups and plan[0].part == "history" and plan[0].epochs == 1
        if not once or any(plan[0].terms[n] != numbers.get(n) for n in plan[0].terms):
            return "its plan is not one look at the history with the numbers of its kernel"
        return None

    def fit(
        self, broadcast: Broadcast, state: DeviceState, users: Ids, plan: list[Phase], wish: Wish
    ) -> Fitted:
        start = time.perf_counter()
        shared = broadcast.shared
        w = self._solve(shared, users)
        finite = np.isfinite(w.sum(axis=1))
        loss, table = np.zeros(len(users), np.float32), shared[self.form.items]
        sent: Upload | Total
        fits = None
        context: Arrays = {}
        if self.form.bounded is not None:
            sent = self._bounded(self.form.bounded, shared, users[finite], w[finite])
            sent = sent if wish.single else summed(sent, self.setting.uploads.arrays)
        elif wish.whole is not None and self.head is None:
            sent, fits = self._whole(wish.whole, table, users, w, finite, loss)
        elif wish.single and self.head is None:
            sent = self._each(shared, users, w, finite, loss)
        else:
            sent, context = self._sum(shared, users, w, finite, loss)
            sent = self._each(shared, users, w, finite, loss) if wish.single else sent
        trained = time.perf_counter()
        part = RankingPart(users, {self.form.vector: w, **context}, {})
        scores = None if wish.lines is None else self.score(shared, part, wish.lines)
        seconds = (trained - start, time.perf_counter() - trained)
        count = int(self.sizes[users[finite if fits is None else fits]].sum())
        return Fitted(
            users, part.lines, loss, finite, sent, count, {} if wish.rows else None, scores, seconds, fits
        )

    def _sum(
        self, shared: Arrays, users: Ids, w: Array, finite: NDArray[np.bool_], loss: Array
    ) -> tuple[Total, Arrays]:
        """The uploads of some clients, added up as they are made, and their contexts; fills in the loss."""
        form, trained, table = self.form, self.data.trained, shared[self.form.items]
        kept = np.where(finite[:, None], w, np.float32(0))
        corrections = np.zeros_like(table)
        senders = np.zeros(len(table) if form.senders else 0, np.float32)
        _add_corrections(users, finite, *trained, table, w, self.numbers[0], corrections, senders, loss)
        sums = {form.corrections: corrections, form.outer: kept.T @ kept}
        if form.senders:
            sums[form.senders] = senders
        context = {}
        if self.head is not None:
            head = self.head.form
            lines = np.zeros((len(users), shared[head.table].shape[1]), np.float32)
            sums[head.contexts], sums[head.followers], lines[finite] = self.head.sums(table, users[finite])
            context = {head.context: lines}
        return Total(sums, float(finite.sum()), int(finite.sum())), context

    def _asked(
        self, table: Array, users: Ids, w: Array, finite: NDArray[np.bool_], loss: Array
    ) -> tuple[Ids, Array]:
        """α w·v_j − (1 + α) for each positive j, client by client, and where each begins; fills in the loss."""
        starts = run_ends(self.sizes[users] * finite)
        asked = np.empty(starts[-1], np.float32)
        ask(users, starts, *self.data.trained, table, w, self.numbers[0], asked, loss)
        return starts, asked

    def _whole(
        self, whole: Whole, table: Array, users: Ids, w: Array, finite: NDArray[np.bool_], loss: Array
    ) -> tuple[Total, NDArray[np.bool_]]:
        """The same uploads, added up in whole numbers as they are made; whose had room."""
        form, trained = self.form, self.data.trained
        added = whole.added(form.corrections, len(users))
        sums: Any = whole.total.sums
        senders = sums[form.senders] if form.senders else np.zeros(0, np.int64)
        starts, asked = self._asked(table, users, w, finite, loss)
        add_whole(users, finite, starts, *trained, asked, w, added, senders, sums[form.outer])
        return whole.counted(np.ones(int(added.fits.sum()), np.float32)), added.fits

    def _each(self, shared: Arrays, users: Ids, w: Array, finite: NDArray[np.bool_], loss: Array) -> Upload:
        """The same uploads one by one, for a channel that looks at them."""
        form = self.form
        _, asked = self._asked(shared[form.items], users, w, finite, loss)
        users, w = users[finite], w[finite]
        met = self.data.trained.take(users)
        each = np.repeat(w, np.diff(met.indptr), axis=0)
        rows = {form.corrections: asked[:, None] * each}
        if form.senders:
            rows[form.senders] = np.ones(len(met.items), np.float32)
        dense = {form.outer: w[:, :, None] * w[:, None]}
        if self.head is not None:
            head = self.head.form
            dense[head.contexts], rows[head.followers] = self.head.each(shared[form.items], users)
        return Upload(met, rows, dense, np.ones(len(users), np.float32))

    def _bounded(self, form: Bounded, shared: Arrays, users: Ids, w: Array) -> Upload:
        """What leaves clients whose uploads are clipped, one by one."""
        alpha, _, phase = shared[form.numbers]
        met = self.data.trained.take(users)
        sizes = np.diff(met.indptr)
        each = np.repeat(w, sizes, axis=0)
        asked = alpha * np.einsum("ij,ij->i", shared[self.form.items][met.items], each) - (1 + alpha)
        asked *= shared[form.omega][met.items] * phase
        rows = {
            self.form.corrections: asked[:, None] * each[:, : form.columns],
            form.counts: (1 - phase) * np.repeat(np.maximum(sizes, 1) ** -0.5, sizes).astype(np.float32),
        }
        dense = {
            self.form.outer: phase * w[:, :, None] * w[:, None, : form.columns],
            form.scale: np.full(len(users), phase, np.float32),
        }
        return Upload(met, rows, dense, np.ones(len(users), np.float32))

    def rebuilt(self, broadcast: Broadcast, state: DeviceState, users: Ids, own: bool) -> RankingPart:
        """What devices rank with: their vector, solved on the table as it is now, and their context."""
        shared = broadcast.shared
        lines = {self.form.vector: self._ranking(shared, users), **self._context(shared, users)}
        return RankingPart(users, lines, {})

    def _context(self, shared: Arrays, users: Ids) -> Arrays:
        if self.head is None:
            return {}
        return {self.head.form.context: self.head.last(shared[self.form.items], users)}

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32]) -> Array:
        lines = np.arange(len(part.users))
        return np.sum([factors.some(lines, items) for factors in self._factors(shared, part)], axis=0)

    def score_all(self, shared: Arrays, part: RankingPart) -> Array:
        lines = np.arange(len(part.users))
        return np.sum([factors.all(lines) for factors in self._factors(shared, part)], axis=0)

    def _factors(self, shared: Arrays, part: RankingPart) -> list[Factors]:
        """What is added up to a score."""
        vector = Factors(part.lines[self.form.vector], shared[self.form.items])
        if self.head is None:
            return [vector]
        head = self.head.form
        return [vector, Factors(shared[head.weight] * part.lines[head.context], shared[head.table])]

    def _solve(self, shared: Arrays, users: Ids) -> Array:
        """Vectors with all positives alike: what trains, and without recency what ranks."""
        basis, alike = self._at(shared), np.ones(1, np.float32)
        if self.form.recency is not None:
            return self._solved(basis, users, alike, shared)
        left = users[~basis.solved[users]]
        if len(left):
            basis.users[left] = self._solved(basis, left, alike, shared)
            basis.solved[left] = True
        return basis.users[users]

    def _ranking(self, shared: Arrays, users: Ids) -> Array:
        """Vectors in which newer positives aim higher, where the form says so."""
        if self.form.recency is None:
            return self._solve(shared, users)
        half_life, floor = map(float, shared[self.form.recency])
        return self._solved(self._at(shared), users, aims(half_life, floor, self.oldest), shared)

    def _solved(self, basis: Basis, users: Ids, by_age: Array, shared: Arrays) -> Array:
        numbers = self.numbers
        if self.form.bounded is not None:  # the server has them from what was released
            numbers = (*shared[self.form.bounded.numbers][:2], numbers[2])
        out = np.empty((len(users), len(basis.values)), np.float32)
        public = (basis.rotated, basis.values, basis.prior, basis.vectors)
        solve_block(users, *self.data.trained, self.ages, by_age, *public, *numbers, out)
        return out

    def _at(self, shared: Arrays) -> Basis:
        items, gram = shared[self.form.items], shared[self.form.gram]
        with self._lock:
            if self._basis is None or self._basis.items is not items:
                values, vectors = np.linalg.eigh(gram.astype(np.float64))
                turn = vectors.astype(np.float32)
                clients = len(self.data) if self.form.recency is None else 0
                self._basis = Basis(
                    items=items,
                    rotated=items @ turn,
                    vectors=turn,
                    values=np.maximum(values, 0).astype(np.float32),
                    prior=(self.prior @ vectors).astype(np.float32),
                    users=np.zeros((clients, items.shape[1]), np.float32),
                    solved=np.zeros(clients, np.bool_),
                )
            return self._basis


@nb.njit(cache=True, nogil=True, fastmath=STEADY)
def _add_corrections(
    users: Any, finite: Any, indptr: Any, items: Any, table: Any, w: Any, alpha: Any,
    sums: Any, senders: Any, loss: Any,
) -> None:  # fmt: skip
    """Add (α w·v_j − (1 + α)) w to row j of the sums for each positive j of each client."""
    one = np.float32(1)
    d = w.shape[1]
    for c in range(len(users)):
        if not finite[c]:
            continue
        left = np.float32(0)
        for j in items[indptr[users[c]] : indptr[users[c] + 1]]:
            score = dot(table[j], w[c])
            ask = alpha * score - (one + alpha)
            for k in range(d):
                sums[j, k] += ask * w[c, k]
            if len(senders):
                senders[j] += one
            left += one - score
        loss[c] = (one + alpha) * left
