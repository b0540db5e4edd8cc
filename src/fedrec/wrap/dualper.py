"""Dual personalization over any gradient method: the private part first, then the items, own rows rank.

Zhang et al., "Dual Personalization on Federated Recommendation", IJCAI 2023, Section 6.3 (Table 3).
``fedmf+dualper`` is PFedRec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Group, Params, Phase, RanksWith
from fedrec.core.gradient import Loss, mildly
from fedrec.core.kernel import Kernel, LogLinear, Mixed, Mlp
from fedrec.core.method import Method
from fedrec.core.recipe import Recipe
from fedrec.core.settings import Search
from fedrec.core.slots import Catalog
from fedrec.core.wrapper import Wrapper, sends_gradients


class DualPer(Wrapper):
    name: ClassVar[str] = "dualper"
    citation: ClassVar[str] = "Zhang et al., IJCAI 2023, Table 3"
    use_when: ClassVar[str] = "you want each client to rank with item rows it has tuned itself"
    seams: ClassVar[tuple[str, ...]] = ("step", "view")
    by_turns: ClassVar[bool] = True

    mild: Annotated[float, Search(0.001, 1, log=True)] = Field(
        1.0,
        ge=0,
        le=1,
        description="share of its local move that an own row keeps to rank with; 1: all, the paper's",
    )

    def __init__(self, base: Method, **settings: Any) -> None:
        super().__init__(base, **settings)
        if sends_gradients(self.base):
            raise FedrecError(
                f"dualper ranks with item rows that a client has tuned, but those of {base.label} send a gradient "
                "and tune none: take a method whose clients' moves are averaged"
            )

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        """Algorithm 1 trains both parts on the same samples: a base's halves (FedRecon) become one."""
        return [replace(phase, part="all") for phase in self.base.plan(catalog, round)]

    def kernel(self, catalog: Catalog) -> Kernel | None:
        base = self.base.kernel(catalog)
        if isinstance(base, Mixed):
            return replace(base, base=replace(base.base, in_turn=True))
        if not isinstance(base, LogLinear | Mlp):
            return None
        return replace(base, in_turn=True, mild=base.mild * self.mild)

    def recipe(self, catalog: Catalog) -> Recipe | None:
        return self.base.recipe(catalog)  # of the two turns a newcomer takes the private one

    def turns(self, groups: Sequence[Group]) -> list[Sequence[Group]]:
        return [turn for part in _parts(groups) for turn in self.base.turns(part)]

    def step(self, loss: Loss, p: Params, groups: Sequence[Group]) -> tuple[Params, Any]:
        for part in _parts(groups):  # each in the way of the base
            p, value = self.base.step(loss, p, part)
        return p, value

    def keep(self, shared: Params, p: Params) -> Params:
        return mildly(shared, self.base.keep(shared, p), self.tuned, self.mild)

    @cached_property
    def tuned(self) -> list[str]:
        """Tables of the server that a client moves."""
        slots = self.slots(Catalog(1, 1))
        moved = [n for phase in self.plan(Catalog(1, 1), 1) for g in phase.groups for n in g.names]
        return [n for n in dict.fromkeys(moved) if slots[n].rows and slots[n].owner == "shared"]

    def view(self) -> RanksWith:
        """The tuned copy of the items, where the base tunes one; else whatever its devices keep."""
        return "tuned" if self.tuned else self.base.view()


def _parts(groups: Sequence[Group]) -> list[list[Group]]:
    """The private part, then the shared one."""
    private = [group for group in groups if group.owner != "shared"]
    return [part for part in (private, [group for group in groups if group.owner == "shared"]) if part]
