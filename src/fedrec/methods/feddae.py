"""FedDAE: an autoencoder that all share, with a second encoder on each device and a gate between the two.

Li, Long, Zhou, Jiang & Zhang, "Personalized Federated Collaborative Filtering: A Variational AutoEncoder Approach",
AAAI 2025: a device is encoded twice, by the encoder of all and by one of its own that never leaves it, and a gate of
its own weighs both; all share the decoder.

Ours are: ``fedae`` underneath, without the variational part (its loss, its dropout of half of the items, one gradient a
round); and the gate is one number, because what it looks at, the history of its own device, hardly changes:

    h = (1 − ω) tanh(Σ_j E_j / √n + c) + ω tanh(Σ_j O_j / √n + c'),   ω = σ(gate).
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedrec.core.federated import Group, Params, Phase
from fedrec.core.kernel import Encoded, Kernel
from fedrec.core.optim import SGD
from fedrec.core.settings import Search
from fedrec.core.slots import Catalog, Slot, constant, private, zeros
from fedrec.methods.fedae import FedAE

OWN = ("own", "own_offset", "gate")


class FedDAE(FedAE):
    name: ClassVar[str] = "feddae"
    citation: ClassVar[str] = "Li et al., AAAI 2025"
    use_when: ClassVar[str] = "you want to see what a second encoder on each device adds to fedae"

    lr_own: Annotated[float, Search(1e-5, 0.1, log=True)] = Field(
        0.001, gt=0, description="learning rate of a device's own encoder and gate (SGD)"
    )
    share: Annotated[float, Search(0.01, 0.5, log=True)] = Field(
        0.1, gt=0, lt=1, description="ω before the first round: how much the own encoder counts"
    )

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        slots = super().slots(catalog)
        return slots | {
            "own": private(catalog.n_items, self.hidden, start=slots["encoder"].start, rows=True, met=True),
            "own_offset": private(self.hidden, start=zeros()),
            "gate": private(start=constant(math.log(self.share / (1 - self.share)))),
        }

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        support, everything = super().plan(catalog, round)
        groups = [*everything.groups, Group(OWN, SGD(self.lr_own), "private")]
        return [support, Phase(groups, terms=everything.terms)]

    def encoded(self, p: Params) -> Any:
        import torch

        n = p["half"].sum().clamp(min=1)
        own = (p["half"] @ p["own"] / n.sqrt() + p["own_offset"]).tanh()
        return torch.lerp(super().encoded(p), own, torch.sigmoid(p["gate"]))

    def kernel(self, catalog: Catalog) -> Kernel | None:
        return Encoded("encoder", "decoder", "appeal", "offset", "code", OWN)
