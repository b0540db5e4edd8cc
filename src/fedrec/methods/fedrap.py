"""FedRAP: additive personalization; an item is what all clients say of it plus what this one does.

Li, Long & Zhou, "Federated Recommendation with Additive Personalization", ICLR 2024.

Both terms of the loss are means over the rows and columns of a batch, as in the paper's code. The
difference of D and C is rewarded without a bound, so that weights or rates that are too large
diverge. Weight decay touches the rows that the client holds in the round, never the whole catalogue.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from fedrec.core.federated import Batch, Context, Group, Params, Phase, RanksWith
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import Additive
from fedrec.core.optim import DecayingSGD
from fedrec.core.settings import Search
from fedrec.core.slots import Arrays, Catalog, Slot, normal, private, shared, uniform, zeros
from fedrec.core.upload import Total, Uploads

Parts = Literal["both", "common", "personal"]
Schedule = Literal["tanh", "fixed", "sin", "square", "frac"]
Regularizer = Literal["l1", "l2", "none", "nuclear"]
SPARSE = 1e-4  # numbers of C as small as this count as zero: subgradient steps never give exact zeros


class FedRAP(GradientMethod):
    """min BCE(w·(D + C) + b) − λ‖D − C‖² + μ‖C‖₁, with C shared and w, b, D each client's own."""

    name: ClassVar[str] = "fedrap"
    citation: ClassVar[str] = "Li, Long, Zhou, ICLR 2024"
    use_when: ClassVar[str] = (
        "you reproduce the additive personalization paper; see what `strict` leaves of it"
    )
    reveals: ClassVar[str] = (
        "touched rows are the client's positives and sampled negatives, told apart by their sign"
    )
    weighs: ClassVar[bool] = True  # the cross-entropy; what it adds to it is of rows, not of samples

    dim: Annotated[int, Search(8, 128, log=True)] = Field(
        32, ge=1, le=4096, description="length of the item vectors"
    )
    parts: Parts = Field(
        "both", description="ablations: common trains and ranks with C only, personal with D"
    )
    lam: Annotated[float, Search(0.0001, 1, log=True)] = Field(
        0.01, ge=0, description="v₁: weight of the difference of D and C"
    )
    mu: Annotated[float, Search(0.0001, 10, log=True)] = Field(
        1.0, ge=0, description="v₂: weight of the regularizer of C"
    )
    schedule: Schedule = Field("tanh", description="how λ and μ change over rounds: tanh(round/10)·v …")
    regularizer: Regularizer = Field("l1", description="of C: l1, l2, nuclear or none")
    prox: float = Field(
        0.0, ge=0, description="soft threshold of C in place of its L1 term: exact zeros, not sent; 0: none"
    )
    lr_network: Annotated[float, Search(0.001, 1, log=True)] = Field(
        0.1, gt=0, description="learning rate of w and b"
    )
    lr_args: Annotated[float, Search(1, 20000, log=True)] = Field(
        100.0, gt=0, description="learning rate of C and D"
    )
    scaled: bool = Field(
        False, description="lr_args × items of the catalogue is the rate, as FedMF's grows; the paper's: no"
    )
    slow: Annotated[float, Search(0.0001, 1, log=True)] = Field(
        1.0, ge=0, le=1, description="learning rate of D = lr_args × slow; the paper has one rate for both"
    )
    step_decay: float = Field(0.95, gt=0, le=1, description="both rates, after every step within a round")
    round_decay: float = Field(0.97, gt=0, le=1, description="both rates, after every round")
    weight_decay: float = Field(0.0, ge=0, description="L2 of w, b and of the rows that a client holds")
    std: float = Field(0.1, ge=0, description="spread of C before the first round")
    std_personal: float = Field(
        0.0, ge=0, description="spread of D before the first round, alike on all devices"
    )
    batch_size: int = Field(2048, ge=1, description="samples per local step")
    epochs: int = Field(10, ge=1, description="passes over a client's samples in a round, at most")
    tolerance: float = Field(
        1e-4, ge=0, description="stop local epochs at a smaller relative change of loss; 0: never"
    )

    @model_validator(mode="after")
    def _threshold_stands_for_l1(self) -> FedRAP:
        if self.prox > 0 and (self.regularizer != "l1" or self.parts == "personal"):
            raise ValueError("prox is a way to handle the L1 term of C: it needs regularizer=l1 and C")
        return self

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        start = uniform(1 / math.sqrt(self.dim))
        slots = {"user": private(self.dim, start=start), "bias": private(start=start)}
        if self.parts != "personal":
            slots["common"] = shared(catalog.n_items, self.dim, start=normal(self.std), rows=True)
        if self.parts != "common":
            spread = self.std if self.parts == "personal" else self.std_personal
            start = normal(spread) if spread > 0 else zeros()
            slots["personal"] = private(catalog.n_items, self.dim, start=start, rows=True)
        return slots

    def uploads(self, catalog: Catalog) -> Uploads:
        return Uploads(super().uploads(catalog).arrays, moved_rows=self.prox > 0)

    def grown(self, round: int) -> float:
        """How much of λ and μ counts in a round: tanh is the paper's; what the others' names mean is our reading."""
        return {
            "tanh": math.tanh(round / 10),
            "fixed": 1.0,
            "sin": math.sin(round / 10),
            "square": float(round // 10 % 2),  # off and on, ten rounds each
            "frac": 1 / (round + 1),
        }[self.schedule]

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        fade = self.round_decay ** (round - 1)
        rate = self.lr_args * (catalog.n_items if self.scaled else 1)
        network = DecayingSGD(self.lr_network * fade, self.step_decay, self.weight_decay)
        common, personal = (
            DecayingSGD(lr * fade, self.step_decay, self.weight_decay) for lr in (rate, rate * self.slow)
        )
        groups = [Group(("user", "bias"), network, "private")]
        if self.parts != "common":
            groups.append(Group(("personal",), personal, "private"))
        if self.parts != "personal":
            groups.append(Group(("common",), common, "shared"))
        grown = self.grown(round)
        terms = {"lam": grown * self.lam, "mu": grown * self.mu, "prox": abs(grown) * self.prox}
        return [Phase(groups, self.epochs, terms=terms)]

    def logits(self, p: Any, i: Any) -> Any:
        if self.parts == "both":
            return (p.personal[i] + p.common[i]) @ p.user + p.bias
        return (p.common if self.parts == "common" else p.personal)[i] @ p.user + p.bias

    def loss(self, p: Params, batch: Batch) -> Any:
        value = super().loss(p, batch)
        if self.parts == "personal":
            return value
        t, real = self.tables(p), batch.mask[:, None]
        entries = batch.mask.sum().clamp(min=1) * self.dim
        c = t.common[batch.items] * real
        if self.parts == "both":
            value = value - p["lam"] * ((t.personal[batch.items] * real - c) ** 2).sum() / entries
        if self.prox > 0 or self.regularizer == "none":
            return value
        return value + p["mu"] * _size(c, self.regularizer) / entries

    def send(self, shared: Params, p: Params) -> Params:
        if self.prox == 0:
            return super().send(shared, p)
        return {"common": _soft(p["common"], p["prox"]) - shared["common"]}

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        new = super().merge(held, total, context)
        if self.prox == 0:
            return new
        c, threshold = new["common"], np.float32(abs(self.grown(context.round)) * self.prox)
        return {**new, "common": np.sign(c) * np.maximum(np.abs(c) - threshold, 0)}

    def view(self) -> RanksWith:
        return (
            "kept"  # D of the device + C as the server has just merged it; the tuned copy of C is forgotten
        )

    def kernel(self, catalog: Catalog) -> Additive | None:
        if self.regularizer == "nuclear":
            return None
        common, personal = self.parts != "personal", self.parts != "common"
        penalty = "none" if self.prox > 0 else self.regularizer
        return Additive(
            "user", "bias", "common" if common else None, "personal" if personal else None, penalty
        )

    def diagnose(self, shared: Arrays) -> dict[str, Any]:
        """How sparse the table is that all clients fetch."""
        return {"sparsity": float((np.abs(shared["common"]) <= SPARSE).mean())} if "common" in shared else {}


def _size(c: Any, regularizer: Regularizer) -> Any:
    from torch.linalg import svdvals

    if regularizer == "l1":
        return c.abs().sum()
    return (c**2).sum() if regularizer == "l2" else svdvals(c).sum()


def _soft(values: Any, threshold: Any) -> Any:
    """Towards zero by the threshold, and no further."""
    from torch import relu

    return values.sign() * relu(values.abs() - threshold)
