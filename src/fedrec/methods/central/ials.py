"""iALS: factorisation of implicit feedback by alternating least squares (Hu, Koren, Volinsky, ICDM 2008)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fedrec.core.blocks import run_blocks
from fedrec.core.factors import Factors
from fedrec.core.rng import generator
from fedrec.core.settings import Search
from fedrec.data.split import Split
from fedrec.methods.central.base import CentralAtOnce, Solves
from fedrec.methods.central.itemitem import training_matrix

Table = NDArray[np.float64]
BLOCK = 128  # users or items per block


class IALS(CentralAtOnce):
    """min Σ c_ui (p_ui − w_u·v_i)² + λ(Σ‖w_u‖² + Σ‖v_i‖²) over all pairs, seen or not (Hu et al., Eq. 3).

    p = 1 and c = 1 + α where the user trained on the item, p = 0 and c = 1 elsewhere.
    """

    name: ClassVar[str] = "ials"
    citation: ClassVar[str] = "Hu, Koren, Volinsky: Collaborative Filtering for Implicit Feedback, ICDM 2008"
    use_when: ClassVar[str] = "the centralised optimum of a factor model, what FedALS is measured against"

    dim: Annotated[int, Search(8, 256, log=True)] = Field(32, ge=1, description="length of the vectors")
    alpha: Annotated[float, Search(0.1, 50, log=True)] = Field(
        1.0, ge=0, description="confidence of a training pair beyond 1"
    )
    lam: Annotated[float, Search(0.3, 300, log=True)] = Field(
        10.0, gt=0, description="L2 weight λ, not scaled by counts"
    )
    sweeps: int = Field(15, ge=1, description="alternations: all users, then all items")

    def fit(self, split: Split, seed: int = 0, threads: int = 1) -> Factors:
        x = training_matrix(split)
        xt = x.T.tocsr()
        v = generator(seed, self.name).normal(0, 0.1, (split.n_items, self.dim))
        for _ in range(self.sweeps):
            w = self._solve(x, v, threads)
            v = self._solve(xt, w, threads)
        w = self._solve(x, v, threads)  # once more, for the last items
        return Factors(w.astype(np.float32), v.astype(np.float32))

    def solves(self) -> Solves:
        return Solves(self.alpha, self.lam)

    def _solve(self, x: Any, fixed: Table, threads: int) -> Table:
        """The best row for each row of x, the other side fixed."""
        with threadpool_limits(1):
            gram = fixed.T @ fixed + self.lam * np.eye(self.dim)  # what all rows share
        out = np.zeros((x.shape[0], self.dim))

        def work(start: int, end: int) -> None:
            """w = (VᵀV + λI + α V_uᵀV_u)⁻¹ (1 + α) Σ_{i∈u} v_i (Hu et al., Eq. 4)."""
            left, right = np.empty((end - start, *gram.shape)), np.empty((end - start, self.dim))
            for row in range(start, end):
                own = fixed[x.indices[x.indptr[row] : x.indptr[row + 1]]]
                np.matmul(own.T, own, out=left[row - start])
                np.add.reduce(own, axis=0, out=right[row - start])
            left *= self.alpha
            left += gram
            out[start:end] = np.linalg.solve(left, (1 + self.alpha) * right[..., None])[..., 0]

        run_blocks(work, len(out), BLOCK, threads)
        return out
