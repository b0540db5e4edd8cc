"""MetaMF's server: it makes the models of single clients, and back-propagates the gradients that they return.

With the vector u of a user, x = u M is its mixture (Eq. 2), and three hidden layers are on x, for the item table and
both layers of the predictor. Everything that a client is given is a linear layer on one of those (Eq. 4-7); the
table is left in its two factors, (M × k)(k × d), and of the first one only the rows that are asked for are made.
Back from a gradient y of an array made by a layer W, b on h:  ∂W = yᵀh,  ∂b = Σ y,  ∂h = y W.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from fedrec.core.entropy import STEADY, F
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Pull, Service
from fedrec.core.madetables import MadeTables
from fedrec.core.products import product
from fedrec.core.ragged import Ids
from fedrec.core.serverstep import ServerAdam, moment_slots
from fedrec.core.slots import Array, Arrays, Slot, normal, server
from fedrec.core.sums import dot
from fedrec.core.upload import Total, Upload

# Which layer makes what of a client's model, from which hidden layer. The table's rows are another matter.
LAYERS = {
    "right": ("right", "table"),
    "w1": ("first_weight", "first"),
    "b1": ("first_bias", "first"),
    "w2": ("second_weight", "second"),
    "b2": ("second_bias", "second"),
}


class Models(Service):
    """The server's part for single clients."""

    def __init__(self, rank: int, network: dict[str, Slot], given: dict[str, Slot]) -> None:
        self.rank, self.sums, self.given = rank, network, given

    def give(self, held: Arrays, users: Ids) -> tuple[Arrays, Pull]:
        """Collaborative memory (Eq. 2), then the meta recommender (Eq. 4-7)."""

        def layer(name: str, x: Array) -> Array:
            return product(x, held[f"{name}_w"].T) + held[f"{name}_b"]

        mixed = product(held["users"][users], held["memory"])
        hidden = {name: np.maximum(layer(name, mixed), F(0)) for name in ("table", "first", "second")}
        made: dict[str, Any] = {
            name: layer(by, hidden[of]).reshape(len(users), *self.given[name].shape)
            for name, (by, of) in LAYERS.items()
        }
        made["left"] = MadeTables(hidden["table"], held["left_w"], held["left_b"], self.rank)

        def pull(upload: Upload, at: Ids) -> Total:
            return self._pull(held, users, mixed, hidden, made, upload, at)

        return made, pull

    def _pull(
        self, held: Arrays, users: Ids, mixed: Array, hidden: Arrays, made: dict[str, Any], upload: Upload, at: Ids
    ) -> Total:  # fmt: skip
        """Back-propagate gradients of the models of clients ``at`` through what made the models."""
        weights, items = upload.weights, upload.items
        table: MadeTables = made["left"]
        everyone = len(at) == len(users)
        left = (
            table.rows(items)
            if everyone
            else MadeTables(table.vectors[at], table.weight, table.bias, self.rank).rows(items)
        )
        right, rows = np.ascontiguousarray(made["right"][at]), np.ascontiguousarray(upload.rows["items"])
        slopes = {
            n: upload.dense[n] * weights.reshape(-1, *[1] * (upload.dense[n].ndim - 1)) for n in upload.dense
        }
        sums: Arrays = {}
        d_left, slopes["right"] = np.empty_like(left), np.zeros_like(right)
        _split(items.indptr, rows, weights, left, right, d_left, slopes["right"])
        back, sums["left_w"], sums["left_b"] = table.gradients(at, items, d_left)
        below: dict[str, Any] = {"table": back, "first": F(0), "second": F(0)}
        for name, (by, of) in LAYERS.items():
            y: Array = slopes[name].reshape(len(at), -1)
            sums[f"{by}_w"], sums[f"{by}_b"] = y.T @ hidden[of][at], y.sum(axis=0, dtype=F)
            below[of] = below[of] + y @ held[f"{by}_w"]
        x, d_mixed = mixed[at], np.zeros_like(mixed[at])
        for name, slope in below.items():
            y = slope * (hidden[name][at] > 0)
            sums[f"{name}_w"], sums[f"{name}_b"] = y.T @ x, y.sum(axis=0, dtype=F)
            d_mixed += y @ held[f"{name}_w"]
        sums["memory"] = held["users"][users[at]].T @ d_mixed
        sums["users"] = np.zeros_like(held["users"])
        sums["users"][users[at]] = d_mixed @ held["memory"].T
        return Total(sums, float(weights.sum(dtype=np.float64)), len(weights))

    def give_alone(self, clients: int) -> Arrays:
        raise FedrecError("metamf cannot learn locally: the server makes its clients' models")

    def welcome(self, held: Arrays, clients: int) -> Arrays:
        """New users: a vector of each starts as the mean of those that are known; the network is as it is."""
        known = held["users"]
        new = {"users": np.tile(known.mean(0), (clients, 1)), "spread": np.asarray(known.std(), np.float32)}
        moments = moment_slots(
            {"users": server(clients, known.shape[1], start=normal(1.0))}, ["users"], "server"
        )
        return {**held, **new, **{n: np.zeros(s.shape, np.float32) for n, s in moments.items()}}

    def settle(self, held: Arrays, total: Total) -> Arrays:
        """Their vectors move by Adam, with the spread of those that are known as the scale."""
        return ServerAdam(float(held["spread"]) / 4).move(held, {"users": total.sums["users"]})


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def _split(indptr: Any, rows: Any, weights: Any, left: Any, right: Any, d_left: Any, d_right: Any) -> None:
    """Gradients y of rows l R into those of both factors, times the client's weight: ∂l = y Rᵀ, ∂R = Σ l yᵀ."""
    rank, dim = right.shape[1], right.shape[2]
    for c in range(len(weights)):
        for k in range(indptr[c], indptr[c + 1]):
            for r in range(rank):
                factor = left[k, r] * weights[c]
                d_left[k, r] = dot(rows[k], right[c, r]) * weights[c]
                for j in range(dim):
                    d_right[c, r, j] += factor * rows[k, j]
