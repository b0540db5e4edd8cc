"""FedAE: a plain federated multinomial autoencoder; a device is what its items add up to, and keeps nothing.

Liang, Krishnan, Hoffman & Jebara, "Variational Autoencoders for Collaborative Filtering", WWW 2018 (its Mult-DAE),
trained by one gradient per client and round and Adam on the server. It is the common core of what FedDAE (Li et al.,
"Personalized Federated Collaborative Filtering: A Variational AutoEncoder Approach", AAAI 2025) personalises with a
second encoder on each device and a gate between the two (``feddae.py``).

Two things are ours, so that a device holds touched rows only and never the whole catalogue: what dropout leaves is a
random half of its items, and the sum over all items in the softmax is estimated from sampled negatives,

    h = tanh(Σ_{j in the half} E_j / √(size of the half) + c),   x_j = D_j·h + a_j,
    loss = −Σ_{j met} (x_j − log Z),   Z = Σ_{j met} e^{x_j} + (others of the catalogue / negatives) Σ_{neg} e^{x_j}.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from fedrec.core.federated import Batch, Context, Group, Params, Phase
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import Encoded, Kernel
from fedrec.core.optim import Adam, Gradient
from fedrec.core.serverstep import ServerAdam, moment_slots
from fedrec.core.settings import Search
from fedrec.core.slots import Arrays, Catalog, Slot, fresh, normal, shared, zeros
from fedrec.core.upload import Total

SHARED = ("encoder", "decoder", "appeal", "offset")


class FedAE(GradientMethod):
    name: ClassVar[str] = "fedae"
    citation: ClassVar[str] = "Liang et al., WWW 2018, federated; the core of FedDAE, Li et al., AAAI 2025"
    use_when: ClassVar[str] = "devices should keep no state, and a person is what they have met"
    reveals: ClassVar[str] = (
        "rows of the encoder are items that the client met, a half of them each round; rows of the decoder are its "
        "positives and sampled negatives, told apart by their sign"
    )
    closed: ClassVar[str] = (
        "its clients encode a half of their items first, which a wrapper would not pass on"
    )
    weighs: ClassVar[bool] = False

    hidden: Annotated[int, Search(32, 256, log=True)] = Field(
        200, ge=1, le=4096, description="length of what a device is encoded to"
    )
    lr: Annotated[float, Search(0.001, 0.1, log=True)] = Field(
        0.01, gt=0, description="the server's learning rate (Adam)"
    )
    l2: Annotated[float, Search(1e-8, 1e-3, log=True)] = Field(
        0.0, ge=0, description="the server's weight decay"
    )
    batch_size: int = Field(1 << 20, ge=1, description="samples per local step: all at once")

    @model_validator(mode="after")
    def _one_gradient(self) -> FedAE:
        if self.epochs > 1:
            raise ValueError(f"it sends one gradient a round: epochs={self.epochs} has no meaning, use 1")
        return self

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        rows, h = catalog.n_items, self.hidden
        start = normal(math.sqrt(2 / (rows + h)))  # Xavier's
        slots = {
            "encoder": shared(rows, h, start=start, rows=True),
            "decoder": shared(rows, h, start=start, rows=True),
            "appeal": shared(rows, start=zeros(), rows=True),
            "offset": shared(h, start=zeros()),
            "code": fresh(h, start=zeros()),  # what ranks
        }
        return slots | moment_slots(slots, SHARED, "server")

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        """A random half of its items is what a device is encoded from; it learns to tell all of them."""
        groups = [Group(SHARED, Gradient(alone=Adam(self.lr)), "shared")]
        return [Phase([], part="support"), Phase(groups, terms={"items": float(catalog.n_items)})]

    def rebuild(self, catalog: Catalog, round: int) -> list[Phase]:
        return [Phase([], part="positives")]

    def fit(
        self, shared: Params, private: Params, passes: Sequence[Batch], plan: list[Phase]
    ) -> tuple[Params, Params, Any]:
        import torch

        p, loss = {**shared, **private}, torch.zeros(())
        met = passes[0].labels * passes[0].mask
        p["half"] = torch.zeros(p["appeal"].shape[0]).index_add(0, passes[0].items, met).clamp(max=1)
        if any(phase.groups for phase in plan):
            p, loss = self._descend(p, passes[1:], plan[1:])
            loss = loss / (passes[1].labels * passes[1].mask).sum().clamp(min=1)  # reported: of one item
        return {**p, "code": self.encoded(p)}, self.send(shared, p) if shared else {}, loss

    def encoded(self, p: Params) -> Any:
        n = p["half"].sum().clamp(min=1)
        return (p["half"] @ p["encoder"] / n.sqrt() + p["offset"]).tanh()

    def loss(self, p: Params, batch: Batch) -> Any:
        """The multinomial's, summed over what was met; half of a person's items have to tell all of them."""
        x = self.logits(self.tables({**p, "code": self.encoded(p)}), batch.items)
        met, others = batch.labels * batch.mask, (1 - batch.labels) * batch.mask
        n, drawn = met.sum().clamp(min=1), others.sum().clamp(min=1)
        each = met + others * (
            (p["items"] - n).clamp(min=1) / drawn
        )  # what one stands for in the sum over all
        top = x.detach().max()
        log_z = top + ((x - top).exp() * each).sum().log()
        return -((x - log_z) * met).sum()

    def logits(self, p: Any, i: Any) -> Any:
        return p.decoder[i] @ p.code + p.appeal[i]

    def kernel(self, catalog: Catalog) -> Kernel | None:
        return Encoded("encoder", "decoder", "appeal", "offset", "code")

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        gradients = {name: -move for name, move in total.sums.items()}
        return ServerAdam(self.lr).move(held, gradients, total.weight, self.l2)
