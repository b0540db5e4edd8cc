"""FedNCF: a shared neural score function over a private user vector and shared item rows.

Perifanis & Efraimidis, "Federated Neural Collaborative Filtering", Knowledge-Based Systems 2022. ``fedncf``
has layers alone; ``fedneumf`` sets a product of vectors beside them (He et al., "Neural Collaborative
Filtering", WWW 2017). Clients train all of it, the server takes the mean.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedrec.core.federated import Group
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import Kernel, Mlp
from fedrec.core.layers import mlp, mlp_names, mlp_slots
from fedrec.core.optim import SGD
from fedrec.core.recipe import Recipe, layers, linear, relu, rows, side_by_side, times, vector
from fedrec.core.settings import Search
from fedrec.core.slots import Catalog, Slot, normal, private, shared, uniform, zeros
from fedrec.core.upload import Uploads

Hidden = tuple[Annotated[int, Field(ge=1)], ...]
SMALL = 0.01  # spread of NeuMF's embeddings at the start; PyTorch's default of 1 learns far slower
LAYERS = 100.0  # what layers count in an upload's norm: they move far less than item rows
REVEALS = "touched rows are the client's positives and sampled negatives; the layers' move adds to it"


def named(slots: dict[str, Slot], *prefixes: str) -> tuple[str, ...]:
    return tuple(name for name in slots if name.startswith(prefixes))


class Layers(GradientMethod):
    """The model of FedNCF: layers on a user vector and an item row, side by side."""

    dim: int = Field(32, ge=1, le=4096, description="length of user and item vectors")
    hidden: Hidden = Field((32, 16, 8), min_length=1, description="hidden layers")

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        return {
            "user": private(self.dim, start=normal(1.0)),
            "items": shared(catalog.n_items, self.dim, start=normal(1.0), rows=True),
            **mlp_slots("layer", (2 * self.dim, *self.hidden, 1), "shared"),
        }

    def logits(self, p: Any, i: Any) -> Any:
        return mlp(p, "layer", len(self.hidden) + 1, p.user, p.items[i])[..., 0]

    def recipe(self, catalog: Catalog) -> Recipe | None:
        return Recipe(layers("layer", len(self.hidden) + 1, side_by_side(vector("user"), rows("items"))))

    def kernel(self, catalog: Catalog) -> Kernel | None:
        return Mlp("items", "user", *mlp_names("layer", len(self.hidden) + 1))


class NeuMF(GradientMethod):
    """The model of NeuMF: a product of vectors beside layers on other vectors."""

    dim: int = Field(32, ge=1, le=4096, description="length of the vectors that are multiplied")
    dim_mlp: int = Field(128, ge=1, le=4096, description="length of the vectors that enter the layers")
    hidden: Hidden = Field((128, 64, 32), min_length=1, description="hidden layers")

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        both = self.dim + self.hidden[-1]
        return {
            "user": private(self.dim, start=normal(SMALL)),
            "user_mlp": private(self.dim_mlp, start=normal(SMALL)),
            "items": shared(catalog.n_items, self.dim, start=normal(SMALL), rows=True),
            "items_mlp": shared(catalog.n_items, self.dim_mlp, start=normal(SMALL), rows=True),
            **mlp_slots("layer", (2 * self.dim_mlp, *self.hidden), "shared", xavier=True),
            "output_w": shared(both, start=uniform(math.sqrt(3 / both))),  # Kaiming, for a sigmoid
            "output_b": shared(1, start=zeros()),
        }

    def logits(self, p: Any, i: Any) -> Any:
        from torch import cat, relu

        deep = relu(mlp(p, "layer", len(self.hidden), p.user_mlp, p.items_mlp[i]))
        return cat([p.user * p.items[i], deep], dim=-1) @ p.output_w + p.output_b

    def recipe(self, catalog: Catalog) -> Recipe | None:
        both = side_by_side(vector("user_mlp"), rows("items_mlp"))
        deep = relu(layers("layer", len(self.hidden), both))
        return Recipe(linear("output_w", "output_b", side_by_side(times("user", rows("items")), deep)))

    def kernel(self, catalog: Catalog) -> Kernel | None:
        weights, biases = mlp_names("layer", len(self.hidden))
        product = ("user", "items")
        return Mlp("items_mlp", "user_mlp", (*weights, "output_w"), (*biases, "output_b"), product)


class Averaged(GradientMethod):
    """Clients train user, items and layers by SGD; their moves are averaged."""

    # The paper does not publish its learning rates: found on validation (ML-100K, protocol paper).
    lr: Annotated[float, Search(0.5, 50, log=True)] = Field(
        15.0, gt=0, description="learning rate of the user vector"
    )
    eta: Annotated[float, Search(1, 200, log=True)] = Field(
        40.0, gt=0, description="item learning rate = items of the catalogue × eta"
    )
    lr_layers: Annotated[float, Search(0.05, 5, log=True)] = Field(
        1.0, gt=0, description="learning rate of the layers"
    )

    def uploads(self, catalog: Catalog) -> Uploads:
        sent = super().uploads(catalog)
        return replace(sent, norms=dict.fromkeys(named(sent.arrays, "layer", "output"), LAYERS))

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        slots = self.slots(catalog)
        return [
            Group(named(slots, "user"), SGD(self.lr), "private"),
            Group(named(slots, "items"), SGD(catalog.n_items * self.eta), "shared"),
            Group(named(slots, "layer", "output"), SGD(self.lr_layers), "shared"),
        ]


class FedNCF(Layers, Averaged):
    name: ClassVar[str] = "fedncf"
    citation: ClassVar[str] = "Perifanis & Efraimidis, Knowledge-Based Systems 2022"
    use_when: ClassVar[str] = "you need a neural score function that all clients share"
    reveals: ClassVar[str] = REVEALS


class FedNeuMF(NeuMF, Averaged):
    name: ClassVar[str] = "fedneumf"
    citation: ClassVar[str] = "Perifanis & Efraimidis 2022, with the model of He et al., WWW 2017"
    use_when: ClassVar[str] = "you want FedNCF with a product of vectors beside the layers"
    reveals: ClassVar[str] = REVEALS
