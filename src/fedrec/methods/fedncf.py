"""FedNCF: a shared neural score function over a private user vector and shared item rows.

Perifanis & Efraimidis, "Federated Neural Collaborative Filtering", Knowledge-Based Systems 2022.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedrec.core.gradient import GradientMethod, Group
from fedrec.core.layers import mlp, mlp_slots
from fedrec.core.optim import SGD
from fedrec.core.slots import Catalog, Slot, normal, private, shared


class FedNCF(GradientMethod):
    name: ClassVar[str] = "fedncf"
    citation: ClassVar[str] = "Perifanis & Efraimidis, Knowledge-Based Systems 2022"
    use_when: ClassVar[str] = "you need a neural score function that all clients share"
    reveals: ClassVar[str] = (
        "touched rows are the client's positives and sampled negatives; the layers' move adds to it"
    )

    dim: int = Field(32, ge=1, le=4096, description="length of user and item vectors")
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (32, 16, 8), min_length=1, description="hidden layers"
    )
    # The paper does not publish its learning rates: found on validation (ML-100K, protocol paper).
    lr: float = Field(10.0, gt=0, description="learning rate of the user vector")
    eta: float = Field(60.0, gt=0, description="item learning rate = items of the catalogue × eta")
    lr_layers: float = Field(1.0, gt=0, description="learning rate of the layers")

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        return {
            "user": private(self.dim, start=normal(1.0)),
            "items": shared(catalog.n_items, self.dim, start=normal(1.0), rows=True),
            **mlp_slots("layer", (2 * self.dim, *self.hidden, 1), "shared"),
        }

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        layers = tuple(name for name in self.slots(catalog) if name.startswith("layer"))
        return [
            Group(("user",), SGD(self.lr), "private"),
            Group(("items",), SGD(catalog.n_items * self.eta), "shared"),
            Group(layers, SGD(self.lr_layers), "shared"),
        ]

    def logits(self, p: Any, i: Any) -> Any:
        from torch import cat

        rows = p.items[i]
        both = cat([p.user.expand(*rows.shape[:-1], -1), rows], dim=-1)
        return mlp(p, "layer", len(self.hidden) + 1, both)[..., 0]
