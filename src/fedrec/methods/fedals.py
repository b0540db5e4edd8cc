"""FedALS: implicit alternating least squares across devices, with a Gramian step at the server.

The model is iALS (Hu, Koren & Volinsky, ICDM 2008); the federated form is fedrec's own. Each client
solves its vector in closed form and uploads what its positives ask of their item rows, and the outer
product of its vector; the server needs the sums of both and nothing else. No negatives are sampled:
the public Gramian of the item table stands for all items that a client has not met.

What one upload reveals: its rows ARE the client's positives (there are no sampled negatives as
decoys), and the outer product gives away its private vector up to sign. Both are hidden only in
sums: run it where the server sees no single upload (secure aggregation).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrec.core.federated import Federated, Params, Total
from fedrec.core.gradient import Phase
from fedrec.core.slots import Array, Catalog, Slot, constant, fresh, server, shared, zeros

if TYPE_CHECKING:
    from fedrec.data.split import Split

STD = 0.1  # spread of the first item table
TYPICAL, TYPICAL_PAIRS = 100.0, 1e6  # positives per client and clients × items, where no data were seen
POPULARITY_POWER = 0.25  # of an item's share of clients, in the popularity column


class FedALS(Federated):
    """min Σ c_uj (p_uj − w_u·v_j)² + λ(Σ‖w_u − w₀‖² + Σ‖v_j‖²) over all pairs, met or not.

    p = 1 and c = 1 + α where client u met item j, p = 0 and c = 1 elsewhere. With ``popularity`` the item
    table has one more column, which the server fills from summed counts; w₀ is that weight there and 0
    elsewhere, so that a client leans on popularity until its own positives say how mainstream it is.
    """

    name: ClassVar[str] = "fedals"
    citation: ClassVar[str] = "fedrec; the model is Hu, Koren, Volinsky, ICDM 2008"
    use_when: ClassVar[str] = "you want the best recommendations in the fewest rounds"
    reveals: ClassVar[str] = (
        "its rows are exactly the client's positives and its outer product is the private vector up to "
        "sign; both are hidden only in sums, so run it behind secure aggregation"
    )
    negatives: ClassVar[bool] = False
    tunes_rows: ClassVar[bool] = False
    sizes: ClassVar[tuple[str, ...]] = ("clients",)

    dim: int = Field(128, ge=1, le=1024, description="length of user and item vectors")
    alpha: Annotated[float, Field(ge=0)] | Literal["auto"] = Field(
        "auto", description="confidence α of a positive beyond 1; auto: from positives per client"
    )
    lam: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        "auto", description="L2 weight λ; auto: from α and the size of the data"
    )
    scale: float = Field(0.25, ge=0, le=1, description="λ grows with a row's interactions to this power")
    popularity: float = Field(0.3, ge=0, description="weight of popularity in w₀; 0: no popularity column")
    eta: float = Field(1.0, gt=0, lt=2, description="length of the server's step")
    kappa: float = Field(4.0, ge=0, description="damping c_j = κ × share of clients that met item j")
    memory: float = Field(1.0, ge=0, le=1, description="moving averages forget at (share of clients)^memory")

    def suited(self, split: Split) -> FedALS:
        """With α and λ from the data where they are ``auto`` (how the rule was found: docs/fedals.md)."""
        positives = len(split.trained.items) / split.n_users
        alpha, lam = self._from(positives, split.n_users * split.n_items)
        return self.model_copy(update={"alpha": alpha, "lam": lam})

    @property
    def numbers(self) -> tuple[float, float]:
        """α and λ as numbers, also where no data were seen."""
        return self._from(TYPICAL, TYPICAL_PAIRS)

    def _from(self, positives: float, pairs: float) -> tuple[float, float]:
        """α and λ for clients with so many positives on average, and so many pairs of client and item."""
        alpha = 200 / positives if isinstance(self.alpha, str) else self.alpha
        ratio = min(max(math.log10(pairs) - 4.3, 2.0), 3.0) * min(positives / 9, 1.0)
        return alpha, ratio * (1 + alpha) if isinstance(self.lam, str) else self.lam

    @property
    def width(self) -> int:
        return self.dim + (self.popularity > 0)

    def prior(self) -> Array:
        """w₀: what a client is before it has met anything."""
        w = np.zeros(self.width, np.float32)
        w[self.dim :] = self.popularity
        return w

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        rows, width = catalog.n_items, self.width

        def table(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
            first = rng.normal(0.0, STD, shape)
            first[:, self.dim :] = 0  # no counts yet
            return first

        expected = np.diag(np.where(np.arange(width) < self.dim, rows * STD**2, 0.0))
        return {
            "items": shared(rows, width, start=table, rows=True),
            "gram": shared(width, width, start=constant(expected)),  # VᵀV, before the first round its mean
            "user": fresh(width, start=zeros()),
            "clients": server(start=constant(catalog.n_users)),
            "mean_outer": server(width, width, start=zeros()),
            "mean_corrections": server(rows, width, start=zeros(), rows=True),
            "mean_senders": server(rows, start=zeros(), rows=True),
            "mean_weight": server(start=zeros()),
        }

    def new_rows(self, name: str, started: Array) -> Array:
        return np.zeros_like(started)  # what nobody has met; the Gramian stays true, and one round fills it

    def uploads(self, catalog: Catalog) -> dict[str, Slot]:
        return {
            "corrections": shared(catalog.n_items, self.width, start=zeros(), rows=True),
            "outer": shared(self.width, self.width, start=zeros()),
        }

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        return [Phase([])]  # one look at its positives, no gradient steps

    def receive(self, shared: Params, private: Params) -> Params:
        return {**shared, **private}

    def fit(self, p: Params, passes: Any, plan: list[Phase]) -> tuple[Params, Any]:
        """w = (VᵀV + α V_uᵀV_u + λI)⁻¹ ((1 + α) Σ_{j∈u} v_j + λ w₀)."""
        import torch

        (batch,) = passes
        (alpha, lam), v = self.numbers, p["items"]
        met = torch.zeros(v.shape[0]).index_add(0, batch.items, batch.mask).clamp(max=1)
        own, n = v * met[:, None], met.sum()
        lam = lam * n.clamp(min=1) ** self.scale
        a = p["gram"] + alpha * own.T @ own + lam * torch.eye(self.width)
        b = (1 + alpha) * own.sum(0) + lam * torch.from_numpy(self.prior())
        w = torch.cholesky_solve(b[:, None], torch.linalg.cholesky(a))[:, 0]
        return {**p, "user": w, "met": met}, (1 + alpha) * (n - own.sum(0) @ w)

    def upload(self, shared: Params, p: Params) -> Params:
        """(α w·v_j − (1 + α)) w for each positive j, and w wᵀ."""
        alpha, w = self.numbers[0], p["user"]
        asked = alpha * (p["items"] @ w) - (1 + alpha)
        return {"corrections": (asked * p["met"])[:, None] * w, "outer": w[:, None] * w}

    def logits(self, p: Any, i: Any) -> Any:
        return p.items[i] @ p.user

    def merge(self, held: dict[str, Array], total: Total) -> dict[str, Array]:
        """One preconditioned step of all item rows: v_j ← v_j − η g_j ((1 + c_j α) S + λI)⁻¹."""
        s, corrections, senders, averages = self._sums(held, total)
        (alpha, lam), v, d = self.numbers, held["items"], self.dim
        lams = lam * np.maximum(senders, 1)[:, None] ** self.scale
        share = senders / held["clients"]
        g = (v @ s + lams * v + corrections)[:, :d]
        # S + α Σ_{u∋j} w_u w_uᵀ is the curvature of row j. That sum is at most S, and for the clients of
        # an item about their share of it: κ times as much keeps the step stable for any α.
        values, q = np.linalg.eigh(s[:d, :d])
        damped = (1 + alpha * np.minimum(self.kappa * share, 1))[:, None] * np.maximum(values, 0)
        new = v.copy()
        new[:, :d] -= self.eta * (g @ q / (damped + lams)) @ q.T
        new[:, d:] = share[:, None] ** POPULARITY_POWER
        gram = new.T.astype(np.float64) @ new
        return {**held, **averages, "items": new, "gram": gram.astype(np.float32)}

    def _sums(self, held: dict[str, Array], total: Total) -> tuple[Array, Array, Array, dict[str, Array]]:
        """Sums over all clients, estimated from cohorts by moving averages; with everyone there, exact."""
        share = total.clients / float(held["clients"])
        rate = np.float32(share**self.memory)
        seen = {
            "mean_outer": total.sums["outer"],
            "mean_corrections": total.sums["corrections"],
            "mean_senders": total.counts["corrections"],
        }
        averages = {n: (1 - rate) * held[n] + rate / np.float32(share) * x for n, x in seen.items()}
        weight = (1 - rate) * held["mean_weight"] + rate  # young averages start at zero: divide that out
        sums = (averages[n] / weight for n in seen)
        return *sums, {**averages, "mean_weight": weight}
