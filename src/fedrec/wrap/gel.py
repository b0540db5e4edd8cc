"""Sharpness-aware local steps over any gradient method: FedRecGEL's hierarchical perturbation.

Yu et al., "Sharpness-Aware Minimization for Generalized Embedding Learning in Federated
Recommendation" (FedRecGEL), WWW 2026. Each part moves along the gradient taken at the worst point
within a radius of it, the other part left where it is:

    h_shared  = ∇_shared  L(shared + ρ_shared · g/‖g‖, private),
    h_private = ∇_private L(shared, private + ρ_private · g/‖g‖).

With both radii 0 it is the base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedrec.core.federated import Group, Params
from fedrec.core.gradient import Loss, gradient
from fedrec.core.kernel import Kernel, LogLinear, Mlp
from fedrec.core.recipe import Recipe
from fedrec.core.settings import Search
from fedrec.core.slots import Catalog
from fedrec.core.wrapper import Wrapper

TINY = 1e-12


class GEL(Wrapper):
    name: ClassVar[str] = "gel"
    citation: ClassVar[str] = "Yu et al., WWW 2026 (FedRecGEL)"
    use_when: ClassVar[str] = "you want flatter minima of the shared embeddings; expect small differences"
    seams: ClassVar[tuple[str, ...]] = ("step",)

    radius_shared: Annotated[float, Search(0.001, 0.3, log=True)] = Field(
        0.01, ge=0, le=10, description="ρ_co, of the shared part; 0 leaves it plain"
    )
    radius_private: Annotated[float, Search(0.001, 0.3, log=True)] = Field(
        0.01, ge=0, le=10, description="ρ_ur, of the private part; 0 leaves it plain"
    )

    def kernel(self, catalog: Catalog) -> Kernel | None:
        base = self.base.kernel(catalog)
        if not isinstance(base, LogLinear | Mlp):
            return None
        return replace(base, radius_private=self.radius_private, radius_shared=self.radius_shared)

    def recipe(self, catalog: Catalog) -> Recipe | None:
        base = self.base.recipe(catalog)
        return base and replace(base, radius=self.radius_private)

    def step(self, loss: Loss, p: Params, groups: Sequence[Group]) -> tuple[Params, Any]:
        return self.base.step(self._sharp(loss, groups), p, groups)

    def _sharp(self, loss: Loss, groups: Sequence[Group]) -> Loss:
        """The loss, with each owner's gradient taken at that owner's perturbed arrays.

        It is taken at whatever point the base asks for, so a base that moves its groups in turn has
        each perturbed in its turn.
        """
        radii = {"private": self.radius_private, "shared": self.radius_shared}
        parts = {o: [n for g in groups if _side(g) == o for n in g.names] for o in radii}

        def sharp(q: Params) -> Any:
            fixed = {name: value.detach() for name, value in q.items()}
            slopes, value = gradient(loss, fixed, [n for names in parts.values() for n in names])
            slopes = {name: slope.detach() for name, slope in slopes.items()}
            total: Any = 0.0
            for owner, names in parts.items():
                if radii[owner] > 0 and names:
                    norm = sum((slopes[n] ** 2).sum() for n in names) ** 0.5
                    moved = {n: q[n] + radii[owner] * slopes[n] / (norm + TINY) for n in names}
                    total = total + loss({**fixed, **moved})
                else:  # the gradient as it is
                    total = total + sum((q[n] * slopes[n]).sum() for n in names)
            return value.detach() + (total - total.detach())  # the value is the loss itself

        return sharp


def _side(group: Group) -> str:
    return "shared" if group.owner == "shared" else "private"
