"""Clients of a method whose whole model the server makes (MetaMF), in compiled code.

They answer like the plain engine, which is their slow twin, on the same samples. A client computes one gradient; the
predictor is a small network on rows (``core.network``).
"""

from __future__ import annotations

import time
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import Fitted, RankingPart, Setting, Wish
from fedrec.clients.kernels.distinct import draw_rows, make_drawn
from fedrec.clients.kernels.shards import shards
from fedrec.clients.state import DeviceState
from fedrec.core.compiled import part
from fedrec.core.entropy import STEADY, F
from fedrec.core.federated import Phase, weights_by
from fedrec.core.kernel import Generated
from fedrec.core.messages import Broadcast
from fedrec.core.network import TILE, Net, gradient, make_memory, make_net, places, prepare, scores
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.rng import stream
from fedrec.core.slots import Array, Arrays
from fedrec.core.sums import total_of
from fedrec.core.upload import Upload, summed
from fedrec.data.clients import Histories
from fedrec.data.negatives import NEGATIVES

EACH = 50  # samples' worth of work that every client costs, whatever its size
# The same, of a block at the most. They are few, as the server's part of each reads its whole network, and an even
# number, which two threads share.
BLOCK = 1 << 19
ALL = 1 << 16  # rows made at once when the whole catalogue is ranked


class GeneratedClients:
    """Runs clients that are given their models."""

    name = "fused"

    def __init__(self, form: Generated, setting: Setting) -> None:
        self.form, self.setting, self.data = form, setting, setting.data
        self.histories = self.data.histories
        self.sizes = self.data.samples(np.arange(len(self.data)))
        service = setting.method.service(setting.catalog, setting.seed)
        assert service is not None
        dim, hidden = service.given[form.weights[0]].shape
        self.net = make_net(0, dim, 0, (hidden,))
        found = places(self.net)
        self.places = {form.weights[0]: found["weights", 0].T, form.weights[1]: found["weights", 1]}
        self.places |= {form.biases[0]: found["biases", 0], form.biases[1]: found["biases", 1][0]}

    def blocks(self, users: Ids) -> list[Ids]:
        work = self.sizes[users] + EACH
        return shards(users, work, 2 * max(1, -(-int(work.sum()) // (2 * BLOCK))))

    def why_not(self, plan: list[Phase]) -> str | None:
        once = len(plan) == 1 and not plan[0].groups and plan[0].part == "all" and plan[0].epochs == 1
        return None if once else "its plan is not one look at all samples"

    def _theta(self, given: Any) -> Array:
        """The predictors, a line for each client."""
        theta = np.zeros((len(given[self.form.right]), self.net.size), np.float32)
        for name, at in self.places.items():
            theta[:, at] = given[name]
        return theta

    def fit(
        self, broadcast: Broadcast, state: DeviceState, users: Ids, plan: list[Phase], wish: Wish
    ) -> Fitted:
        start = time.perf_counter()
        form, given, clients = self.form, broadcast.given(users), len(users)
        room, key = (
            int(self.sizes[users].sum()),
            np.uint64(stream(self.setting.secret, NEGATIVES, broadcast.round)),
        )
        indptr, drawn = np.zeros(clients + 1, np.int64), np.empty(room, np.int32)
        labels, shares = np.empty(room, np.float32), np.empty(room, np.float32)
        _draw(self.histories, users, key, indptr, drawn, labels, shares)
        items = Ragged(indptr, drawn[: indptr[-1]])
        left: Any = given[form.left]
        rows = np.empty((indptr[-1], self.net.row), np.float32)
        theta, loss, finite = self._theta(given), np.zeros(clients, np.float32), np.ones(clients, np.bool_)
        model = left.rows(items), np.ascontiguousarray(given[form.right]), theta
        _gradients(self.net, indptr, *model, labels, shares, rows, loss, finite)
        dense = {name: theta[:, at] for name, at in self.places.items()}
        uploads = self.setting.uploads
        weights = weights_by(uploads, self.sizes[users])
        upload = Upload(items, {form.items: rows}, dense, weights).only(finite)
        trained = time.perf_counter()
        part = RankingPart(users, {}, {}, given)
        asked = None if wish.lines is None else self.score(broadcast.shared, part, wish.lines)
        return Fitted(
            users,
            {},
            loss,
            finite,
            sent=upload if wish.single else summed(upload, uploads.arrays),
            rows_sent=len(upload.items.items),
            rows={} if wish.rows else None,
            scores=asked,
            seconds=(trained - start, time.perf_counter() - trained),
        )

    def rebuilt(self, broadcast: Broadcast, state: DeviceState, users: Ids, own: bool) -> RankingPart:
        return RankingPart(users, {}, {}, broadcast.given(users))

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32]) -> Array:
        left: Any = part.given[self.form.left]
        asked = Ragged(np.arange(len(items) + 1) * items.shape[1], np.maximum(items, 0).reshape(-1))
        out = np.empty(items.shape, np.float32)
        _score(
            self.net,
            left.rows(asked),
            np.ascontiguousarray(part.given[self.form.right]),
            self._theta(part.given),
            out,
        )
        return out

    def score_all(self, shared: Arrays, part: RankingPart) -> Array:
        clients, n_items = len(part.users), self.data.n_items
        out = np.empty((clients, n_items), np.float32)
        step = max(1, ALL // max(clients, 1))
        for start in range(0, n_items, step):
            tile = np.arange(start, min(start + step, n_items), dtype=np.int32)
            out[:, tile] = self.score(shared, part, np.tile(tile, (clients, 1)))
        return out


@nb.njit(cache=True, nogil=True)
def _draw(
    histories: Histories, users: Any, negatives: Any, indptr: Any, items: Any, labels: Any, shares: Any
) -> None:
    """Rows of each client; the mean label of a row's samples, and their share of the client's."""
    drawn = make_drawn(histories, users)
    for c in range(len(users)):
        touched, n = draw_rows(histories, users[c], negatives, drawn)
        start = indptr[c]
        indptr[c + 1] = start + len(touched)
        for i in range(len(touched)):
            items[start + i] = touched[i]
            labels[start + i] = drawn.positive[i] / drawn.met[i]
            shares[start + i] = drawn.met[i] / F(n)


@part(fastmath=STEADY, error_model="numpy")
def _rows(left: Any, right: Any, start: int, count: int, e: Any) -> None:
    """Rows of a client's table from its two factors."""
    for k in range(count):
        for j in range(right.shape[1]):
            e[k, j] = F(0)
        for r in range(right.shape[0]):
            factor = left[start + k, r]
            for j in range(right.shape[1]):
                e[k, j] += factor * right[r, j]


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def _gradients(
    net: Net, indptr: Any, left: Any, right: Any, theta: Any, labels: Any, shares: Any, rows: Any, loss: Any,
    finite: Any,
) -> None:  # fmt: skip
    """Of each client's mean loss: in its rows, and over its predictor in ``theta``."""
    most = np.int64(1)
    for c in range(len(theta)):
        most = max(most, indptr[c + 1] - indptr[c])
    memory, g = make_memory(net, most), np.zeros(net.size, F)
    y, weights = np.zeros(most + TILE, F), np.zeros(most + TILE, F)
    lines, f = np.zeros((most + TILE, net.row_stride), F), np.zeros(0, F)
    e = lines.reshape(-1)
    no, yes = (
        net.vector > 0,
        net.row > 0,
    )  # not as literals, for which the network would be compiled once more
    for c in range(len(theta)):
        start, end = indptr[c], indptr[c + 1]
        _rows(left, right[c], start, end - start, lines)
        for k in range(end - start):
            y[k], weights[k] = labels[start + k], shares[start + k]
        loss[c] = gradient(
            net, theta[c], memory, e, f, y[: end - start], weights[: end - start], no, yes, yes, g
        )
        check = loss[c]
        for k in range(end - start):
            for j in range(net.row):
                rows[start + k, j] = lines[k, j]
            check += total_of(lines[k, : net.row])
        for i in range(net.size):
            theta[c, i] = g[i]
        check += total_of(g)
        # Not np.isfinite: that is x − x == 0, which fastmath may take for granted.
        finite[c] = abs(check) < F(np.inf)


@nb.njit(cache=True, nogil=True)
def _score(net: Net, left: Any, right: Any, theta: Any, out: Any) -> None:
    many = out.shape[1]
    memory = make_memory(net, np.int64(many))
    lines, f = np.zeros((many + TILE, net.row_stride), F), np.zeros(0, F)
    e = lines.reshape(-1)
    for c in range(len(out)):
        _rows(left, right[c], c * many, many, lines)
        prepare(net, theta[c], memory)
        scores(net, theta[c], memory, e, f, many)
        for k in range(many):
            out[c, k] = memory.logits[k]
