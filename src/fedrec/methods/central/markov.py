"""A linear Markov chain: ridge regression from the newest items of a history to the one that came next.

After SLIT (Choi et al., "Session-aware Linear Item-Item Models", WWW 2021), with the next item alone as what is
to be told, and its weights by age alone. In closed form: nothing is trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numba as nb
import numpy as np
from pydantic import Field
from scipy.linalg.lapack import dposv
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fedrec.core.errors import FedrecError
from fedrec.core.ragged import Ragged, run_ends
from fedrec.core.settings import Search
from fedrec.data.split import Split
from fedrec.methods.central.base import CentralAtOnce
from fedrec.methods.central.itemitem import ItemItem, require_memory

MOST = 20_000  # items; its time grows with their cube


class Markov(CentralAtOnce):
    """min Σ ‖n_t − c_t Z‖² + λ‖Z‖² over all prefixes of all histories: Z = (CᵀC + λI)⁻¹ CᵀN.

    n_t is the item that came next, and c_t = Σ_k γ^k x_(t−k) the newest items before it, the older the weaker.
    """

    name: ClassVar[str] = "markov"
    citation: ClassVar[str] = "after Choi et al., WWW 2021 (SLIT), with the next item alone as the target"
    use_when: ClassVar[str] = "what order is worth, in seconds; a sequential yardstick where items are few"
    ranks_from_history: ClassVar[bool] = True

    decay: Annotated[float, Search(0.5, 1)] = Field(
        0.9, gt=0, le=1, description="weight γ of an item against the next newer one"
    )
    window: Annotated[int, Search(3, 100, log=True)] = Field(
        20, ge=1, description="newest items that are seen"
    )
    lam: Annotated[float, Search(10, 10000, log=True)] = Field(1000.0, gt=0, description="L2 weight λ")

    def fit(self, split: Split, seed: int = 0, threads: int = 1) -> Chain:
        m = split.n_items
        if not split.catalog.ordered:
            raise FedrecError(
                f"markov learns from the order of things and {split.data.name} has none: use ease or ials"
            )
        if m > MOST:
            raise FedrecError(
                f"markov solves for {m:,} × {m:,} weights and is made for {MOST:,} items: use sasrec"
            )
        # CᵀC and CᵀN in float64, solved in place, and Z in float32
        require_memory(self.name, 20.0 * m * m, m, "use sasrec, which keeps no full matrix of items")
        gram, cross = np.zeros((m, m)), np.zeros((m, m))
        _add_prefixes(*split.train, self.decay, self.window, gram, cross)
        gram[np.diag_indices(m)] += self.lam
        with threadpool_limits(1):  # the same bits anywhere
            _, z, _ = dposv(gram.T, cross.T, lower=0, overwrite_a=1, overwrite_b=1)  # LAPACK goes by columns
        return Chain.of(split.train, np.ascontiguousarray(z, np.float32), self.decay, self.window)


@dataclass(frozen=True, eq=False)
class Chain(ItemItem):
    """Scores c Z, with c the newest items of each history."""

    decay: float
    window: int

    @staticmethod
    def of(histories: Ragged, weights: Any, decay: float, window: int) -> Chain:
        """For people with these histories, oldest first."""
        counts = np.minimum(np.diff(histories.indptr), window)
        indptr = run_ends(counts)
        age = np.repeat(indptr[1:], counts) - 1 - np.arange(indptr[-1])
        items = histories.items[np.repeat(histories.indptr[1:], counts) - 1 - age]
        x = csr_matrix((decay ** age.astype(np.float32), items, indptr), shape=(len(counts), len(weights)))
        return Chain(x, weights, decay, window)

    def knowing(self, histories: Ragged) -> Chain:
        """The same where these are the histories, oldest first."""
        return Chain.of(histories, self.weights, self.decay, self.window)


@nb.njit(cache=True, nogil=True)
def _add_prefixes(indptr: Any, items: Any, decay: float, window: int, gram: Any, cross: Any) -> None:
    """The lower triangle of CᵀC, and (CᵀN)ᵀ, pair by pair: how far apart two items are says their weight.

    Items at s − lag and s are together in the contexts that end at s + j, j = 0, 1, …, with weight γ^lag γ^2j.
    """
    powers = decay ** np.arange(window)
    together = np.cumsum(powers**2)
    for u in range(len(indptr) - 1):
        own = items[indptr[u] : indptr[u + 1]]
        for s in range(len(own) - 1):
            for lag in range(min(window, s + 1)):
                a, b = own[s], own[s - lag]
                weight = powers[lag] * together[min(len(own) - 2 - s, window - 1 - lag)]
                if a == b and lag > 0:  # met again: the pair counts from both sides
                    weight *= 2
                gram[max(a, b), min(a, b)] += weight
                cross[own[s + 1], b] += powers[lag]
