"""MetaMF: a server's meta network makes a small model for every client.

Lin, Ren, Chen, Ren, Yu, Ma, de Rijke & Cheng, "Meta Matrix Factorization for Federated Rating
Predictions", SIGIR 2020, with cross-entropy on sampled negatives in place of ratings.

The server keeps a vector of every user, a shared memory, and the network that turns them into a
client's item table (M × k)(k × d) and predictor d-h-1. A client downloads its model, computes the
gradient of its loss on its own samples, and returns that; the server back-propagates it through the
network. Nothing is kept on the device.

This is less private than keeping the user's vector on the device: the server holds a profile of every
user and must see every client's gradient by itself, so secure aggregation cannot be put over it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedrec.core.federated import Batch, Context, Federated, Params, Phase
from fedrec.core.kernel import Generated, Kernel
from fedrec.core.serverstep import ServerAdam, moment_slots
from fedrec.core.settings import Search
from fedrec.core.slots import Arrays, Catalog, Slot, normal, sent, server, uniform
from fedrec.core.tables import tables
from fedrec.core.upload import Total, Uploads
from fedrec.methods.metanetwork import Models

PREDICTOR = ("w1", "b1", "w2", "b2")


class MetaMF(Federated):
    name: ClassVar[str] = "metamf"
    citation: ClassVar[str] = "Lin et al., SIGIR 2020"
    use_when: ClassVar[str] = "devices hold no state and the server may know its users; the least private"
    reveals: ClassVar[str] = (
        "the server keeps a vector of every user, and reads each gradient alone: its rows are the client's "
        "positives and sampled negatives, told apart by their sign"
    )

    dim: int = Field(32, ge=4, le=4096, description="length of user vectors and of generated item rows")
    rank: int = Field(8, ge=1, description="a client's item table is (items × rank)(rank × dim)")
    predictor: int = Field(8, ge=1, description="hidden units of a client's predictor")
    memory: int = Field(128, ge=1, description="columns of the shared memory")
    hidden: int = Field(512, ge=1, description="hidden units of the meta network")
    lr: Annotated[float, Search(0.0001, 0.01, log=True)] = Field(
        0.001, gt=0, description="the server's learning rate (Adam); found on validation"
    )
    l2: Annotated[float, Search(1e-06, 0.001, log=True)] = Field(
        0.00003, ge=0, description="weight decay; found on validation"
    )
    std: Annotated[float, Search(0.01, 0.3, log=True)] = Field(
        0.03, gt=0, description="spread of the first user vectors; found on validation"
    )
    steps: Annotated[int, Search(1, 32, log=True)] = Field(
        8,
        ge=1,
        description="the server's steps in a round: clients come in so many groups; found on validation",
    )

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        """All of them the server's. What goes to a client is made from them for that client alone."""
        own = self.network(catalog)
        return own | moment_slots(own, own, "server", bound=True)

    def network(self, catalog: Catalog) -> dict[str, Slot]:
        """User vectors, memory, and three branches: item table, first and second layer of the predictor."""
        m, k, d, h = catalog.n_items, self.rank, self.dim, self.predictor

        def layer(name: str, outputs: int, inputs: int) -> dict[str, Slot]:
            start = uniform(1 / math.sqrt(inputs))
            return {
                f"{name}_w": server(outputs, inputs, start=start, bound=True),
                f"{name}_b": server(outputs, start=start, bound=True),
            }

        return {
            "users": server(catalog.n_users, d, start=normal(self.std), bound=True),
            "memory": server(d, self.memory, start=normal(math.sqrt(2 / (d + self.memory))), bound=True),
            **layer("table", self.hidden, self.memory),
            **layer("left", m * k, self.hidden),
            **layer("right", k * d, self.hidden),
            **layer("first", self.hidden, self.memory),
            **layer("first_weight", d * h, self.hidden),
            **layer("first_bias", h, self.hidden),
            **layer("second", self.hidden, self.memory),
            **layer("second_weight", h, self.hidden),
            **layer("second_bias", 1, self.hidden),
        }

    def uploads(self, catalog: Catalog) -> Uploads:
        """Gradients of what the client was given: item rows that it touched, and its predictor.

        Weighed by samples: the sum of losses over all of them, whoever has them.
        """
        arrays = {"items": sent(catalog.n_items, self.dim, rows=True), **self._predictor()}
        return Uploads(arrays, weight="samples", turns=self.steps)

    def _predictor(self) -> dict[str, Slot]:
        d, h = self.dim, self.predictor
        return {"w1": sent(d, h), "b1": sent(h), "w2": sent(h), "b2": sent()}

    def service(self, catalog: Catalog, seed: int) -> Models:
        m, k, d = catalog.n_items, self.rank, self.dim
        given = {"left": sent(m, k, rows=True), "right": sent(k, d), **self._predictor()}
        return Models(k, self.network(catalog), given)

    def plan(self, catalog: Catalog, round: int) -> list[Phase]:
        return [Phase([])]  # one pass, no local step: a client returns its gradient

    def fit(
        self, shared: Params, private: Params, passes: Sequence[Batch], plan: list[Phase]
    ) -> tuple[Params, Params, Any]:
        """One client: the gradient of its mean loss in the model that it was given."""
        from torch.func import grad_and_value
        from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

        (batch,) = passes

        def loss(model: Params) -> Any:
            rows = tables({"items": model["items"]}, {"items"}).items[batch.items]
            x = self._predict(rows, *(model[name] for name in PREDICTOR))
            terms = cross_entropy(x, batch.labels, reduction="none")
            return (terms * batch.mask).sum() / batch.mask.sum().clamp(min=1)

        model = {"items": private["left"] @ private["right"], **{n: private[n] for n in PREDICTOR}}
        gradient, value = grad_and_value(loss)(model)
        return {}, gradient, value

    def logits(self, p: Any, i: Any) -> Any:
        """The client's predictor on the rows that are its two factors' product."""
        return self._predict(p.left[i] @ p.right, p.w1, p.b1, p.w2, p.b2)

    def _predict(self, rows: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        """d inputs, one hidden layer, one output."""
        from torch import relu

        return relu(rows @ w1 + b1) @ w2 + b2

    def kernel(self, catalog: Catalog) -> Kernel | None:
        return Generated("items", "left", "right", ("w1", "w2"), ("b1", "b2"))

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """One step of Adam with the mean over samples of the back-propagated gradients."""
        return ServerAdam(self.lr).move(held, total.sums, total.weight, self.l2)
