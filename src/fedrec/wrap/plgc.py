"""PLGC: a device mixes the frozen global item table with a local one of its own.

Zhao et al., "A Model-agnostic Strategy to Mitigate Embedding Degradation in Personalized Federated
Recommendation" (Personalized Local-Global Collaboration), 2025. Its formulas are not public to us:
what follows is OUR READING OF THE ABSTRACT, not the authors' algorithm.

The global table G of the round stays beside the local table L, which the client trains. How L begins a
round is open (``start``): it persists on the device, is the global table again, or a mixture of both.
Forward, an item is e = a·L + (1 − a)·G, G without gradient, with the weight a from Neural Tangent
Kernels. Backward, a redundancy loss ties each dimension of L to the same dimension of G and frees it from
the others:

    a     = tr K_L / (tr K_L + tr K_G),   K_X = J_X J_Xᵀ,   J_X = ∂σ(f(batch; X)) / ∂X
    L_red = Σ_p (1 − C_pp)² + γ Σ_{p≠q} C_pq²,   C the cross-correlation of L and G over the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Batch, Params, Phase, RanksWith
from fedrec.core.kernel import Kernel, LogLinear, Mixed, Mlp
from fedrec.core.method import Method
from fedrec.core.recipe import Recipe
from fedrec.core.settings import Choice, Search
from fedrec.core.slots import Catalog, Slot, constant, private
from fedrec.core.wrapper import Wrapper, sends_gradients

LEAST, MOST = 0.1, 0.9  # without bounds one large step of L drives the weight to 0, and L learns no more
TINY = 1e-12
FLAT = 1e-6  # dimensions with a smaller spread over a batch say nothing about correlation


class PLGC(Wrapper):
    name: ClassVar[str] = "plgc"
    citation: ClassVar[str] = "Zhao et al., arXiv 2508.19591, 2025 (our reading of the abstract)"
    use_when: ClassVar[str] = (
        "item vectors collapse to few dimensions, or devices should mix in rows of their own"
    )
    seams: ClassVar[tuple[str, ...]] = ("receive", "loss", "view")
    weighs: ClassVar[bool] = (
        True  # the base's loss; the mixture and its redundancy are of rows, not of samples
    )

    start: Annotated[Literal["persist", "refresh", "mix"], Choice("persist", "refresh", "mix")] = Field(
        "persist",
        description="how L begins a round: as the device left it, as the global table, or as a mixture (our readings)",
    )
    carry: Annotated[float, Search(0.01, 1, log=True)] = Field(
        0.1,
        ge=0,
        le=1,
        description="start=mix: how much of L a round begins with; the rest is the global row",
    )
    balance: Annotated[Literal["trace", "alignment", "fixed"], Choice("trace", "fixed")] = Field(
        "trace",
        description="where the weight a comes from: kernel traces, kernel-target alignment, or a number (our readings)",
    )
    share: Annotated[float, Search(0.01, 1, log=True)] = Field(
        0.5, ge=0, le=1, description="balance=fixed: a, the weight of the local table"
    )
    redundancy: Annotated[float, Search(0.0001, 1, log=True)] = Field(
        0.001, ge=0, le=100, description="m, the weight of the redundancy loss; 0: none"
    )
    gamma: Annotated[float, Search(0.001, 0.1, log=True)] = Field(
        0.01, ge=0, le=100, description="γ, of correlations between different dimensions"
    )

    def __init__(self, base: Method, **settings: Any) -> None:
        super().__init__(base, **settings)
        if not self.shared_tables:
            raise FedrecError(f"plgc mixes a shared item table with a local one: {base.label} has none")
        if sends_gradients(self.base):
            raise FedrecError(
                f"plgc uploads a local table that persists, but the server of {base.label} needs a gradient: "
                "take a method whose clients' moves are averaged"
            )
        if self.balance == "alignment" and not self.scorer:
            raise FedrecError(
                f"balance=alignment needs a score function on the device: {base.label} has none"
            )

    @property
    def reveals(self) -> str:  # type: ignore[override]
        return f"{self.base.reveals}; local rows persist, so the more rounds, the more clearly"

    @cached_property
    def shared_tables(self) -> dict[str, str]:
        """The base's item tables, and the names of their local twins."""
        slots = self.base.slots(Catalog(1, 1))
        return {n: f"{n}_local" for n, s in slots.items() if s.rows and s.owner == "shared"}

    @cached_property
    def scorer(self) -> list[str]:
        """What the device scores with besides item rows: the arrays of its own that are trained."""
        slots = self.base.slots(Catalog(1, 1))
        trained = {n for phase in self.base.plan(Catalog(1, 1), 1) for g in phase.groups for n in g.names}
        return [
            n for n, s in slots.items() if n in trained and s.owner in ("private", "fresh") and not s.rows
        ]

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        slots = self.base.slots(catalog)
        # A row that the device has not met is "not a number": it is the global row when first touched.
        unmet = constant(float("nan"))
        local = {
            mine: private(*slots[name].shape, start=unmet, rows=True)
            for name, mine in self.shared_tables.items()
        }
        return slots | local | {"mix": private(start=constant(0.5), reported=True)}

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        """The base's, training the local tables in place of the global ones."""

        def local(phase: Phase) -> Phase:
            groups = [
                replace(g, names=tuple(self.shared_tables.get(n, n) for n in g.names)) for g in phase.groups
            ]
            return replace(phase, groups=groups)

        return [local(phase) for phase in self.base.plan(catalog, round)]

    def kernel(self, catalog: Catalog) -> Kernel | None:
        """The base's with mixed rows. Kernel-target alignment has none: it takes the Jacobian of every sample."""
        base = self.base.kernel(catalog)
        if not isinstance(base, LogLinear | Mlp) or self.balance == "alignment":
            return None
        if base.radius_private > 0 or base.radius_shared > 0:  # steps at perturbed points have none either
            return None
        share = self.share if self.balance == "fixed" else None
        base = replace(base, mild=1.0)  # of rows that are tuned and forgotten: here the device keeps its own
        tables = tuple(self.shared_tables.items())
        return Mixed(base, tables, "mix", share, self.redundancy, self.gamma, self.carried)

    def recipe(self, catalog: Catalog) -> Recipe | None:
        """The base's: the local rows of a newcomer are the global ones, and so is any mixture of the two.

        None where the redundancy loss has a say in when to stop.
        """
        stops = self.tolerance > 0 and self.redundancy > 0
        return None if stops else self.base.recipe(catalog)

    def receive(self, shared: Params, private: Params) -> Params:
        from torch import where

        p = self.base.receive(shared, private)

        def begun(mine: Any, common: Any) -> Any:
            left = mine if self.carried == 1 else self.carried * mine + (1 - self.carried) * common
            return where(mine.isnan(), common, left)

        return p | {mine: begun(p[mine], p[name]) for name, mine in self.shared_tables.items()}

    @property
    def carried(self) -> float:
        """How much of its own row a device begins a round with."""
        return {"persist": 1.0, "refresh": 0.0, "mix": self.carry}[self.start]

    def loss(self, p: Params, batch: Batch) -> Any:
        p, batch = self.gathered(p, batch)
        a = self._balanced(p, batch)
        mixed = {n: a * p[mine] + (1 - a) * p[n].detach() for n, mine in self.shared_tables.items()}
        value = self.base.loss({**p, **mixed}, batch)
        if self.redundancy > 0:
            for name, mine in self.shared_tables.items():
                terms = redundancy(p[mine], p[name].detach(), batch.mask, self.gamma)
                value = value + self.redundancy * terms
        return value

    def gathered(self, p: Params, batch: Batch) -> tuple[Params, Batch]:
        """The rows of a batch in place of the tables, sample by sample: a score depends on its own row only."""
        from torch import arange

        t = self.tables(p)
        rows = {name: getattr(t, name)[batch.items] for name in self.row_slots}
        return {**p, **rows}, batch._replace(items=arange(len(batch.items)))

    def finish(self, p: Params, passes: Sequence[Batch]) -> Params:
        p = self.base.finish(p, passes)
        return {**p, "mix": self.weigh(p, passes[-1])}  # what the device ranks with

    def logits(self, p: Any, i: Any) -> Any:
        mixed = {
            name: Mixture(getattr(p, mine), getattr(p, name), p.mix)
            for name, mine in self.shared_tables.items()
        }
        return self.base.logits(SimpleNamespace(**{**vars(p), **mixed}), i)

    def view(self) -> RanksWith:
        return "kept"  # the device's mixture, with the table as the server has merged it

    def send(self, shared: Params, p: Params) -> Params:
        """How far the local table is from the global one: what the server averages is L."""
        return self.base.send(shared, {**p, **{n: p[mine] for n, mine in self.shared_tables.items()}})

    # -- the weight ----------------------------------------------------------------------------

    def weigh(self, p: Params, batch: Batch) -> Any:
        """a, the weight of the local table for a batch; a number without gradient."""
        return self._balanced(*self.gathered(p, batch))

    def _balanced(self, p: Params, batch: Batch) -> Any:
        import torch

        if self.balance == "fixed":
            return torch.tensor(self.share)
        fixed = {name: value.detach() for name, value in p.items()}
        local = {**fixed, **{n: fixed[mine] for n, mine in self.shared_tables.items()}}
        if self.balance == "trace":
            k_local, k_global = self._trace(local, batch), self._trace(fixed, batch)
            a = (k_local + TINY) / (k_local + k_global + 2 * TINY)
        else:
            a = torch.sigmoid(self._alignment(local, batch) - self._alignment(fixed, batch))
        return a.detach().clamp(LEAST, MOST)

    def _trace(self, p: Params, batch: Batch) -> Any:
        """tr J Jᵀ: the squared lengths of each sample's gradient in its item row.

        After the sigmoid: the logits of a linear scorer have the same gradient in both tables.
        """
        import torch

        linear = self.base.kernel(Catalog(1, 1))
        if isinstance(linear, LogLinear):  # then a sample's gradient is σ'·w: no need to derive it
            x = self.base.logits(self.base.tables(p), batch.items)
            return (_slope(x) ** 2 * batch.mask).sum() * (p[linear.vector] ** 2).sum()

        def f(rows: Params) -> Any:
            x = self.base.logits(self.base.tables({**p, **rows}), batch.items)
            return (x * batch.mask).sum(), x

        grads, x = torch.func.grad(f, has_aux=True)({name: p[name] for name in self.shared_tables})
        return sum(((g * _slope(x)[:, None]) ** 2).sum() for g in grads.values())

    def _alignment(self, p: Params, batch: Batch) -> Any:
        """⟨K, yyᵀ⟩ / (‖K‖·‖yyᵀ‖) with K of the score function's arrays and y = ±1.

        For item rows K would be diagonal, and labels would not matter.
        """
        import torch

        def f(scorer: Params, row: Params) -> Any:
            one = {name: value[None] for name, value in row.items()}
            x = self.base.logits(self.base.tables({**p, **scorer, **one}), torch.zeros(1, dtype=torch.long))
            return torch.sigmoid(x[0])

        scorer, rows = ({name: p[name] for name in names} for names in (self.scorer, self.base.row_slots))
        grads = torch.func.vmap(torch.func.grad(f), in_dims=(None, 0))(scorer, rows)
        jacobian = torch.cat([g.reshape(len(batch.items), -1) for g in grads.values()], dim=1)
        jacobian = jacobian * batch.mask[:, None]
        y = 2 * batch.labels - 1
        kernel = (jacobian.T @ jacobian).square().sum().sqrt()  # ‖JJᵀ‖ = ‖JᵀJ‖, and this one is small
        return (jacobian.T @ y).square().sum() / (kernel * batch.mask.sum() + TINY)


def _slope(x: Any) -> Any:
    """σ'(x), exact for large logits too, where 1 − σ(x) would be rounding alone."""
    from torch import sigmoid

    s = sigmoid(-x.abs())
    return s * (1 - s)


class Mixture:
    """A table of rows a·L + (1 − a)·G, the global row alone where the device has none."""

    def __init__(self, local: Any, shared: Any, a: Any) -> None:
        self.local, self.shared, self.a = local, shared, a

    def __getitem__(self, i: Any) -> Any:
        mine, common = self.local[i], self.shared[i]
        return (self.a * mine + (1 - self.a) * common).where(~mine.isnan(), common)


def redundancy(local: Any, fixed: Any, mask: Any, gamma: float) -> Any:
    """How far the cross-correlation of two sets of rows is from the identity."""
    n, real = mask.sum(), mask[:, None]

    def centred(x: Any) -> Any:
        return (x - (x * real).sum(0) / n.clamp(min=1)) * real

    x, y = centred(local), centred(fixed)
    spreads = [(z**2).sum(0) / n.clamp(min=1) for z in (x, y)]
    kept = (spreads[0] > FLAT**2) & (spreads[1] > FLAT**2) & (n >= 2)
    x, y = (z * kept / s.where(kept, 1.0).sqrt() for z, s in zip((x, y), spreads, strict=True))
    c = x.T @ y / n.clamp(min=1)
    own = c.diagonal()
    return (((1 - own) * kept) ** 2).sum() + gamma * ((c**2).sum() - (own**2).sum())
