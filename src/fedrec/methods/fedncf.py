"""FedNCF: a shared neural score function over a private user vector and shared item rows.

Perifanis & Efraimidis, "Federated Neural Collaborative Filtering", Knowledge-Based Systems 2022.

``model=neumf`` sets a product of vectors beside the layers (He et al., "Neural Collaborative
Filtering", WWW 2017), and ``server=adam`` has clients send a gradient instead of training the shared
part: what FedRecGEL (Yu et al., WWW 2026) is built on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PrivateAttr, model_validator

from fedrec.core.federated import Params, Total
from fedrec.core.gradient import Batch, GradientMethod, Group
from fedrec.core.layers import mlp, mlp_slots
from fedrec.core.moments import ServerAdam, moment_slots
from fedrec.core.optim import SGD, Adam
from fedrec.core.slots import Array, Catalog, Slot, normal, private, shared, uniform, zeros

NEUMF_HIDDEN = (128, 64, 32)
SMALL = 0.01  # spread of NeuMF's embeddings at the start; PyTorch's default of 1 learns far slower


class FedNCF(GradientMethod):
    name: ClassVar[str] = "fedncf"
    citation: ClassVar[str] = "Perifanis & Efraimidis, Knowledge-Based Systems 2022"
    use_when: ClassVar[str] = "you need a neural score function that all clients share"
    reveals: ClassVar[str] = (
        "touched rows are the client's positives and sampled negatives; the layers' move adds to it"
    )

    model: Literal["mlp", "neumf"] = Field("mlp", description="layers alone, or beside a product of vectors")
    server: Literal["mean", "adam"] = Field(
        "mean", description="mean of the clients' models, or an Adam step on the mean of their gradients"
    )
    dim: int = Field(32, ge=1, le=4096, description="length of user and item vectors")
    dim_mlp: int = Field(128, ge=1, le=4096, description="neumf: length of the vectors that enter the layers")
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (32, 16, 8), min_length=1, description="hidden layers; for neumf 128,64,32"
    )
    # The paper does not publish its learning rates: found on validation (ML-100K, protocol paper).
    lr: float = Field(15.0, gt=0, description="learning rate of the user vector")
    eta: float = Field(40.0, gt=0, description="item learning rate = items of the catalogue × eta")
    lr_layers: float = Field(1.0, gt=0, description="learning rate of the layers")
    lr_server: float = Field(0.001, gt=0, description="server=adam: learning rate of the shared part")
    participation: float = Field(
        1.0, gt=0, le=1, description="share of clients a round, if --clients is not given"
    )

    _alone: bool = PrivateAttr(False)

    @model_validator(mode="before")
    @classmethod
    def _layers_of_the_model(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("model") == "neumf":
            return {"hidden": NEUMF_HIDDEN, **values}
        return values

    @model_validator(mode="after")
    def _one_gradient(self) -> FedNCF:
        if self.server == "adam" and self.epochs > 1:
            raise ValueError(
                f"server=adam sends one gradient a round: epochs={self.epochs} has no meaning, use 1"
            )
        return self

    @property
    def default_clients(self) -> float | None:  # type: ignore[override]
        return None if self.participation == 1 else self.participation

    @property
    def sends(self) -> Literal["moves", "gradients"]:  # type: ignore[override]
        return "gradients" if self.server == "adam" else "moves"

    @property
    def tunes_rows(self) -> bool:  # type: ignore[override]
        return self.server == "mean"

    def alone(self) -> FedNCF:
        copy = self.model_copy()
        copy._alone = True
        return copy

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        slots = self._neumf(catalog) if self.model == "neumf" else self._layers(catalog)
        if self.server == "adam":
            mine = [n for n, s in slots.items() if s.owner == "private"]
            servers = [n for n, s in slots.items() if s.owner == "shared"]
            slots |= moment_slots(slots, mine, "private") | moment_slots(slots, servers, "server")
        return slots

    def _layers(self, catalog: Catalog) -> dict[str, Slot]:
        return {
            "user": private(self.dim, start=normal(1.0)),
            "items": shared(catalog.n_items, self.dim, start=normal(1.0), rows=True),
            **mlp_slots("layer", (2 * self.dim, *self.hidden, 1), "shared"),
        }

    def _neumf(self, catalog: Catalog) -> dict[str, Slot]:
        joined = self.dim + self.hidden[-1]
        return {
            "user": private(self.dim, start=normal(SMALL)),
            "user_mlp": private(self.dim_mlp, start=normal(SMALL)),
            "items": shared(catalog.n_items, self.dim, start=normal(SMALL), rows=True),
            "items_mlp": shared(catalog.n_items, self.dim_mlp, start=normal(SMALL), rows=True),
            **mlp_slots("layer", (2 * self.dim_mlp, *self.hidden), "shared", xavier=True),
            "output_w": shared(joined, start=uniform(math.sqrt(3 / joined))),  # Kaiming, for a sigmoid
            "output_b": shared(1, start=zeros()),
        }

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        slots = self.slots(catalog)
        users = tuple(n for n in slots if n.startswith("user"))
        items = tuple(n for n in slots if n.startswith("items"))
        layers = tuple(n for n in slots if n.startswith(("layer", "output")))
        if self.server == "adam":
            # A step of rate 1: the move is minus the gradient. Without a server the device takes its step.
            step = Adam(self.lr_server) if self._alone else SGD(1.0)
            return [
                Group(users, Adam(self.lr, keeps=True), "private"),
                Group((*items, *layers), step, "shared"),
            ]
        return [
            Group(users, SGD(self.lr), "private"),
            Group(items, SGD(catalog.n_items * self.eta), "shared"),
            Group(layers, SGD(self.lr_layers), "shared"),
        ]

    def logits(self, p: Any, i: Any) -> Any:
        from torch import cat, relu

        neumf = self.model == "neumf"
        rows, user = (p.items_mlp[i], p.user_mlp) if neumf else (p.items[i], p.user)
        if not neumf:
            return mlp(p, "layer", len(self.hidden) + 1, user, rows)[..., 0]
        deep = relu(mlp(p, "layer", len(self.hidden), user, rows))
        return cat([p.user * p.items[i], deep], dim=-1) @ p.output_w + p.output_b

    def cut(self, samples: Batch) -> Iterator[Batch]:
        """With ``server=adam`` all samples at once: one gradient of the whole round's loss is sent."""
        return super().cut(samples) if self.server == "mean" else iter((samples,))

    def loss(self, p: Params, batch: Batch) -> Any:
        """Mean cross-entropy of a batch; with ``server=adam`` the sum of it over the round's batches."""
        if self.server == "mean":
            return super().loss(p, batch)
        from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy
        from torch.nn.functional import pad

        terms = cross_entropy(self.logits(self.tables(p), batch.items), batch.labels, reduction="none")
        short = -len(batch.items) % self.batch_size

        def by_batch(x: Any) -> Any:
            return pad(x, (0, short)).reshape(-1, self.batch_size).sum(1)

        return (by_batch(terms * batch.mask) / by_batch(batch.mask).clamp(min=1)).sum()

    def merge(self, held: dict[str, Array], total: Total) -> dict[str, Array]:
        if self.server == "mean":
            return super().merge(held, total)
        gradients = {name: -move / total.weight for name, move in total.sums.items()}
        return ServerAdam(self.lr_server).move(held, gradients)
