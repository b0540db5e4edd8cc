"""PFedRec: a personal score function, and item rows that each client tunes for itself.

Zhang, Long, Zhou, Yan, Zhang, Zhang & Yang, "Dual Personalization on Federated Recommendation",
IJCAI 2023, Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedrec.core.federated import Group, Params, RanksWith
from fedrec.core.gradient import GradientMethod, mildly
from fedrec.core.kernel import Kernel, LogLinear, Mlp
from fedrec.core.layers import mlp, mlp_names, mlp_slots
from fedrec.core.optim import SGD
from fedrec.core.recipe import Recipe, layers, rows
from fedrec.core.settings import Search
from fedrec.core.slots import Catalog, Slot, normal, private, shared, uniform


class PFedRec(GradientMethod):
    name: ClassVar[str] = "pfedrec"
    citation: ClassVar[str] = "Zhang et al., IJCAI 2023"
    use_when: ClassVar[str] = (
        "you reproduce the dual personalization paper, or want item rows of each client's own"
    )
    reveals: ClassVar[str] = (
        "touched rows are the client's positives and sampled negatives, told apart by their sign"
    )

    dim: Annotated[int, Search(8, 128, log=True)] = Field(
        32, ge=1, le=4096, description="length of the item vectors"
    )
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (), description="hidden layers of the score function; none is the paper's one-layer form"
    )
    lr: Annotated[float, Search(0.01, 1, log=True)] = Field(
        0.1, gt=0, description="learning rate of the score function"
    )
    eta: Annotated[float, Search(5, 1000, log=True)] = Field(
        80.0, gt=0, description="item learning rate = lr × items of the catalogue × eta"
    )
    mild: Annotated[float, Search(0.001, 1, log=True)] = Field(
        1.0,
        ge=0,
        le=1,
        description="share of its local move that an own row keeps to rank with; 1: all, the paper's",
    )

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        items = {"items": shared(catalog.n_items, self.dim, start=normal(1.0), rows=True)}
        if self.hidden:
            return items | mlp_slots("score", (self.dim, *self.hidden, 1), "private")
        start = uniform(1 / math.sqrt(self.dim))
        return items | {"score": private(self.dim, start=start), "bias": private(start=start)}

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        score = tuple(name for name in self.slots(catalog) if name != "items")
        lr_items = self.lr * catalog.n_items * self.eta
        return [Group(score, SGD(self.lr), "private"), Group(("items",), SGD(lr_items), "shared")]

    def kernel(self, catalog: Catalog) -> Kernel | None:
        if self.hidden:
            names = mlp_names("score", len(self.hidden) + 1)
            return Mlp("items", None, *names, in_turn=True, mild=self.mild)
        return LogLinear("items", "score", "bias", in_turn=True, mild=self.mild)

    def recipe(self, catalog: Catalog) -> Recipe | None:
        if self.hidden:
            return Recipe(layers("score", len(self.hidden) + 1, rows("items")))
        return super().recipe(catalog)

    def logits(self, p: Any, i: Any) -> Any:  # Eq. 6
        if self.hidden:
            return mlp(p, "score", len(self.hidden) + 1, p.items[i])[..., 0]
        return p.items[i] @ p.score + p.bias

    def turns(self, groups: Sequence[Group]) -> list[Sequence[Group]]:
        return [
            [group] for group in groups
        ]  # line 9: the score function, then line 11: the items, at the new one

    def keep(self, shared: Params, p: Params) -> Params:
        return mildly(shared, p, ("items",), self.mild)

    def view(self) -> RanksWith:
        return "tuned"  # the device's own copy of the items ranks
