"""EASE: a linear item-to-item model with zero diagonal, in closed form (Steck, WWW 2019)."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.linalg.lapack import dpotrf, dpotri
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fedrec.core.blocks import run_blocks
from fedrec.core.settings import Search
from fedrec.data.split import Split
from fedrec.methods.central.base import CentralAtOnce
from fedrec.methods.central.itemitem import ItemItem, require_memory, training_matrix

BLOCK = 256  # rows of an items × items matrix handled at a time


class EASE(CentralAtOnce):
    """min ‖X − XB‖² + λ‖B‖² with diag(B) = 0, solved by one inverse (Steck, Eq. 8 and Fig. 1)."""

    name: ClassVar[str] = "ease"
    citation: ClassVar[str] = "Steck: Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019"
    use_when: ClassVar[str] = "the accuracy to aim at where all data may be in one place and items are few"
    ranks_from_history: ClassVar[bool] = True

    lam: Annotated[float, Search(10, 5000, log=True)] = Field(500.0, gt=0, description="L2 weight λ")

    def fit(self, split: Split, seed: int = 0, threads: int = 1) -> ItemItem:
        m = split.n_items
        needed = 12.0 * m * m  # the Gram matrix in float64, inverted in place, and B in float32
        require_memory(self.name, needed, m, "use itemknn or ials, which keep no full matrix of items")
        x = training_matrix(split)
        xt = x.T.tocsr()
        p = np.empty((m, m))

        def gram(start: int, end: int) -> None:
            p[start:end] = (xt[start:end] @ x).toarray()

        run_blocks(gram, m, BLOCK, threads)  # G = XᵀX
        p[np.diag_indices(m)] += self.lam
        _invert(p)  # P = (G + λI)⁻¹
        b = np.empty((m, m), np.float32)
        diagonal = p.diagonal()
        for start in range(0, m, BLOCK):
            b[start : start + BLOCK] = p[start : start + BLOCK] / -diagonal  # B_ij = −P_ij / P_jj
        np.fill_diagonal(b, 0)
        return ItemItem(x, b)


def _invert(a: NDArray[np.float64]) -> None:
    """Inverse of a symmetric positive definite matrix, in place, on one thread for the same bits anywhere."""
    with threadpool_limits(1):
        factor, _ = dpotrf(a.T, lower=1, overwrite_a=1)
        dpotri(factor, lower=1, overwrite_c=1)
    for start in range(0, len(a), BLOCK):  # LAPACK leaves one triangle: mirror it
        end = start + BLOCK
        a[end:, start:end] = a[start:end, end:].T
        square = a[start:end, start:end]
        square[:] = np.triu(square) + np.triu(square, 1).T
