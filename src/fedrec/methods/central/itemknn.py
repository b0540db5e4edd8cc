"""ItemKNN: items near those a user has met, by cosine (Deshpande and Karypis, TOIS 2004)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numba as nb
import numpy as np
from pydantic import Field
from scipy.sparse import csc_matrix

from fedrec.core.blocks import run_blocks
from fedrec.core.settings import Search
from fedrec.data.split import Split
from fedrec.methods.central.base import CentralAtOnce
from fedrec.methods.central.itemitem import ItemItem, require_memory, training_matrix

BLOCK = 64  # items per block


class ItemKNN(CentralAtOnce):
    """Score of item j = Σ of its similarity to those of its k nearest items that the user has met.

    Cosine with shrinkage, sim(i, j) = n_ij / (√(n_i n_j) + shrink): few common users say little
    (Bell and Koren, ICDM 2007). Only the neighbours are kept, never items × items.
    """

    name: ClassVar[str] = "itemknn"
    citation: ClassVar[str] = "Deshpande, Karypis: Item-Based Top-N Recommendation Algorithms, TOIS 2004"
    use_when: ClassVar[str] = "a simple, explainable yardstick that scales to large catalogues"
    ranks_from_history: ClassVar[bool] = True

    k: Annotated[int, Search(10, 500, log=True)] = Field(100, ge=1, description="neighbours kept per item")
    shrink: Annotated[float, Search(0.1, 1000, log=True)] = Field(
        10.0, ge=0, description="added to the denominator of the cosine"
    )

    def fit(self, split: Split, seed: int = 0, threads: int = 1) -> ItemItem:
        m = split.n_items
        k = min(self.k, m)
        # (item, weight) per neighbour, twice over while the lists are turned into rows
        require_memory(self.name, 16.0 * m * k, m, f"use fewer neighbours than k={self.k}")
        x = training_matrix(split)
        xt = x.T.tocsr()
        norms = np.sqrt(np.diff(xt.indptr))
        near = np.zeros((m, k), np.int32)
        sims = np.zeros((m, k), np.float32)

        def work(start: int, end: int) -> None:
            _nearest(xt.indptr, xt.indices, x.indptr, x.indices, norms, self.shrink, start, end, near, sims)

        run_blocks(work, m, BLOCK, threads)
        columns = csc_matrix((sims.ravel(), near.ravel(), np.arange(m + 1) * k), shape=(m, m))
        columns.eliminate_zeros()  # items with fewer than k neighbours
        return ItemItem(x, columns.tocsr())


@nb.njit(cache=True, nogil=True)
def _nearest(
    users_of: Any,
    users: Any,
    items_of: Any,
    items: Any,
    norms: Any,
    shrink: float,
    start: int,
    end: int,
    near: Any,
    sims: Any,
) -> None:
    """The k most similar items of each item in the block; of equal ones the smaller code."""
    k = near.shape[1]
    common = np.zeros(len(norms), np.int32)
    touched = np.empty(len(norms), np.int32)
    for j in range(start, end):
        n = 0
        for u in users[users_of[j] : users_of[j + 1]]:
            for i in items[items_of[u] : items_of[u + 1]]:
                if common[i] == 0:
                    touched[n] = i
                    n += 1
                common[i] += 1
        common[j] = 0
        touched[:n].sort()
        for i in touched[:n]:
            sim = np.float32(common[i] / (norms[i] * norms[j] + shrink))
            common[i] = 0
            if not sim > sims[j, k - 1]:
                continue
            at = k - 1
            while at > 0 and sim > sims[j, at - 1]:
                sims[j, at], near[j, at] = sims[j, at - 1], near[j, at - 1]
                at -= 1
            sims[j, at], near[j, at] = sim, i
