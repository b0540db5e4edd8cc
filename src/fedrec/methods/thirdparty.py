"""FedPerGNN's graph expansion: a third party matches salted hashes and links users who share some.

It sees hashes and user vectors; not items, not who is who, not the server's model. The salt is known to
clients alone, so that it cannot try out the items of the catalogue. Where a simulation has one server, it plays
this part as well.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedrec.core.federated import Introduced, Pull, Service
from fedrec.core.ragged import Ids, Ragged, run_ends
from fedrec.core.rng import client_key, generator
from fedrec.core.slots import Arrays, Slot, sent
from fedrec.core.upload import Total, Upload, summed

MATCH = "match"
TOLD = "told"  # what is uploaded: a user's vector
VECTORS = "vectors"  # what the third party holds: those of all users, as their devices last told them
BLOCK = 256  # users matched at a time


def hashed(salt: int, items: NDArray[np.int32]) -> NDArray[np.uint64]:
    """What stands for items outside of a device."""
    found: NDArray[np.uint64] = _hashes(np.uint64(salt), items)
    return found


@nb.njit(cache=True)
def _hashes(salt: Any, items: Any) -> Any:
    out = np.empty(len(items), np.uint64)
    for k in range(len(items)):
        out[k] = client_key(salt, np.uint64(items[k]))
    return out


def neighbours(tokens: Ragged, seed: int, most: int) -> Ragged:
    """For each client the others that share most tokens with it, at most so many."""
    clients = len(tokens.indptr) - 1
    x = sparse.csr_matrix((np.ones(len(tokens.items), np.int32), tokens.items, tokens.indptr))
    turned, order = x.T.tocsr(), generator(seed, MATCH).permutation(clients)
    found: list[NDArray[np.int32]] = []
    for start in range(0, clients, BLOCK):
        shared = (x[start : start + BLOCK] @ turned).tocsr()
        for row in range(shared.shape[0]):
            run = slice(shared.indptr[row], shared.indptr[row + 1])
            others, counts = shared.indices[run], shared.data[run].astype(np.int64)
            rank = counts * clients + order[others]  # equal counts in random order
            rank[others == start + row] = -1
            best = np.argsort(-rank)[: min(most, len(rank) - 1)]
            found.append(others[best].astype(np.int32))
    return Ragged(run_ends(np.array([len(part) for part in found])), np.concatenate(found))


class ThirdParty(Service):
    """Gives a client its neighbours' vectors, and for each of its items which of them met it too."""

    def __init__(self, most: int, dim: int, gradients: dict[str, Slot], positives: float, seed: int) -> None:
        self.asked, self.most, self.dim, self.seed, self.sums = most, max(1, most), dim, seed, gradients
        self.given = {
            "nearby": sent(self.most, dim),
            "links": sent(round(positives), self.most),
        }  # on average

    def meet(self, held: Arrays, introduced: Introduced | None) -> Arrays:
        assert introduced is not None
        _, codes = np.unique(introduced.tokens, return_inverse=True)
        self.tokens = Ragged(introduced.indptr, codes.astype(np.int32))
        self.near = neighbours(self.tokens, self.seed, self.asked)
        self.links = np.zeros((len(codes), -(-self.most // 8)), np.uint8)  # of every token of every client
        _match(*self.near, *self.tokens, int(codes.max(initial=0)) + 1, self.links)
        return {**held, VECTORS: introduced.arrays[TOLD].copy()}

    def give(self, held: Arrays, users: Ids) -> tuple[Arrays, Pull]:
        """Vectors as they were told before the round."""
        nearby = np.zeros((len(users), self.most, self.dim), np.float32)
        for c, user in enumerate(users):
            near = self.near.of(user)
            nearby[c, : len(near)] = held[VECTORS][near]
        longest = int(self.tokens.counts(users).max())
        links = np.zeros((len(users), longest, self.most), np.float32)
        _unpack(users, self.tokens.indptr, self.links, links)

        def pull(upload: Upload, at: Ids) -> Total:
            total = summed(upload.without(TOLD), self.sums)
            total.told[TOLD] = [(users[at], upload.dense[TOLD])]
            return total

        return {"nearby": nearby, "links": links}, pull

    def give_alone(self, clients: int) -> Arrays:
        """Who learns alone has no neighbours."""
        nearby = np.zeros((clients, self.most, self.dim), np.float32)
        return {"nearby": nearby, "links": np.zeros((clients, 1, self.most), np.float32)}


@nb.njit(cache=True, nogil=True)
def _match(near_ptr: Any, near: Any, indptr: Any, tokens: Any, n_tokens: int, out: Any) -> None:
    """Bit k of a client's token: its neighbour k has that token too. Nobody's graph changes: found once."""
    place = np.full(n_tokens, -1, np.int64)
    mine = np.full(n_tokens, -1, np.int64)
    for u in range(len(indptr) - 1):
        for at in range(indptr[u], indptr[u + 1]):
            mine[tokens[at]] = u
            place[tokens[at]] = at
        for k in range(near_ptr[u + 1] - near_ptr[u]):
            other = near[near_ptr[u] + k]
            for token in tokens[indptr[other] : indptr[other + 1]]:
                if mine[token] == u:
                    out[place[token], k // 8] |= np.uint8(1 << (k % 8))


@nb.njit(cache=True, nogil=True)
def _unpack(users: Any, indptr: Any, links: Any, out: Any) -> None:
    """out[c, r, k] = 1 where neighbour k of client c has its r-th token too."""
    for c in range(len(users)):
        first = indptr[users[c]]
        for r in range(indptr[users[c] + 1] - first):
            for k in range(out.shape[2]):
                out[c, r, k] = np.float32((links[first + r, k // 8] >> (k % 8)) & 1)
