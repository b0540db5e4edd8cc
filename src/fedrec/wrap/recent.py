"""Recency over any gradient method: what a person met last counts more in what their device keeps of them.

A device knows in which order its owner met things. The arrays of its own learn from samples that are weighted by the
age of the positive that they belong to, in positions from the newest (0), a negative like the positive that it was
drawn with:

    weight = floor + (1 − floor)·½^(age / half_life),   over the mean of these over the device's history.

The loss of a batch is over how many samples it has, so that a batch of old ones moves less. What is shared learns from
all samples alike: what an item is does not hang on when somebody met it. With floor 1 it is the base.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedrec.core.federated import Batch, Params, Phase
from fedrec.core.kernel import Kernel
from fedrec.core.recency import Recency
from fedrec.core.recipe import Recipe
from fedrec.core.settings import Search
from fedrec.core.slots import Catalog
from fedrec.core.wrapper import Wrapper


class Recent(Wrapper):
    name: ClassVar[str] = "recent"
    citation: ClassVar[str] = "our own"
    use_when: ClassVar[str] = "people's tastes move on and your data say in which order they met things"
    seams: ClassVar[tuple[str, ...]] = ("loss",)
    weighs: ClassVar[bool] = True

    half_life: Annotated[float, Search(1, 100, log=True)] = Field(
        10.0, gt=0, description="positions after which the weight of a positive, above the floor, is halved"
    )
    floor: Annotated[float, Search(0, 1)] = Field(
        0.05, ge=0, le=1, description="what the oldest still count; 1: as much as the newest"
    )

    @property
    def reveals(self) -> str:  # type: ignore[override]
        return f"{self.base.reveals}; nothing more is sent, and it is made of old and new positives alike"

    def note(self, catalog: Catalog) -> str:
        if catalog.ordered:
            return ""
        return (
            f"recency is off: the data do not say in which order things were met; this is {self.base.label}"
        )

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        return self._weighted(self.base.plan(catalog, round), catalog)

    def rebuild(self, catalog: Catalog, round: int) -> list[Phase]:
        return self._weighted(self.base.rebuild(catalog, round), catalog)

    def _weighted(self, plan: list[Phase], catalog: Catalog) -> list[Phase]:
        recency = Recency(self.half_life, self.floor) if catalog.ordered else None
        return [replace(phase, recency=recency) for phase in plan]

    @cached_property
    def shared(self) -> frozenset[str]:
        return frozenset(n for n, s in self.slots(Catalog(1, 1)).items() if s.owner == "shared")

    def loss(self, p: Params, batch: Batch) -> Any:
        """The loss over samples that count alike; its gradient in the device's own arrays is of the weighted one."""
        own = {n: v.detach() if n in self.shared else v for n, v in p.items()}
        others = {n: v if n in self.shared else v.detach() for n, v in p.items()}
        weighted = self.base.loss(own, batch)
        return self.base.loss(others, batch._replace(weight=batch.mask)) + weighted - weighted.detach()

    def kernel(self, catalog: Catalog) -> Kernel | None:
        return self.base.kernel(catalog)

    def recipe(self, catalog: Catalog) -> Recipe | None:
        return self.base.recipe(catalog)
