"""FCF: federated collaborative filtering, the first federated recommender.

Ammad-ud-din, Ivannikova, Khan, Oyomno, Fu, Tan & Flanagan, "Federated Collaborative Filtering for
Privacy-Preserving Personalized Recommendation System", arXiv 1901.09888, 2019.

Each client solves its vector in closed form and uploads a gradient for EVERY item of the catalogue; the
server takes one step of Adam with their sum. For an item that a client has not met the gradient is
−(x·y)x, which is −y times the outer product of x: summed over clients, −Y·S. So the sum of all uploads
is made exactly from S and from corrections at the clients' positives, without M × d numbers per client.
Bytes are counted as the paper sends them.

What one upload reveals: the server knows Y, so a single M × d gradient gives away the client's vector
(up to sign) and its positives, which stand out from −Y x xᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from fedrec.core.federated import Batch, Context, Params, Phase
from fedrec.core.kernel import LeastSquares
from fedrec.core.serverstep import ServerAdam, moment_slots
from fedrec.core.settings import Search
from fedrec.core.slots import Array, Arrays, Catalog, Slot, constant, fresh, normal, sent, shared, zeros
from fedrec.core.upload import Total, Uploads
from fedrec.methods.history import HistoryMethod

STD = 0.1  # spread of the first item table


class FCF(HistoryMethod):
    """J = Σ c_ui (p_ui − x_u·y_i)² + λ(Σ‖x_u‖² + Σ‖y_i‖²), c = 1 + α and p = 1 for positives (Eq. 2)."""

    name: ClassVar[str] = "fcf"
    citation: ClassVar[str] = "Ammad-ud-din et al., arXiv 1901.09888, 2019"
    use_when: ClassVar[str] = "you compare with the first federated recommender; FedALS needs fewer rounds"
    reveals: ClassVar[str] = (
        "a gradient for every item: with the public item table it gives away the client's vector up to "
        "sign and its positives; hidden only in sums"
    )
    withheld: ClassVar[float] = 25.0  # Adam's steps are small: the table takes longer to be good enough

    dim: Annotated[int, Search(8, 128, log=True)] = Field(
        32, ge=1, le=1024, description="length of user and item vectors"
    )
    alpha: Annotated[float, Search(0.5, 50, log=True)] = Field(
        8.0, ge=0, description="confidence α of a positive beyond 1; found on validation"
    )
    lam: Annotated[float, Search(1, 300, log=True)] = Field(
        30.0, gt=0, description="L2 weight λ; found on validation"
    )
    lr: Annotated[float, Search(0.005, 0.3, log=True)] = Field(
        0.05, gt=0, description="the server's learning rate γ (Adam); found on validation"
    )
    beta1: float = Field(0.4, ge=0, lt=1, description="decay of Adam's mean")
    beta2: float = Field(0.99, ge=0, lt=1, description="decay of Adam's variance")

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        rows, d = catalog.n_items, self.dim
        slots = {
            # An item that an earlier run did not know starts at zero, so that the Gramian stays true.
            "items": shared(rows, d, start=normal(STD), rows=True, unknown="zero"),
            # What every client computes from the items it downloads; the simulator does it once for all.
            "gram": shared(d, d, start=constant(np.eye(d) * rows * STD**2)),
            "user": fresh(d, start=zeros()),
        }
        return slots | moment_slots(slots, ["items"], "server") | self.history_slots(catalog)

    def uploads(self, catalog: Catalog) -> Uploads:
        """The M × d gradient f_u = −Y x xᵀ + corrections, as its two parts; bytes are those of the whole."""
        rows, d = catalog.n_items, self.dim
        parts = {"corrections": sent(rows, d, rows=True), "outer": sent(d, d)}
        more = self.history_uploads(catalog)
        return Uploads({**parts, **more}, wire={"gradient": sent(rows, d), **more})

    def fit(
        self, shared: Params, private: Params, passes: Sequence[Batch], plan: list[Phase]
    ) -> tuple[Params, Params, Any]:
        """x = (YᵀCY + λI)⁻¹ YᵀC p (Eq. 4), with YᵀCY = YᵀY + α Σ_{i∈u} y_i y_iᵀ; p is below 1 for ranking.

        f_ui = c_ui (p_ui − x·y_i) x (Eq. 6) less −(x·y_i)x, which x xᵀ stands for; the sign is the loss's.
        """
        import torch

        (batch,), p = passes, {**shared, **private}
        y = p["items"]
        met = torch.zeros(y.shape[0]).index_add(0, batch.items, batch.mask)
        aim = torch.zeros(y.shape[0]).index_add(0, batch.items, self.aims(p, batch, plan))
        own = y * met[:, None]
        a = p["gram"] + self.alpha * own.T @ own + self.lam * torch.eye(self.dim)
        b = (1 + self.alpha) * aim @ y
        x = torch.cholesky_solve(b[:, None], torch.linalg.cholesky(a))[:, 0]
        asked = self.alpha * (y @ x) - (1 + self.alpha)
        upload = {"corrections": (asked * met)[:, None] * x, "outer": x[:, None] * x}
        return {**p, "user": x}, upload, (1 + self.alpha) * (met.sum() - own.sum(0) @ x)

    def logits(self, p: Any, i: Any) -> Any:
        return p.items[i] @ p.user

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """y_i ← y_i − γ · Adam(∂J/∂y_i), ∂J/∂y_i = −2 Σ_u f_ui + 2λ y_i (Eq. 5 and 7)."""
        y = held["items"]
        everyone = np.float32(context.catalog.n_users) / np.float32(total.clients)  # a cohort stands for all
        slope = 2 * everyone * (y @ total.sums["outer"] + total.sums["corrections"]) + 2 * self.lam * y
        moved = ServerAdam(self.lr, self.beta1, self.beta2).move(held, {"items": slope.astype(np.float32)})
        new = moved["items"]
        chosen = self.chosen(held, total, context.catalog)
        return {**moved, **chosen, "gram": (new.T.astype(np.float64) @ new).astype(np.float32)}

    def kernel(self, catalog: Catalog) -> LeastSquares:
        """λ is the same for everyone, and a client without positives is the zero vector."""
        nobody: Array = np.zeros(self.dim, np.float32)
        names = ("items", "user", "gram", "corrections", "outer", None)
        recency = "recency" if self.ages(catalog) else None
        return LeastSquares(*names, self.alpha, self.lam, 0.0, nobody, recency)
