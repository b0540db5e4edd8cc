"""Wrappers: strategies that go over any gradient method, at four seams: receive, loss, step, view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from pydantic import SerializeAsAny

from fedrec.core.errors import FedrecError
from fedrec.core.federated import (
    Batch,
    Context,
    Group,
    Introduced,
    Params,
    Phase,
    RanksWith,
    Service,
)
from fedrec.core.gradient import GradientMethod, Loss
from fedrec.core.kernel import Kernel
from fedrec.core.method import Method, check_named
from fedrec.core.optim import Gradient
from fedrec.core.ragged import Ragged
from fedrec.core.recipe import Recipe
from fedrec.core.slots import Arrays, Catalog, Slot
from fedrec.core.trials import Trials
from fedrec.core.upload import Total, Uploads


def chain(method: Method) -> Iterator[Method]:
    """A method with everything under it, the outermost first."""
    yield method
    if isinstance(method, Wrapper):
        yield from chain(method.base)


def sends_gradients(method: GradientMethod) -> bool:
    """Whether its server steps with gradients, so that clients do not move the shared part themselves."""
    groups = [g for phase in method.plan(Catalog(1, 1), 1) for g in phase.groups]
    return any(isinstance(g.optimizer, Gradient) for g in groups)


class Wrapper(GradientMethod):
    """Passes everything on to its base; a strategy overrides the seams that it changes."""

    seams: ClassVar[tuple[str, ...]]  # what it changes, and so what its base must have
    weighs: ClassVar[bool] = True  # it passes its base's loss on
    by_turns: ClassVar[bool] = True  # and its step
    base: SerializeAsAny[GradientMethod]

    def __init__(self, base: Method, **settings: Any) -> None:
        check_named(type(self))
        if not isinstance(base, Method):
            raise FedrecError(
                f"{self.name} goes over a method, not over {base!r}: give an object such as FedMF()"
            )
        if not isinstance(base, GradientMethod):
            missing = " and ".join(f"'{seam}'" for seam in getattr(self, "seams", ("loss", "step")))
            raise FedrecError(
                f"{self.name} goes over methods trained by gradient steps: {base.label} has no {missing}"
            )
        if self.name in (part.name for part in chain(base)):
            raise FedrecError(f"{base.label} has {self.name} in it already: put it over once")
        if base.closed:
            raise FedrecError(f"{self.name} does not go over {base.label}: {base.closed}")
        if type(base).fit is not GradientMethod.fit:
            raise FedrecError(
                f"{self.name} does not go over {base.label}: it has a 'fit' of its own, which a wrapper would pass by; "
                "say what it does after training in 'finish'"
            )
        for name in GradientMethod.model_fields:  # how a client passes over its data is the base's affair
            if name in settings:
                raise FedrecError(
                    f"{name} is a setting of {base.label}, not of {self.name}: give it to the base"
                )
            settings[name] = getattr(base, name)
        super().__init__(base=base, **settings)  # type: ignore[call-arg]

    @property
    def label(self) -> str:
        return f"{self.base.label}+{self.name}"

    @property
    def reveals(self) -> str:  # type: ignore[override]
        return self.base.reveals

    def kernel(self, catalog: Catalog) -> Kernel | None:
        return None  # a wrapper that knows its kernel says so

    def recipe(self, catalog: Catalog) -> Recipe | None:
        return None  # and so for its recipe

    # -- forwarded: a test holds that nothing is missing ---------------------------------------

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        return self.base.slots(catalog)

    def uploads(self, catalog: Catalog) -> Uploads:
        return self.base.uploads(catalog)

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        return self.base.groups(catalog, round)

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        return self.base.plan(catalog, round)

    def rebuild(self, catalog: Catalog, round: int) -> list[Phase]:
        return self.base.rebuild(catalog, round)

    def receive(self, shared: Params, private: Params) -> Params:
        return self.base.receive(shared, private)

    def logits(self, p: Any, i: Any) -> Any:
        return self.base.logits(p, i)

    def loss(self, p: Params, batch: Batch) -> Any:
        return self.base.loss(p, batch)

    def batches(self, samples: Batch) -> Iterator[Batch]:
        return self.base.batches(samples)

    def turns(self, groups: Sequence[Group]) -> list[Sequence[Group]]:
        return self.base.turns(groups)

    def step(self, loss: Loss, p: Params, groups: Sequence[Group]) -> tuple[Params, Any]:
        return self.base.step(loss, p, groups)

    def finish(self, p: Params, passes: Sequence[Batch]) -> Params:
        return self.base.finish(p, passes)

    def send(self, shared: Params, p: Params) -> Params:
        return self.base.send(shared, p)

    def keep(self, shared: Params, p: Params) -> Params:
        return self.base.keep(shared, p)

    def view(self) -> RanksWith:
        return self.base.view()

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        return self.base.merge(held, total, context)

    def introduce(self, items: Ragged, private: Arrays, salt: int) -> Introduced | None:
        return self.base.introduce(items, private, salt)

    def trials(self, catalog: Catalog) -> Trials | None:
        return self.base.trials(catalog)

    def service(self, catalog: Catalog, seed: int) -> Service | None:
        return self.base.service(catalog, seed)

    def diagnose(self, shared: Arrays) -> dict[str, Any]:
        return self.base.diagnose(shared)
