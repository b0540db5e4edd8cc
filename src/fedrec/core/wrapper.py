"""Wrappers: strategies that go over any gradient method, at four seams: receive, loss, step, view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from pydantic import SerializeAsAny

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Params, Total, View
from fedrec.core.gradient import Batch, GradientMethod, Group, Loss, Phase
from fedrec.core.loglinear import LogLinear
from fedrec.core.method import Method
from fedrec.core.slots import Array, Catalog, Slot


def chain(method: Method) -> Iterator[Method]:
    """A method with everything under it, the outermost first."""
    yield method
    if isinstance(method, Wrapper):
        yield from chain(method.base)


class Wrapper(GradientMethod):
    """Passes everything on to its base; a strategy overrides the seams that it changes."""

    seams: ClassVar[tuple[str, ...]]  # what it changes, and so what its base must have
    base: SerializeAsAny[GradientMethod]

    def __init__(self, base: Method, **settings: Any) -> None:
        if not isinstance(base, GradientMethod):
            missing = " and ".join(f"'{seam}'" for seam in self.seams)
            raise FedrecError(
                f"{self.name} goes over methods trained by gradient steps: {base.label} has no {missing}"
            )
        if self.name in (part.name for part in chain(base)):
            raise FedrecError(f"{base.label} has {self.name} in it already: put it over once")
        if base.closed:
            raise FedrecError(f"{self.name} does not go over {base.label}: {base.closed}")
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

    @property
    def default_view(self) -> View:  # type: ignore[override]
        return self.base.default_view

    @property
    def default_clients(self) -> float | None:  # type: ignore[override]
        return self.base.default_clients

    @property
    def sends(self) -> Literal["moves", "gradients"]:  # type: ignore[override]
        return self.base.sends

    @property
    def tunes_rows(self) -> bool:  # type: ignore[override]
        return self.base.tunes_rows

    @property
    def negatives(self) -> bool:  # type: ignore[override]
        return self.base.negatives

    @property
    def sparse(self) -> bool:
        return self.base.sparse

    @property
    def remedy(self) -> str:
        return self.base.remedy

    def alone(self) -> Wrapper:
        return self.model_copy(update={"base": self.base.alone()})

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        return self.base.slots(catalog)

    def uploads(self, catalog: Catalog) -> dict[str, Slot]:
        return self.base.uploads(catalog)

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        return self.base.plan(catalog, round)

    def log_linear(self) -> LogLinear | None:
        return None  # a wrapper that knows its kernel says so

    def receive(self, shared: Params, private: Params) -> Params:
        return self.base.receive(shared, private)

    def logits(self, p: Any, i: Any) -> Any:
        return self.base.logits(p, i)

    def loss(self, p: Params, batch: Batch) -> Any:
        return self.base.loss(p, batch)

    def cut(self, samples: Batch) -> Iterator[Batch]:
        return self.base.cut(samples)

    def step(self, loss: Loss, p: Params, groups: Sequence[Group]) -> tuple[Params, Any]:
        return self.base.step(loss, p, groups)

    def upload(self, shared: Params, p: Params) -> Params:
        return self.base.upload(shared, p)

    def weight(self, samples: Any) -> Any:
        return self.base.weight(samples)

    def merge(self, held: dict[str, Array], total: Total) -> dict[str, Array]:
        return self.base.merge(held, total)

    def diagnose(self, shared: dict[str, Array], private: dict[str, Array], users: Any) -> dict[str, Any]:
        return self.base.diagnose(shared, private, users)
