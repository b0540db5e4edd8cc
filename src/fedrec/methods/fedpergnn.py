"""FedPerGNN: every client trains on a small graph of its own, widened by anonymous neighbours.

Wu, Wu, Lyu, Qi, Huang & Xie, "A federated graph neural network framework for privacy-preserving
personalization", Nature Communications 2022, with cross-entropy on sampled negatives in place of ratings.

A client's graph holds its items and the vectors of up to 100 other users who met some of them. It finds
those through a third party that matches salted hashes of items (``thirdparty.py``). An attention
layer lets items hear from their users, then the client from its items. Clients send gradients: clipped,
with Laplace noise, and hidden among made-up gradients of items that they never met.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrec.core.federated import Batch, Context, Group, Introduced, Params, Phase
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import Attention, Kernel
from fedrec.core.optim import SGD, Gradient
from fedrec.core.ragged import Ragged
from fedrec.core.serverstep import step_along
from fedrec.core.settings import Search
from fedrec.core.slots import (
    Arrays,
    Catalog,
    Slot,
    constant,
    fresh,
    normal,
    private,
    sent,
    server,
    shared,
    uniform,
    zeros,
)
from fedrec.core.upload import Total, Upload, Uploads
from fedrec.methods.hiding import hide_rows, protect
from fedrec.methods.thirdparty import TOLD, VECTORS, ThirdParty, hashed

LAYER = ("layer", "ask", "answer")


class FedPerGNN(GradientMethod):
    name: ClassVar[str] = "fedpergnn"
    citation: ClassVar[str] = "Wu et al., Nature Communications 2022"
    use_when: ClassVar[str] = (
        "you want clients to learn from anonymous neighbours, and can trust a third party"
    )
    reveals: ClassVar[str] = (
        "clipped and noisy gradients among made-up ones of 1,000 other items; besides, the client's vector "
        "goes to the third party and, without a name, to its neighbours"
    )
    closed: ClassVar[str] = (
        "its clients are given a graph by a third party, which a wrapper would not pass on"
    )

    dim: Annotated[int, Search(8, 64, log=True)] = Field(
        32, ge=1, le=4096, description="length of user and item vectors"
    )
    lr: Annotated[float, Search(0.3, 30, log=True)] = Field(
        5.0, gt=0, description="learning rate of the user vector; found on validation"
    )
    lr_items: Annotated[float, Search(0.3, 30, log=True)] = Field(
        5.0, gt=0, description="server's learning rate of item rows; found on validation"
    )
    lr_layer: Annotated[float, Search(0.01, 1, log=True)] = Field(
        0.1, gt=0, description="server's learning rate of the layer; found on validation"
    )
    std: Annotated[float, Search(0.03, 0.3, log=True)] = Field(
        0.1, gt=0, description="spread of the first vectors; found on validation"
    )
    neighbours: int = Field(100, ge=0, description="at most so many neighbour users (the paper's)")
    clip: float = Field(0.1, gt=0, description="bound of every number of a gradient (the paper's)")
    noise: float = Field(0.2, ge=0, description="strength of the Laplace noise (the paper's)")
    pseudo: int = Field(1000, ge=0, description="items with made-up gradients (the paper's)")
    batch_size: int = Field(1 << 20, ge=1, description="samples per local step: all at once")

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        d = self.dim
        return {
            "items": shared(catalog.n_items, d, start=normal(self.std), rows=True),
            "layer": shared(d, d, start=constant(np.eye(d))),  # W: the layer starts as a plain mean
            "ask": shared(d, start=uniform(1 / math.sqrt(2 * d))),  # a = (ask ‖ answer)
            "answer": shared(d, start=uniform(1 / math.sqrt(2 * d))),
            "user": private(d, start=normal(self.std)),
            "bias": private(start=zeros()),
            "vector": fresh(d, start=zeros()),  # the user after the layer: what ranks
            VECTORS: server(catalog.n_users, d, start=zeros(), bound=True),  # the third party's, of all users
        }

    def uploads(self, catalog: Catalog) -> Uploads:
        """Gradients of the shared slots to the server, and the user's vector to the third party."""
        return Uploads({**super().uploads(catalog).arrays, TOLD: sent(self.dim)}, leaving=self.hide)

    def introduce(self, items: Ragged, private: Arrays, salt: int) -> Introduced:
        """Salted hashes of its items and its first vector, to the third party."""
        return Introduced(items.indptr, hashed(salt, items.items), {TOLD: private["user"]})

    def service(self, catalog: Catalog, seed: int) -> ThirdParty:
        gradients = {n: s for n, s in self.uploads(catalog).arrays.items() if n != TOLD}
        return ThirdParty(self.neighbours, self.dim, gradients, catalog.positives, seed)

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        return [
            Group(("user", "bias"), SGD(self.lr), "private"),
            Group(("items", *LAYER), Gradient(alone=SGD(1.0)), "shared"),
        ]

    def rebuild(self, catalog: Catalog, round: int) -> list[Phase]:
        return [Phase([])]  # the layer once more, on the items as they are now

    def fit(
        self, shared: Params, private: Params, passes: Sequence[Batch], plan: list[Phase]
    ) -> tuple[Params, Params, Any]:
        """``private`` brings the expanded graph: neighbours' vectors, and which of them met which own item."""
        import torch

        p, everything, loss = {**shared, **private}, passes[0], torch.zeros(())
        marks = everything.labels * everything.mask
        p["own"] = torch.zeros(p["items"].shape[0]).index_add(0, everything.items, marks).clamp(max=1)
        # The third party speaks of the client's items in ascending order, as they lie among its rows.
        number = (p["own"].cumsum(0) - 1).clamp(min=0, max=p["links"].shape[0] - 1).long()
        p["links"] = p["links"][number] * p["own"][:, None]
        if any(phase.groups for phase in plan):
            p, loss = self._descend(p, passes, plan)
        upload = {**self.send(shared, p), TOLD: p["user"]} if shared else {}
        return {**p, "vector": self.propagate(p)}, upload, loss

    def propagate(self, p: Params) -> Any:
        """Graph attention (Veličković et al., ICLR 2018): items from their users, the user from its items."""
        import torch
        from torch.nn.functional import leaky_relu

        def logit(to: Any, of: Any) -> Any:
            return leaky_relu(to + of, 0.2)

        me, items, others = p["user"] @ p["layer"], p["items"] @ p["layer"], p["nearby"] @ p["layer"]
        ask, answer = p["ask"], p["answer"]
        to, of_item, of_other = items @ ask, items @ answer, others @ answer
        heard = torch.where(p["links"] > 0, logit(to[:, None], of_other[None]), -torch.inf)
        weights = torch.softmax(torch.cat([logit(to, of_item)[:, None], heard], dim=1), dim=1)
        items = weights[:, :1] * items + weights[:, 1:] @ others
        heard = torch.where(p["own"] > 0, logit(me @ ask, items @ answer), -torch.inf)
        weights = torch.softmax(torch.cat([logit(me @ ask, me @ answer)[None], heard]), dim=0)
        return p["user"] + weights[0] * me + weights[1:] @ items

    def loss(self, p: Params, batch: Batch) -> Any:
        return super().loss({**p, "vector": self.propagate(p)}, batch)

    def logits(self, p: Any, i: Any) -> Any:
        return p.items[i] @ p.vector + p.bias

    def hide(
        self, upload: Upload, samples: NDArray[np.int64], n_items: int, keys: NDArray[np.uint64]
    ) -> Upload:
        """Gradients of summed losses, each client's among made-up ones; clipped to ±δ, with Laplace noise."""
        scale, strength = samples.astype(np.float32), (self.clip, self.noise)
        items, rows = hide_rows(
            upload.items, upload.rows["items"], scale, n_items, keys, self.pseudo, *strength
        )
        dense = {n: protect(upload.dense[n], scale, keys, i, *strength) for i, n in enumerate(LAYER)}
        return Upload(items, {"items": rows}, {**dense, TOLD: upload.dense[TOLD]}, upload.weights)

    def kernel(self, catalog: Catalog) -> Kernel | None:
        return Attention("items", LAYER, "user", "bias", "vector", "nearby", "links", TOLD)

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """The mean of the gradients, and a step against it. The third party remembers the vectors it was told."""
        rates = {"items": self.lr_items, **dict.fromkeys(LAYER, self.lr_layer)}
        vectors = held[VECTORS].copy()
        for users, told in total.told[TOLD]:
            vectors[users] = told
        return {**step_along(held, total.sums, total.weight, rates), VECTORS: vectors}
