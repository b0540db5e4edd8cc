"""The compiled engine of FedALS and FCF: the same clients as in the plain engine, solved by BLAS and LAPACK.

Everything is done in the basis of the eigenvectors of the Gramian, where what all clients share is a
diagonal: a client with fewer positives than dimensions then needs a system of its positives only
(Woodbury), the others one of the dimensions, both by Cholesky. Conjugate gradients were measured
too: they need some 20 steps to agree with the plain engine and are then slower.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.federated import Federated, Total, View
from fedrec.core.slots import Array, Catalog, Slot
from fedrec.data.split import Ragged, Split
from fedrec.engine.interface import ROWS, Ask, Fitted, Held
from fedrec.engine.state import State
from fedrec.engine.upload import Upload, empty_total
from fedrec.evaluate.factors import FASTMATH, Factors
from fedrec.methods.fcf import FCF
from fedrec.methods.fedals import FedALS

SHARDS = 16  # fixed: sums are made shard by shard, so results do not depend on the number of threads


@dataclass(frozen=True)
class Basis:
    """An item table seen from the eigenvectors of its Gramian, and the clients solved on it so far.

    A client's vector depends on the table and its positives alone, so that what ranks after a round is
    what the next round starts from: it is solved once. (A simulator's memory, not the server's.)
    """

    items: Array
    rotated: Array
    vectors: Array
    values: Array
    prior: Array
    users: Array
    solved: NDArray[np.bool_]


def why_not(method: Federated, local: bool) -> str | None:
    """Why this engine does not run a method; None where it does."""
    if type(method) not in (FedALS, FCF):  # a subclass may change the mathematics
        return f"{type(method).__name__} is a method of its own"
    return "without aggregation every client keeps its own table" if local else None


class ALS:
    """Runs clients that solve their vector; the interface is that of the plain engine."""

    name = "fused"

    def __init__(self, method: FedALS | FCF, split: Split, seed: int) -> None:
        self.method: Federated = method
        self.split, self.seed = split, seed
        self.alpha, self.lam, self.scale = map(np.float32, (*method.numbers, method.scale))
        self.prior = method.prior().astype(np.float64)
        catalog = Catalog(split.n_users, split.n_items)
        self.slots: dict[str, Slot] = method.slots(catalog)
        self.uploads: dict[str, Slot] = method.uploads(catalog)
        self.sizes = np.diff(split.trained.indptr)
        self._lock = threading.Lock()
        self._basis: Basis | None = None

    def blocks(self, users: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Runs of users with about the same work each."""
        work = np.cumsum(np.minimum(self.sizes[users], len(self.prior)) + 10)
        cuts = np.searchsorted(work, work[-1] * np.arange(1, SHARDS) / SHARDS)
        return [part for part in np.split(users, cuts) if len(part)]

    def fit(self, state: State, round: int, users: NDArray[np.int64], ask: Ask = ROWS) -> Fitted:
        start = time.perf_counter()
        w = self._solve(state, users)
        finite = np.isfinite(w.sum(axis=1))
        loss = np.zeros(len(users), np.float32)
        total = self._sum(state, users, w, finite, loss)
        sent = self._each(state, users[finite], w[finite]) if ask.single else total
        trained = time.perf_counter()
        held = Held(users, {"user": w}, {})
        scores = None if ask.lines is None else self.score(state, held, ask.lines)
        seconds = (trained - start, time.perf_counter() - trained)
        count = int(self.sizes[users[finite]].sum())
        return Fitted(
            users, held.private, loss, finite, sent, count, {} if ask.rows else None, scores, seconds
        )

    def _sum(
        self, state: State, users: NDArray[np.int64], w: Array, finite: NDArray[np.bool_], loss: Array
    ) -> Total:
        """The uploads of some clients, added up as they are made; fills in the loss."""
        total = empty_total(self.uploads)
        total.clients = int(finite.sum())
        total.weight = float(total.clients)
        kept = np.where(finite[:, None], w, np.float32(0))
        np.matmul(kept.T, kept, out=total.sums["outer"])
        sums, counts = total.sums["corrections"], total.counts["corrections"]
        trained, table = self.split.trained, state.shared["items"]
        _add_corrections(users, finite, *trained, table, w, self.alpha, sums, counts, loss)
        return total

    def _each(self, state: State, users: NDArray[np.int64], w: Array) -> Upload:
        """The same uploads one by one, for a channel that looks at them."""
        trained, sizes = self.split.trained, self.sizes[users]
        items = np.concatenate([trained.items[:0], *(trained.of(u) for u in users)])
        held = Ragged(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), items)
        each = np.repeat(w, sizes, axis=0)
        asked = self.alpha * (state.shared["items"][items] * each).sum(axis=1) - (1 + self.alpha)
        rows, outer = asked[:, None] * each, w[:, :, None] * w[:, None]
        return Upload(held, {"corrections": rows}, {"outer": outer}, np.ones(len(users), np.float32))

    def held(self, state: State, round: int, users: NDArray[np.int64], view: View) -> Held:
        """What devices rank with: their vector, solved on the table of this state."""
        return Held(users, {"user": self._solve(state, users)}, {})

    def score(self, state: State, held: Held, items: NDArray[np.int32]) -> Array:
        return self._factors(state, held).some(np.arange(len(held.users)), items)

    def score_all(self, state: State, held: Held) -> Array:
        return self._factors(state, held).all(np.arange(len(held.users)))

    def _factors(self, state: State, held: Held) -> Factors:
        return Factors(held.private["user"], state.shared["items"])

    def _solve(self, state: State, users: NDArray[np.int64]) -> Array:
        basis = self._at(state)
        left = users[~basis.solved[users]]
        if len(left):
            out = np.empty((len(left), len(basis.values)), np.float32)
            numbers = (self.alpha, self.lam, self.scale)
            _solve_block(left, *self.split.trained, basis.rotated, basis.values, basis.prior, *numbers, out)
            basis.users[left] = out @ basis.vectors.T
            basis.solved[left] = True
        return basis.users[users]

    def _at(self, state: State) -> Basis:
        items, gram = state.shared["items"], state.shared["gram"]
        with self._lock:
            if self._basis is None or self._basis.items is not items:
                values, vectors = np.linalg.eigh(gram.astype(np.float64))
                turn = vectors.astype(np.float32)
                n_users = self.split.n_users
                self._basis = Basis(
                    items=items,
                    rotated=items @ turn,
                    vectors=turn,
                    values=np.maximum(values, 0).astype(np.float32),
                    prior=(self.prior @ vectors).astype(np.float32),
                    users=np.zeros((n_users, items.shape[1]), np.float32),
                    solved=np.zeros(n_users, np.bool_),
                )
            return self._basis


@nb.njit(cache=True, nogil=True, fastmath=FASTMATH)
def _solve_block(
    users: Any, indptr: Any, items: Any, rotated: Any, values: Any, prior: Any,
    alpha: Any, lam: Any, scale: Any, out: Any,
) -> None:  # fmt: skip
    """(diag(s + λ) + α XᵀX) w = (1 + α) Σ x + λ w₀ for each client, X its positives' rotated rows."""
    one = np.float32(1)
    for c in range(len(users)):
        mine = items[indptr[users[c]] : indptr[users[c] + 1]]
        n = len(mine)
        d = len(values)
        x = np.empty((n, d), np.float32)
        for r in range(n):
            x[r] = rotated[mine[r]]
        mild = lam * np.float32(max(n, 1)) ** scale
        inverse = one / (values + mild)
        if n < d:
            # w = z + D⁻¹Xᵀ(I + αXD⁻¹Xᵀ)⁻¹((1 + α)1 − αXz), z the solution without positives
            z = mild * inverse * prior
            scaled = x * inverse
            k = alpha * np.dot(scaled, x.T)
            y = (one + alpha) - alpha * np.dot(x, z)
            for r in range(n):
                k[r, r] += one
            _substitute(np.linalg.cholesky(k), y)
            out[c] = z + np.dot(y, scaled)
        else:
            a = alpha * np.dot(x.T, x)
            b = mild * prior
            for r in range(n):
                b += (one + alpha) * x[r]
            for i in range(d):
                a[i, i] += values[i] + mild
            _substitute(np.linalg.cholesky(a), b)
            out[c] = b


@nb.njit(cache=True, nogil=True, fastmath=FASTMATH)
def _substitute(lower: Any, b: Any) -> None:
    """Solve L Lᵀ x = b in place."""
    d = len(b)
    for i in range(d):
        total = np.float32(0)
        for j in range(i):
            total += lower[i, j] * b[j]
        b[i] = (b[i] - total) / lower[i, i]
    for i in range(d - 1, -1, -1):
        b[i] /= lower[i, i]
        for j in range(i):
            b[j] -= b[i] * lower[i, j]


@nb.njit(cache=True, nogil=True, fastmath=FASTMATH)
def _add_corrections(
    users: Any, finite: Any, indptr: Any, items: Any, table: Any, w: Any, alpha: Any,
    sums: Any, counts: Any, loss: Any,
) -> None:  # fmt: skip
    """Add (α w·v_j − (1 + α)) w to row j of the sums for each positive j of each client."""
    one = np.float32(1)
    d = w.shape[1]
    for c in range(len(users)):
        if not finite[c]:
            continue
        left = np.float32(0)
        for j in items[indptr[users[c]] : indptr[users[c] + 1]]:
            score = np.float32(0)
            for k in range(d):
                score += table[j, k] * w[c, k]
            ask = alpha * score - (one + alpha)
            for k in range(d):
                sums[j, k] += ask * w[c, k]
            counts[j] += one
            left += one - score
        loss[c] = (one + alpha) * left
