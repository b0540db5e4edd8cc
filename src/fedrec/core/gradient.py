"""Gradient methods: a loss and an ordered list of parameter groups; ``fit`` follows from them.

The code is for ONE client. Engines run it for a whole block of clients at once with
``torch.func.vmap``, so it must be free of side effects and of branches on values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar

from pydantic import Field

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Batch, Federated, Group, Params, Phase, row_names
from fedrec.core.slots import Catalog
from fedrec.core.tables import tables

Loss = Callable[[Params], Any]


def gradient(loss: Loss, p: Params, names: Sequence[str]) -> tuple[Params, Any]:
    """The gradient of the loss in some of the arrays, and its value."""
    from torch.func import grad_and_value

    return grad_and_value(lambda part: loss({**p, **part}))({name: p[name] for name in names})


def choose(active: Any, moved: Params, p: Params) -> Params:
    """The arrays after a step where a client is active, as they were elsewhere; exact, and quicker than ``where``."""

    def one(v: Any, before: Any) -> Any:
        if v is before:
            return v
        return before.lerp(v, active.to(v.dtype).reshape((*active.shape, *[1] * (v.dim() - active.dim()))))

    return {n: one(v, p[n]) for n, v in moved.items()}


def mildly(shared: Params, p: Params, tables: Collection[str], share: float) -> Params:
    """Rows that a device ranks with keep this share of their move; a table that is never aggregated is its own."""
    if share == 1:
        return p
    return p | {n: shared[n] + share * (p[n] - shared[n]) for n in tables if n in shared}


class GradientMethod(Federated):
    """Trained by local gradient steps. Wrappers change it at four seams: receive, loss, step, view."""

    closed: ClassVar[str] = ""  # why no wrapper goes over it, where that is so
    weighs: ClassVar[bool] = True  # its loss reads ``Batch.weight``; a class with another loss says so anew
    by_turns: ClassVar[bool] = True  # its step is a gradient step of each of its turns; so for another step

    batch_size: int = Field(256, ge=1, description="samples per local step")
    epochs: int = Field(1, ge=1, description="passes over a client's samples in a round")
    tolerance: float = Field(
        0.0, ge=0, description="stop local epochs at a smaller relative change of loss; 0: never"
    )

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "loss" in vars(cls) and "weighs" not in vars(cls):
            cls.weighs = False
        if "step" in vars(cls) and "by_turns" not in vars(cls):
            cls.by_turns = False

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        """Which slots move, how fast, in which order."""
        raise FedrecError(f"{self.label} does not say what it trains: give it 'groups' or a 'plan'")

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        return [Phase(self.groups(catalog, round), self.epochs)]

    # -- the seams -----------------------------------------------------------------------------

    def receive(self, shared: Params, private: Params) -> Params:
        """How the downloaded part meets what the device kept."""
        return {**shared, **private}

    def loss(self, p: Params, batch: Batch) -> Any:
        """Mean binary cross-entropy over the batch's samples: weighted terms, over how many samples they are."""
        from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

        x = self.logits(self.tables(p), batch.items)
        terms = cross_entropy(x, batch.labels, reduction="none") * batch.weight
        return terms.sum() / batch.mask.sum().clamp(min=1)

    def turns(self, groups: Sequence[Group]) -> list[Sequence[Group]]:
        """Which groups move together, one after the other: all at once."""
        return [groups]

    def step(self, loss: Loss, p: Params, groups: Sequence[Group]) -> tuple[Params, Any]:
        """How gradients become moves."""
        for turn in self.turns(groups):
            grads, value = gradient(loss, p, [name for group in turn for name in group.names])
            for group in turn:
                p = group.optimizer.move(p, grads, group.names)
        return p, value

    # -- what follows from them ----------------------------------------------------------------

    def fit(
        self, shared: Params, private: Params, passes: Sequence[Batch], plan: list[Phase]
    ) -> tuple[Params, Params, Any]:
        p, loss = self._descend(self.receive(shared, private), passes, plan)
        p = self.finish(p, passes)
        sent = self.send(shared, p) if shared else {}
        return self.keep(shared, p), sent, loss

    def batches(self, samples: Batch) -> Iterator[Batch]:
        """What a client steps on, one after the other: little is padding, as a block's clients are of a size."""
        for start in range(0, samples.items.shape[0], self.batch_size):
            yield Batch(*(x[start : start + self.batch_size] for x in samples))

    def finish(self, p: Params, passes: Sequence[Batch]) -> Params:
        """What a device makes of its arrays once it has trained."""
        return p

    def send(self, shared: Params, p: Params) -> Params:
        """What leaves the client: how far it moved the shared slots."""
        return {name: p[name] - shared[name] for name in shared}

    def keep(self, shared: Params, p: Params) -> Params:
        """What the device ranks with and holds on to once it has sent: what it trained."""
        return p

    def tables(self, p: Params) -> SimpleNamespace:
        """The arrays as attributes, those with a row per item indexed by item."""
        return tables(p, self.row_slots)

    @cached_property
    def row_slots(self) -> frozenset[str]:
        """Tables with a row per item: its own, and those that a server makes for single clients."""
        service = self.service(Catalog(1, 1), 0)
        return row_names({**self.slots(Catalog(1, 1)), **(service.given if service else {})})

    def _descend(self, p: Params, passes: Sequence[Batch], plan: list[Phase]) -> tuple[Params, Any]:
        """All phases, epochs and batches: the arrays afterwards, and the loss of the last epoch."""
        import torch

        at = iter(passes)
        total = last = shown = torch.zeros(())
        for phase in plan:
            running = torch.ones((), dtype=torch.bool)
            p = {**p, **{name: torch.tensor(value) for name, value in phase.terms.items()}}
            for group in phase.groups:
                p = {**p, **group.optimizer.begin(p, group.names)}
            for epoch in range(phase.epochs):
                total, seen = torch.zeros(()), torch.zeros(())
                place = 0
                for batch in self.batches(next(at)):
                    count = batch.mask.sum()
                    moved, value = self.step(lambda q, b=batch: self.loss(q, b), p, phase.groups)  # type: ignore[misc]
                    if (
                        self.tolerance > 0 or place >= phase.least
                    ):  # padding, or stopped early: stays where it is
                        moved = choose(running & (count > 0), moved, p)
                    place += batch.items.shape[0]
                    p = moved
                    total, seen = total + value * count, seen + count
                total = total / seen.clamp(min=1)
                shown = torch.where(running, total, shown)  # of the last epoch that the client took part in
                if self.tolerance > 0:
                    if epoch > 0:
                        running = running & ((last - total).abs() > self.tolerance * last.abs())
                    last = torch.where(running, total, last)
        return p, shown
