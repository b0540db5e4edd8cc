"""FedRecon: partially local federated learning; the user vector is rebuilt every round and never kept.

Singhal, Sidahmed, Garrett, Wu, Rush & Prakash, "Federated Reconstruction: Partially Local Federated
Learning", NeurIPS 2021, Algorithm 1, with matrix factorisation as the model.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from fedrec.core.federated import Group, Phase
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import LogLinear
from fedrec.core.optim import SGD
from fedrec.core.settings import Choice, Search
from fedrec.core.slots import Catalog, Slot, fresh, normal, shared, zeros
from fedrec.core.upload import Uploads


class FedRecon(GradientMethod):
    name: ClassVar[str] = "fedrecon"
    citation: ClassVar[str] = "Singhal et al., NeurIPS 2021"
    use_when: ClassVar[str] = "devices keep no state, or most clients take part only once"
    reveals: ClassVar[str] = (
        "touched rows are the client's positives and sampled negatives; the query half's are told apart by their sign"
    )

    dim: Annotated[int, Search(8, 128, log=True)] = Field(
        32, ge=1, le=4096, description="length of user and item vectors"
    )
    # The paper leaves these open for this model: found on validation (ML-100K, protocol paper).
    lr: Annotated[float, Search(0.03, 3, log=True)] = Field(
        0.3, gt=0, description="learning rate of the reconstruction"
    )
    eta: Annotated[float, Search(0.3, 100, log=True)] = Field(
        3.0, gt=0, description="item learning rate = items of the catalogue × eta"
    )
    reconstruction: Annotated[int, Search(1, 30, log=True)] = Field(
        10, ge=1, description="epochs on the support half, items frozen"
    )
    user_std: float = Field(0.1, ge=0, description="spread of a fresh user vector")
    weighting: Annotated[Literal["examples", "clients"], Choice("examples", "clients")] = Field(
        "examples",
        description="what a client counts by in the mean: its examples (the paper's), or all alike",
    )

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        return {
            "items": shared(catalog.n_items, self.dim, start=normal(1.0), rows=True),
            "user": fresh(self.dim, start=normal(self.user_std)),
            "bias": fresh(start=zeros()),
        }

    def uploads(self, catalog: Catalog) -> Uploads:
        weight: Literal["client", "samples"] = "samples" if self.weighting == "examples" else "client"
        return Uploads(super().uploads(catalog).arrays, weight=weight)

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        reconstruct = Group(("user", "bias"), SGD(self.lr), "fresh")
        update = Group(("items",), SGD(catalog.n_items * self.eta), "shared")
        return [
            Phase([reconstruct], self.reconstruction, "support"),
            Phase([update], self.epochs, "query"),
        ]

    def kernel(self, catalog: Catalog) -> LogLinear:
        return LogLinear("items", "user", "bias")

    def logits(self, p: Any, i: Any) -> Any:
        return p.items[i] @ p.user + p.bias
