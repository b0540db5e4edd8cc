"""FedNext: FedALS, and what people turn to next.

fedrec's own. A device ranks with two things that it makes from its history: FedALS's vector, in which the newest
positives aim highest, and a context φ, short and long decayed sums of x_j = v_j/|v_j| of what it met. The server learns
what follows a context from sums of what devices send,

    A = Σ φ_t φ_tᵀ,   b_j = Σ_u Σ_k δ^k φ_(t−1−k) with t when u met j,

twice: by a ridge regression, which is best at what comes first in the whole catalogue, and by a linear discriminant
(Fisher 1936), which says log P(j | φ) and so tells the middle of the catalogue apart too (``methods/heads.py``). Both
are linear in φ: their sum is one table Z. No items × items array exists: what follows what goes through the rows of
FedALS's table. A score is w·v_j + weight × φ·z_j. Half-life, floor and weight are chosen by the devices themselves
(``core/trials.py``).
How the numbers below were found, on validation: docs/recency.md.

What one upload reveals is what FedALS's does, and for each positive the context it was met in: hidden only in sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Batch, Context, Params, Phase
from fedrec.core.kernel import LeastSquares, NextItem
from fedrec.core.settings import Search
from fedrec.core.slots import Arrays, Catalog, Slot, constant, fresh, sent, server, shared, zeros
from fedrec.core.upload import Total, Uploads
from fedrec.methods.fedals import FedALS
from fedrec.methods.heads import discriminant, ridge, spread

DECAYS = (0.3, 0.9, 0.98)  # γ of the short, the middle and the long context
SOON = 0.85  # δ: what comes later than next still counts
SHARE = 2 / 3  # of the regression beside the discriminant, once both have the same spread
SHORTEST = 1e-3  # of a row, when it is brought to length 1
CONTEXTS = 60  # for each feature, in A, over all clients; a client has 2 to 32 of them, evenly spaced
WEIGHTS = (0.15, 0.0, 0.05, 0.1, 0.2, 0.3, 0.5)  # the first is what devices begin with


class FedNext(FedALS):
    """score = w·v_j + weight × φ·z_j, both from the device's own history."""

    name: ClassVar[str] = "fednext"
    citation: ClassVar[str] = "fedrec"
    use_when: ClassVar[str] = "you want the best recommendations and devices know the order of what they met"
    reveals: ClassVar[str] = (
        "its rows are exactly the client's positives, each with the context it was met in, and its outer product "
        "is the private vector up to sign; all are hidden only in sums, so run it behind secure aggregation"
    )

    weight: Annotated[float, Field(ge=0)] | Literal["auto"] = Field(
        "auto", description="weight of the next-item head beside the vector; auto: devices find out"
    )
    ridge: Annotated[float, Search(0.3, 300, log=True)] = Field(
        10.0, gt=0, description="L2 weight λ_Z of the head, in units of the Gramian of rows of length 1"
    )

    @property
    def features(self) -> int:
        """Length of a context."""
        return len(DECAYS) * self.width + 1

    def most(self, catalog: Catalog) -> int:
        """Contexts of one client in A: with many clients a few of each say the same as all of them."""
        return min(max(math.ceil(CONTEXTS * self.features / catalog.n_users), 2), 32)

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        (phase,) = super().plan(catalog, round)
        return [replace(phase, terms={**phase.terms, "most": self.most(catalog)})]

    def choices(self) -> list[Arrays]:
        weights = WEIGHTS if self.weight == "auto" else ()
        return [*super().choices(), *({"weight": np.array(x, np.float32)} for x in weights)]

    def history_slots(self, catalog: Catalog) -> dict[str, Slot]:
        if not catalog.ordered:
            raise FedrecError(
                "fednext learns what follows what, and these data do not say in which order things were met: use fedals"
            )
        rows, f = catalog.n_items, self.features
        first = WEIGHTS[0] if self.weight == "auto" else self.weight
        return {
            **super().history_slots(catalog),
            "next": shared(rows, f, start=zeros(), rows=True, unknown="zero"),  # Z
            "weight": shared(start=constant(first), anew=self.weight != "auto"),
            "context": fresh(f, start=zeros()),  # φ
            "mean_contexts": server(f, f, start=zeros()),
            "mean_followers": server(rows, f, start=zeros(), rows=True, unknown="zero"),
        }

    def uploads(self, catalog: Catalog) -> Uploads:
        rows, f = catalog.n_items, self.features
        more = {"contexts": sent(f, f), "followers": sent(rows, f, rows=True)}
        return Uploads({**super().uploads(catalog).arrays, **more})

    def fit(
        self, shared: Params, private: Params, passes: Sequence[Batch], plan: list[Phase]
    ) -> tuple[Params, Params, Any]:
        """FedALS's, and with φ_t the context after t items: for each item those it came soon after, and Σ φ_t φ_tᵀ."""
        import torch

        p, upload, loss = super().fit(shared, private, passes, plan)
        (batch,), v = passes, p["items"]
        x = v[batch.items] / v[batch.items].norm(dim=1, keepdim=True).clamp(min=SHORTEST)
        x = (x * batch.mask[:, None]).flip(0)  # oldest first; padding, zero, comes before
        step = torch.arange(len(x))
        ago = step[:, None] - step  # how many steps before the one of the row that of the column was
        sums = [(1 - g) * _decayed(g, ago) @ x for g in DECAYS]
        phi = torch.cat([*sums, torch.ones(len(x), 1)], dim=1)
        real, age = batch.mask.flip(0), len(x) - 1 - step
        known = real * (age > 0)  # what came next is known
        lately = real[:, None] * (_decayed(SOON, ago - 1) @ (known[:, None] * phi))
        followers = torch.zeros(v.shape[0], self.features).index_add(0, batch.items.flip(0), lately)
        count = known.sum()
        stride = torch.ceil(count / plan[0].terms["most"]).clamp(min=1)
        some = known * (((age - 1) % stride) == 0)
        scaled = phi * some[:, None] * (count / some.sum().clamp(min=1))
        more = {"contexts": scaled.T @ phi, "followers": followers}
        return {**p, "context": phi[-1:].sum(0) * (real.sum() > 0)}, {**upload, **more}, loss

    def logits(self, p: Any, i: Any) -> Any:
        return p.items[i] @ p.user + p.weight * (p.next[i] @ p.context)

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """FedALS's step; and Z for the table that the contexts were made of, on the scale of the vectors' scores."""
        merged = super().merge(held, total, context)
        weight, v = merged["mean_weight"], held["items"]
        a = merged["mean_contexts"].astype(np.float64) / weight
        b = merged["mean_followers"] / weight
        x = v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), SHORTEST)
        gram = x.T.astype(np.float64) @ x
        first = ridge(a, b, merged["mean_senders"] / weight, gram, self.ridge)
        second = discriminant(a, b, gram, self.ridge)
        outer = a / max(a[-1, -1], 1.0)
        s = merged["mean_outer"].astype(np.float64) / weight / context.catalog.n_users
        scale = spread(s, v)
        first *= np.float32(SHARE * scale / spread(outer, first))
        second *= np.float32(scale / spread(outer, second))
        return {**merged, "next": first + second}

    def averaged(self) -> tuple[str, ...]:
        return (*super().averaged(), "contexts", "followers")

    def kernel(self, catalog: Catalog) -> LeastSquares:
        names = ("next", "weight", "context", "contexts", "followers")
        head = NextItem(*names, DECAYS, SOON, self.most(catalog), SHORTEST)
        return replace(super().kernel(catalog), next_item=head)


def _decayed(rate: float, ago: Any) -> Any:
    """rate^ago, and nothing of what is still to come."""
    import torch

    return torch.where(ago >= 0, rate ** ago.clamp(min=0), 0.0)
