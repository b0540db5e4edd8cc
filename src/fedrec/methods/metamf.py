"""MetaMF: a server's meta network makes a small model for every client.

Lin, Ren, Chen, Ren, Yu, Ma, de Rijke & Cheng, "Meta Matrix Factorization for Federated Rating
Predictions", SIGIR 2020, with cross-entropy on sampled negatives in place of ratings.

The server keeps a vector of every user, a shared memory, and the network that turns them into a
client's item table (M × k)(k × d) and predictor d-h-1. A client downloads its model, computes the
gradient of its loss on its own samples, and returns that; the server back-propagates it through the
network. Nothing is kept on the device.

This is less private than keeping the user's vector on the device: the server holds a profile of every
user and must see every client's gradient by itself, so secure aggregation cannot be put over it.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from fedrec.core.federated import Federated, Params, Total
from fedrec.core.gradient import Phase
from fedrec.core.moments import ServerAdam, moment_slots
from fedrec.core.slots import Array, Catalog, Slot, normal, server, shared, uniform, zeros


class MetaMF(Federated):
    name: ClassVar[str] = "metamf"
    citation: ClassVar[str] = "Lin et al., SIGIR 2020"
    use_when: ClassVar[str] = "devices hold no state and the server may know its users; the least private"
    reveals: ClassVar[str] = (
        "the server keeps a vector of every user, and reads each gradient alone: its rows are the client's "
        "positives and sampled negatives, told apart by their sign"
    )
    tunes_rows: ClassVar[bool] = False
    bound: ClassVar[bool] = True  # a vector of every user, and a network with outputs for every item

    dim: int = Field(32, ge=4, le=4096, description="length of user vectors and of generated item rows")
    rank: int = Field(8, ge=1, description="a client's item table is (items × rank)(rank × dim)")
    predictor: int = Field(8, ge=1, description="hidden units of a client's predictor")
    memory: int = Field(128, ge=1, description="columns of the shared memory")
    hidden: int = Field(512, ge=1, description="hidden units of the meta network")
    lr: float = Field(0.001, gt=0, description="the server's learning rate (Adam); found on validation")
    l2: float = Field(0.00003, ge=0, description="weight decay; found on validation")
    std: float = Field(0.03, gt=0, description="spread of the first user vectors; found on validation")
    steps: int = Field(
        8,
        ge=1,
        description="the server's steps in a round: clients come in so many groups; found on validation",
    )

    @property
    def turns(self) -> int:  # type: ignore[override]
        return self.steps

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        """All of them the server's. What goes to a client is made from them for that client alone."""
        own = self.network(catalog)
        return own | moment_slots(own, own, "server")

    def network(self, catalog: Catalog) -> dict[str, Slot]:
        """User vectors, memory, and three branches: item table, first and second layer of the predictor."""
        m, k, d, h = catalog.n_items, self.rank, self.dim, self.predictor

        def layer(name: str, outputs: int, inputs: int) -> dict[str, Slot]:
            start = uniform(1 / math.sqrt(inputs))
            return {
                f"{name}_w": server(outputs, inputs, start=start),
                f"{name}_b": server(outputs, start=start),
            }

        return {
            "users": server(catalog.n_users, d, start=normal(self.std)),
            "memory": server(d, self.memory, start=normal(math.sqrt(2 / (d + self.memory)))),
            **layer("table", self.hidden, self.memory),
            **layer("left", m * k, self.hidden),
            **layer("right", k * d, self.hidden),
            **layer("first", self.hidden, self.memory),
            **layer("first_weight", d * h, self.hidden),
            **layer("first_bias", h, self.hidden),
            **layer("second", self.hidden, self.memory),
            **layer("second_weight", h, self.hidden),
            **layer("second_bias", 1, self.hidden),
        }

    def uploads(self, catalog: Catalog) -> dict[str, Slot]:
        """Gradients of what the client was given: item rows that it touched, and its predictor."""
        return {
            "items": shared(catalog.n_items, self.dim, start=zeros(), rows=True),
            "w1": shared(self.dim, self.predictor, start=zeros()),
            "b1": shared(self.predictor, start=zeros()),
            "w2": shared(self.predictor, start=zeros()),
            "b2": shared(start=zeros()),
        }

    def made(self, catalog: Catalog) -> dict[str, Slot]:
        """A client's model, its item table in two factors."""
        left, right = (catalog.n_items, self.rank), (self.rank, self.dim)
        predictor = {n: s for n, s in self.uploads(catalog).items() if n != "items"}
        return {"left": shared(*left, start=zeros()), "right": shared(*right, start=zeros()), **predictor}

    def generate(self, p: Params, users: Any) -> Params:
        """The models of some users: collaborative memory (Eq. 2), then the meta recommender (Eq. 4-7).

        Tables are left in their two factors.
        """
        from torch import relu
        from torch.nn.functional import linear

        def layer(name: str, x: Any) -> Any:
            return linear(x, p[f"{name}_w"], p[f"{name}_b"])

        mixed = p["users"][users] @ p["memory"]
        table, first, second = (relu(layer(name, mixed)) for name in ("table", "first", "second"))
        return {
            "left": layer("left", table).unflatten(-1, (-1, self.rank)),
            "right": layer("right", table).unflatten(-1, (self.rank, self.dim)),
            "w1": layer("first_weight", first).unflatten(-1, (self.dim, self.predictor)),
            "b1": layer("first_bias", first),
            "w2": layer("second_weight", second),
            "b2": layer("second_bias", second)[..., 0],
        }

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        return [Phase([])]  # one pass, no local step: a client returns its gradient

    def receive(self, shared: Params, private: Params) -> Params:
        return {**shared, **private}

    def fit(self, p: Params, passes: Any, plan: list[Phase]) -> tuple[Params, Any]:
        """One client: the gradient of its mean loss in the model that it was given."""
        from torch.func import grad_and_value
        from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

        (batch,) = passes

        def loss(model: Params) -> Any:
            terms = cross_entropy(
                self.logits(self.tables(model), batch.items), batch.labels, reduction="none"
            )
            return (terms * batch.mask).sum() / batch.mask.sum().clamp(min=1)

        gradient, value = grad_and_value(loss)(p)
        return gradient, value

    def logits(self, p: Any, i: Any) -> Any:
        """The client's predictor on its generated rows: d inputs, one hidden layer, one output."""
        from torch import relu

        return relu(p.items[i] @ p.w1 + p.b1) @ p.w2 + p.b2

    def upload(self, shared: Params, p: Params) -> Params:
        return p  # fit's gradient is all there is

    def weight(self, samples: Any) -> Any:
        return samples.astype(np.float32)  # the sum of losses over all samples, whoever has them

    @property
    def row_slots(self) -> frozenset[str]:
        return frozenset({"items"})

    def merge(self, held: dict[str, Array], total: Total) -> dict[str, Array]:
        """One step of Adam with the mean over samples of the back-propagated gradients."""
        weight, decay = np.float32(total.weight), np.float32(self.l2)
        slopes = {name: value / weight + decay * held[name] for name, value in total.sums.items()}
        return ServerAdam(self.lr).move(held, slopes)
