"""FedMF: federated matrix factorisation in its implicit form.

Chai, Wang, Chen & Yang, "Secure Federated Matrix Factorization", IEEE Intelligent Systems 2020, in
the form that PFedRec (Zhang et al., IJCAI 2023) compares against: cross-entropy on sampled
negatives, a private user vector and bias, item rows averaged by the server. The original encrypts
explicit-rating gradients; encryption changes what the server can see, not what is learned.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedrec.core.federated import Group
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import LogLinear
from fedrec.core.optim import SGD
from fedrec.core.settings import Search
from fedrec.core.slots import Catalog, Slot, normal, private, shared, uniform


class FedMF(GradientMethod):
    name: ClassVar[str] = "fedmf"
    citation: ClassVar[str] = "Chai et al., IEEE Intelligent Systems 2020"
    use_when: ClassVar[str] = "you want the simplest federated factor model; a sound first baseline"
    reveals: ClassVar[str] = (
        "touched rows are the client's positives and sampled negatives, told apart by their sign"
    )

    dim: Annotated[int, Search(8, 128, log=True)] = Field(
        32, ge=1, le=4096, description="length of the item vectors"
    )
    lr: Annotated[float, Search(0.01, 1, log=True)] = Field(
        0.1, gt=0, description="learning rate of the user vector and bias"
    )
    eta: Annotated[float, Search(5, 1000, log=True)] = Field(
        80.0, gt=0, description="item learning rate = lr × items of the catalogue × eta"
    )

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        start = uniform(1 / math.sqrt(self.dim))
        return {
            "items": shared(catalog.n_items, self.dim, start=normal(1.0), rows=True),
            "score": private(self.dim, start=start),
            "bias": private(start=start),
        }

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        # The server averages over all clients, most of which never touch a given row: hence the large rate.
        lr_items = self.lr * catalog.n_items * self.eta
        return [
            Group(("score", "bias"), SGD(self.lr), "private"),
            Group(("items",), SGD(lr_items), "shared"),
        ]

    def kernel(self, catalog: Catalog) -> LogLinear:
        return LogLinear("items", "score", "bias")

    def logits(self, p: Any, i: Any) -> Any:
        return p.items[i] @ p.score + p.bias
