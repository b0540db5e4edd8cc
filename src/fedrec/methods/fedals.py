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
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrec.core.federated import Batch, Context, Params, Phase
from fedrec.core.kernel import LeastSquares
from fedrec.core.ragged import Ragged
from fedrec.core.settings import Search
from fedrec.core.slots import Array, Arrays, Catalog, Slot, constant, fresh, sent, server, shared, zeros
from fedrec.core.upload import Implied, Total, Uploads
from fedrec.methods.history import HistoryMethod

STD = 0.1  # spread of the first item table
POPULARITY_POWER = 0.25  # of an item's share of clients, in the popularity column


class FedALS(HistoryMethod):
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
    withheld: ClassVar[float] = 5.0

    dim: Annotated[int, Search(16, 256, log=True)] = Field(
        128, ge=1, le=1024, description="length of user and item vectors"
    )
    alpha: Annotated[Annotated[float, Field(ge=0)] | Literal["auto"], Search(0.1, 50, log=True)] = Field(
        "auto", description="confidence α of a positive beyond 1; auto: from positives per client"
    )
    lam: Annotated[Annotated[float, Field(gt=0)] | Literal["auto"], Search(0.3, 300, log=True)] = Field(
        "auto", description="L2 weight λ; auto: from α and the size of the data"
    )
    scale: Annotated[float, Search(0, 1)] = Field(
        0.25, ge=0, le=1, description="λ grows with a row's interactions to this power"
    )
    popularity: Annotated[float, Search(0, 1)] = Field(
        0.3, ge=0, description="weight of popularity in w₀; 0: no popularity column"
    )
    eta: Annotated[float, Search(0.3, 1.5, log=True)] = Field(
        1.0, gt=0, lt=2, description="length of the server's step"
    )
    kappa: float = Field(4.0, ge=0, description="damping c_j = κ × share of clients that met item j")
    memory: float = Field(1.0, ge=0, le=1, description="moving averages forget at (share of clients)^memory")

    def numbers(self, catalog: Catalog) -> tuple[float, float]:
        """α and λ; ``auto`` from what a server may know: positives per client, and how many clients and items.

        How the rule was found: docs/fedals.md.
        """
        alpha = 200 / catalog.positives if isinstance(self.alpha, str) else self.alpha
        pairs = math.log10(catalog.n_users * catalog.n_items) - 4.3
        ratio = min(max(pairs, 2.0), 3.0) * min(catalog.positives / 9, 1.0)
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

        # An item that an earlier run did not know is zero: nobody has met it, the Gramian stays true, and one
        # round fills it.
        expected = np.diag(np.where(np.arange(width) < self.dim, rows * STD**2, 0.0))
        return {
            "items": shared(rows, width, start=table, rows=True, unknown="zero"),
            "gram": shared(width, width, start=constant(expected)),  # VᵀV, before the first round its mean
            "user": fresh(width, start=zeros()),
            "mean_outer": server(width, width, start=zeros()),
            "mean_corrections": server(rows, width, start=zeros(), rows=True, unknown="zero"),
            "mean_senders": server(rows, start=zeros(), rows=True, unknown="zero"),
            "mean_weight": server(start=zeros()),
            **self.history_slots(catalog),
        }

    def uploads(self, catalog: Catalog) -> Uploads:
        rows, width = catalog.n_items, self.width
        corrections, senders = sent(rows, width, rows=True), sent(rows, rows=True)
        sums = {"corrections": corrections, "senders": senders, "outer": sent(width, width)}
        return Uploads({**sums, **self.history_uploads(catalog)}, implied=self.implied(catalog))

    def implied(self, catalog: Catalog) -> Implied:
        """``fit`` by the server: positives and what devices were told determine the rest of an upload."""
        (alpha, lam), prior = self.numbers(catalog), self.prior().astype(np.float64)

        def sends(positives: Ragged, told: Arrays) -> tuple[Arrays, Arrays]:
            gram = told["gram"].astype(np.float64)
            corrections = np.zeros((len(positives.items), self.width), np.float32)
            outer = np.zeros((len(positives.indptr) - 1, self.width, self.width), np.float32)
            for client, (start, end) in enumerate(pairwise(positives.indptr)):
                v = told["items"][positives.items[start:end]].astype(np.float64)
                ridge = lam * max(end - start, 1) ** self.scale
                a = gram + alpha * v.T @ v + ridge * np.eye(self.width)
                w = np.linalg.solve(a, (1 + alpha) * v.sum(0) + ridge * prior)
                corrections[start:end] = (alpha * (v @ w) - (1 + alpha))[:, None] * w
                outer[client] = np.outer(w, w)
            senders = np.ones(len(positives.items), np.float32)
            return {"corrections": corrections, "senders": senders}, {"outer": outer}

        return sends

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        alpha, lam = self.numbers(catalog)
        return [Phase([], part="history", terms={"alpha": alpha, "lam": lam})]

    def fit(
        self, shared: Params, private: Params, passes: Sequence[Batch], plan: list[Phase]
    ) -> tuple[Params, Params, Any]:
        """w = (VᵀV + α V_uᵀV_u + λI)⁻¹ ((1 + α) Σ_{j∈u} m_j v_j + λ w₀), m_j = 1 but for ranking.

        Sent: (α w·v_j − (1 + α)) w and 1 for each positive j, and w wᵀ.
        """
        import torch

        (batch,), terms, p = passes, plan[0].terms, {**shared, **private}
        v = p["items"]
        alpha = terms["alpha"]
        met = torch.zeros(v.shape[0]).index_add(0, batch.items, batch.mask)
        aim = torch.zeros(v.shape[0]).index_add(0, batch.items, self.aims(p, batch, plan))
        own, n = v * met[:, None], met.sum()
        lam = terms["lam"] * n.clamp(min=1) ** self.scale
        a = p["gram"] + alpha * own.T @ own + lam * torch.eye(self.width)
        b = (1 + alpha) * aim @ v + lam * torch.from_numpy(self.prior())
        w = torch.cholesky_solve(b[:, None], torch.linalg.cholesky(a))[:, 0]
        asked = alpha * (v @ w) - (1 + alpha)
        upload = {"corrections": (asked * met)[:, None] * w, "senders": met, "outer": w[:, None] * w}
        return {**p, "user": w}, upload, (1 + alpha) * (n - own.sum(0) @ w)

    def logits(self, p: Any, i: Any) -> Any:
        return p.items[i] @ p.user

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """One preconditioned step of all item rows: v_j ← v_j − η g_j ((1 + c_j α) S + λI)⁻¹."""
        clients = context.catalog.n_users
        s, corrections, senders, averages = self._sums(held, total, clients)
        (alpha, lam), v, d = self.numbers(context.catalog), held["items"], self.dim
        lams = lam * np.maximum(senders, 1)[:, None] ** self.scale
        share = np.maximum(senders, 0) / np.float32(clients)  # noise may carry them below
        g = (v @ s + lams * v + corrections)[:, :d]
        # S + α Σ_{u∋j} w_u w_uᵀ is the curvature of row j. That sum is at most S, and for the clients of
        # an item about their share of it: κ times as much keeps the step stable for any α.
        values, q = np.linalg.eigh(s[:d, :d])
        damped = (1 + alpha * np.minimum(self.kappa * share, 1))[:, None] * np.maximum(values, 0)
        new = v.copy()
        new[:, :d] -= self.eta * (g @ q / (damped + lams)) @ q.T
        new[:, d:] = share[:, None] ** POPULARITY_POWER
        gram = new.T.astype(np.float64) @ new
        chosen = self.chosen(held, total, context.catalog)
        return {**held, **averages, **chosen, "items": new, "gram": gram.astype(np.float32)}

    def _sums(self, held: Arrays, total: Total, clients: int) -> tuple[Array, Array, Array, Arrays]:
        """Sums over all clients, estimated from cohorts by moving averages; with everyone there, exact."""
        share = total.clients / clients
        rate = np.float32(share**self.memory)
        seen = {f"mean_{n}": total.sums[n] for n in self.averaged()}
        averages = {n: (1 - rate) * held[n] + rate / np.float32(share) * x for n, x in seen.items()}
        weight = (1 - rate) * held["mean_weight"] + rate  # young averages start at zero: divide that out
        s, corrections, senders, *_ = (averages[n] / weight for n in seen)
        return s, corrections, senders, {**averages, "mean_weight": weight}

    def averaged(self) -> tuple[str, ...]:
        """The uploads of which the server keeps moving averages."""
        return ("outer", "corrections", "senders")

    def kernel(self, catalog: Catalog) -> LeastSquares:
        names = ("items", "user", "gram", "corrections", "outer", "senders")
        recency = "recency" if self.ages(catalog) else None
        return LeastSquares(*names, *self.numbers(catalog), self.scale, self.prior(), recency)
