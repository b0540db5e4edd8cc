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

import numpy as np
from pydantic import Field

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Batch, Context, Federated, Params, Phase, Pull, Service
from fedrec.core.ragged import Ids
from fedrec.core.serverstep import ServerAdam, moment_slots
from fedrec.core.settings import Search
from fedrec.core.slots import Arrays, Catalog, Slot, normal, sent, server, uniform
from fedrec.core.tables import tables
from fedrec.core.upload import Total, Upload, Uploads

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
        return Models(self, catalog)

    def generate(self, p: Params, users: Any) -> Params:
        """The models of some users: collaborative memory (Eq. 2), then the meta recommender (Eq. 4-7).

        Tables are left in their two factors.
        """
        from torch import relu
        from torch.nn.functional import linear

        def layer(name: str, x: Any) -> Any:
            return linear(x, p[f"{name}_w"], p[f"{name}_b"])

        mixed = p["users"][users] @ p["memory"]
        table, first, second = (relu(layer(name, mixed)) for name in ("table", "first", "second"))
        return {
            "left": layer("left", table).unflatten(-1, (-1, self.rank)),
            "right": layer("right", table).unflatten(-1, (self.rank, self.dim)),
            "w1": layer("first_weight", first).unflatten(-1, (self.dim, self.predictor)),
            "b1": layer("first_bias", first),
            "w2": layer("second_weight", second),
            "b2": layer("second_bias", second)[..., 0],
        }

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

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """One step of Adam with the mean over samples of the back-propagated gradients."""
        weight, decay = np.float32(total.weight), np.float32(self.l2)
        slopes = {name: value / weight + decay * held[name] for name, value in total.sums.items()}
        return ServerAdam(self.lr).move(held, slopes)


class Models(Service):
    """The server's part for single clients: it makes their models, and back-propagates what they return."""

    def __init__(self, method: MetaMF, catalog: Catalog) -> None:
        self.method, self.sums = method, method.network(catalog)
        factors = {
            "left": sent(catalog.n_items, method.rank, rows=True),
            "right": sent(method.rank, method.dim),
        }
        self.given = {**factors, **method._predictor()}

    def give(self, held: Arrays, users: Ids) -> tuple[Arrays, Pull]:
        import torch

        network = {n: torch.from_numpy(held[n]).requires_grad_() for n in self.sums}
        with torch.enable_grad():
            made = self.method.generate(network, torch.from_numpy(users))

        def pull(upload: Upload, at: Ids) -> Total:
            return self._pull(network, made, upload, at)

        return {n: v.detach().numpy() for n, v in made.items()}, pull

    def _pull(self, network: Params, made: Params, upload: Upload, at: Ids) -> Total:
        """Back-propagate gradients of clients' models through what made the models."""
        import torch

        counts = np.diff(upload.items.indptr)
        real = np.arange(max(counts, default=0)) < counts[:, None]
        touched = np.zeros(real.shape, np.int64)
        touched[real] = upload.items.items
        items = np.zeros((*real.shape, self.method.dim), np.float32)
        items[real] = upload.rows["items"]
        weights = torch.from_numpy(upload.weights)
        with torch.enable_grad():
            some = {n: v if len(at) == len(v) else v[torch.from_numpy(at)] for n, v in made.items()}
            rank = some["left"].shape[-1]
            index = torch.from_numpy(touched)[:, :, None].expand(-1, -1, rank)
            given = {"items": torch.gather(some["left"], 1, index) @ some["right"]}
            given |= {n: some[n] for n in PREDICTOR}
        returned = {"items": items, **{n: upload.dense[n] for n in PREDICTOR}}
        pulls = []
        for values in returned.values():
            slope = torch.from_numpy(np.ascontiguousarray(values, np.float32))
            pulls.append(slope * weights.reshape(-1, *[1] * (slope.dim() - 1)))
        slopes = torch.autograd.grad([given[n] for n in returned], list(network.values()), grad_outputs=pulls)
        sums = {n: slope.numpy() for n, slope in zip(network, slopes, strict=True)}
        return Total(sums, float(upload.weights.sum(dtype=np.float64)), len(upload.weights))

    def give_alone(self, clients: int) -> Arrays:
        raise FedrecError("metamf cannot learn locally: the server makes its clients' models")

    def welcome(self, held: Arrays, clients: int) -> Arrays:
        """New users: a vector of each starts as the mean of those that are known; the network is as it is."""
        known = held["users"]
        new = {"users": np.tile(known.mean(0), (clients, 1)), "spread": np.asarray(known.std(), np.float32)}
        moments = moment_slots(
            {"users": server(clients, self.method.dim, start=normal(1.0))}, ["users"], "server"
        )
        return {**held, **new, **{n: np.zeros(s.shape, np.float32) for n, s in moments.items()}}

    def settle(self, held: Arrays, total: Total) -> Arrays:
        """Their vectors move by Adam, with the spread of those that are known as the scale."""
        return ServerAdam(float(held["spread"]) / 4).move(held, {"users": total.sums["users"]})
