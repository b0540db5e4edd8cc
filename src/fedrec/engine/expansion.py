"""FedPerGNN's graph expansion: a third party matches salted hashes and links users who share some.

It sees hashes and user vectors; not items, not who is who, not the server's model. The salt is known to
clients alone, so that it cannot try out the items of the catalogue.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec.core.gradient import Phase
from fedrec.core.rng import client_key, generator, stream
from fedrec.core.slots import Array
from fedrec.data.split import Ragged, Split
from fedrec.engine.plain import Plain
from fedrec.engine.samples import Samples, draw_samples
from fedrec.engine.state import State
from fedrec.engine.upload import Upload
from fedrec.methods.fedpergnn import FedPerGNN

SALT, MATCH, NOISE = "salt", "match", "fedpergnn"
BLOCK = 256  # users matched at a time


@nb.njit(cache=True)
def _hashes(salt: Any, items: Any) -> Any:
    out = np.empty(len(items), np.uint64)
    for k in range(len(items)):
        out[k] = client_key(salt, np.uint64(items[k]))
    return out


def neighbours(split: Split, seed: int, most: int) -> Ragged:
    """For each client the others that share most hashes with it, at most so many."""
    own = split.trained
    hashed = _hashes(np.uint64(stream(seed, SALT)), own.items)  # on the devices
    _, code = np.unique(hashed, return_inverse=True)  # from here on at the third party
    x = sparse.csr_matrix((np.ones(len(code), np.int32), code, own.indptr))
    turned, order = x.T.tocsr(), generator(seed, MATCH).permutation(split.n_users)
    found: list[NDArray[np.int32]] = []
    for start in range(0, split.n_users, BLOCK):
        shared = (x[start : start + BLOCK] @ turned).tocsr()
        for row in range(shared.shape[0]):
            run = slice(shared.indptr[row], shared.indptr[row + 1])
            others, counts = shared.indices[run], shared.data[run].astype(np.int64)
            rank = counts * split.n_users + order[others]  # equal counts in random order
            rank[others == start + row] = -1
            best = np.argsort(-rank)[: min(most, len(rank) - 1)]
            found.append(others[best].astype(np.int32))
    indptr = np.concatenate([[0], np.cumsum([len(part) for part in found])]).astype(np.int64)
    return Ragged(indptr, np.concatenate(found))


class PerGNN(Plain):
    """The plain engine, with a third party that widens the clients' graphs and with what hides uploads."""

    def __init__(self, method: FedPerGNN, split: Split, seed: int, local: bool = False) -> None:
        super().__init__(method, split, seed, local)
        self.gnn = method
        most = 0 if local else method.neighbours  # who learns alone has no neighbours
        self.near = neighbours(split, seed, most)
        self.most = max(1, most)

    def _given(self, state: State, samples: Samples) -> dict[str, Array]:
        """Neighbours' vectors as they are before the round, and which own items each of them met."""
        users = samples.users
        nearby = np.zeros((len(users), self.most, self.gnn.dim), np.float32)
        links = np.zeros((*samples.touched.shape, self.most), np.float32)
        for c, u in enumerate(users):
            near = self.near.of(u)
            nearby[c, : len(near)] = state.private["user"][near]
        _link(
            users, *self.near, *self.split.trained, self.split.n_items, samples.touched, samples.rows, links
        )
        return {"nearby": nearby, "links": links}

    def _leaving(
        self, upload: Upload, round: int, users: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> Upload:
        """Scale to the gradient of the summed loss, make up pseudo items, clip, add noise."""
        scale = counts.astype(np.float32)
        dense = {n: v * scale.reshape(-1, *[1] * (v.ndim - 1)) for n, v in upload.dense.items()}
        items, rows = [], []
        for c, u in enumerate(users):
            rng = generator(self.seed, NOISE, round, int(self.split.keys[u]))
            run = slice(upload.held.indptr[c], upload.held.indptr[c + 1])
            met, real = upload.held.items[run], upload.rows["items"][run] * scale[c]
            chosen, made = self.gnn.make_up(real, met, self.split.n_items, rng)
            order = np.argsort(np.concatenate([met, chosen]), kind="stable")
            items.append(np.concatenate([met, chosen])[order])
            rows.append(self.gnn.protect(np.concatenate([real, made])[order], rng))
            for name in dense:
                dense[name][c] = self.gnn.protect(dense[name][c], rng)
        indptr = np.concatenate([[0], np.cumsum([len(part) for part in items])]).astype(np.int64)
        none = np.zeros((0, self.gnn.dim), np.float32)
        held = Ragged(indptr, np.concatenate([upload.held.items[:0], *items]))
        return Upload(held, {"items": np.concatenate([none, *rows])}, dense, upload.weights)

    def _reconstruct(self, state: State, round: int, users: NDArray[np.int64], own: Any) -> dict[str, Array]:
        """The layer once more, on the items as they are now."""
        plan = [Phase([])]
        samples = draw_samples(self.split, self.seed, round, users, plan)
        _, after, _, _ = self._train(state, round, samples, plan, own)
        return {"vector": after["vector"]}


@nb.njit(cache=True, nogil=True)
def _link(
    users: Any, near_ptr: Any, near: Any, indptr: Any, items: Any, n_items: int, touched: Any, rows: Any, out: Any
) -> None:  # fmt: skip
    """out[c, r, k] = 1 where neighbour k of client c trained on r-th touched item, and so did the client."""
    place = np.full(n_items, -1, np.int32)
    mine = np.full(n_items, -1, np.int32)
    for c in range(len(users)):
        u = users[c]
        for i in items[indptr[u] : indptr[u + 1]]:
            mine[i] = c
        for r in range(rows[c]):
            i = touched[c, r]
            place[i] = r if mine[i] == c else -1
        for k in range(near_ptr[u + 1] - near_ptr[u]):
            other = near[near_ptr[u] + k]
            for i in items[indptr[other] : indptr[other + 1]]:
                if mine[i] == c and place[i] >= 0:
                    out[c, place[i], k] = 1
