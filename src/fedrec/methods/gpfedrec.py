"""GPFedRec: every client has a table of its own, a mean over the tables of clients like it.

Zhang, Long, Zhou, Zhang, Yan & Yang, "GPFedRec: Graph-Guided Personalization for Federated Recommendation",
KDD 2024. A user's vector and the layers stay on the device. The server links clients whose item tables q are alike,
averages the tables over each one's neighbours, r_u = mean of q_v, and all those into the table g of everybody. A client
trains from g, and a penalty λ mean (q − r_u)² pulls every row of its table to r_u, touched or not, at each step by the
share 2λ·lr·η/d of what is left of the way. So after k steps the table is

    q = g + near (r_u − g) + moves,   near = 1 − (1 − pull)ᵏ,

where moves, of touched rows only, shrink by the same share as they are made: nothing else of a table has to be held.

The authors' code takes scikit-learn's cosine *distance* for a similarity: its neighbours are the clients least alike.
``neighbours="unlike"`` does that; the default is what the paper says.

The authors' code knows rounds of everybody only. Where clients are sampled, the graph and g are of those who were
there, and the others keep the r_u they had: that is our reading.

The server holds users × items × dim numbers, and reads every upload by itself: secure aggregation cannot be put over
it. Therefore it is for small federations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Context, Group, Params, Pull, RanksWith, Service
from fedrec.core.gradient import GradientMethod, mildly
from fedrec.core.layers import mlp, mlp_slots
from fedrec.core.optim import SGD
from fedrec.core.ragged import Ids
from fedrec.core.settings import Search
from fedrec.core.slots import Array, Arrays, Catalog, Slot, normal, private, sent, server, shared, zeros
from fedrec.core.upload import Total, Upload, Uploads, summed

NEAR = "near"  # how much of the way to its neighbours' mean a client's table has been pulled
WENT = "went"  # what the server is told of it
APART = "apart"  # what the server holds: how far the tables r_u are from g, of all clients
GIVEN = "given"  # what a client is given: its own of them
MOVES = "moves"  # rows that clients moved, by user × items + item
LARGEST = 1 << 28  # numbers that a server keeps: 1 GB


class GPFedRec(GradientMethod):
    name: ClassVar[str] = "gpfedrec"
    citation: ClassVar[str] = "Zhang et al., KDD 2024"
    use_when: ClassVar[str] = "you reproduce graph-guided tables; its server keeps one for every client"
    reveals: ClassVar[str] = (
        "touched rows are the client's positives and sampled negatives, and a number tells how many steps it made; the "
        "server reads each upload alone, keeps a table of every client and learns who is like whom"
    )
    closed: ClassVar[str] = (
        "its clients are given tables of their own by the server, which a wrapper would not pass on"
    )

    dim: Annotated[int, Search(8, 64, log=True)] = Field(
        32, ge=1, le=4096, description="length of user and item vectors"
    )
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (32, 16, 8), min_length=1, description="hidden layers of the score function"
    )
    lr: Annotated[float, Search(0.01, 1, log=True)] = Field(
        0.1, gt=0, description="learning rate of the layers"
    )
    eta: Annotated[float, Search(5, 1000, log=True)] = Field(
        80.0, gt=0, description="rate of the user vector = lr × eta, of items = lr × items × eta"
    )
    pull: Annotated[float, Search(0.01, 1, log=True)] = Field(
        0.5,
        ge=0,
        le=1,
        description="share of the way to its neighbours' mean that a table is pulled at each step; the authors' λ of 1 "
        "is this with their rates",
    )
    neighbours: Literal["alike", "unlike"] = Field(
        "alike", description="who is linked: similarity above the mean; unlike: as the authors' code has it"
    )
    mild: Annotated[float, Search(0.001, 1, log=True)] = Field(
        1.0, ge=0, le=1, description="share of its local move that a row keeps to rank with; 1: the paper's"
    )

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        users, items, d = catalog.n_users, catalog.n_items, self.dim
        if users * items * d > LARGEST:
            raise FedrecError(
                f"gpfedrec keeps a table of every client on its server: {users:,} × {items:,} × {d} numbers are "
                f"{users * items * d / 2**28:.1f} GB, and it takes 1 at the most: set a smaller dim, or take less data"
            )
        if users * users > LARGEST:
            raise FedrecError(
                f"gpfedrec compares every client with every other: {users:,} clients are too many, it takes "
                f"{math.isqrt(LARGEST):,} at the most"
            )
        return {
            "user": private(d, start=normal(1.0)),
            **mlp_slots("score", (2 * d, *self.hidden, 1), "private"),
            NEAR: private(start=zeros()),
            "items": shared(items, d, start=normal(1.0), rows=True),
            APART: server(users, items, d, start=zeros(), bound=True),
        }

    def groups(self, catalog: Catalog, round: int) -> list[Group]:
        score = tuple(name for name in self.slots(catalog) if name.startswith("score"))
        return [
            Group(score, SGD(self.lr), "private"),
            Group(("user",), SGD(self.lr * self.eta), "private"),
            Group(("items",), Pulled(self.lr * catalog.n_items * self.eta, self.pull), "shared"),
        ]

    def uploads(self, catalog: Catalog) -> Uploads:
        return Uploads({**super().uploads(catalog).arrays, WENT: sent()})

    def logits(self, p: Any, i: Any) -> Any:
        return mlp(p, "score", len(self.hidden) + 1, p.user, p.items[i] + p.near * p.given[i])[..., 0]

    def send(self, shared: Params, p: Params) -> Params:
        return {**super().send(shared, p), WENT: p[NEAR]}

    def keep(self, shared: Params, p: Params) -> Params:
        return mildly(shared, p, ("items",), self.mild)

    def view(self) -> RanksWith:
        return "tuned"  # the authors' devices rank with their own tables

    def service(self, catalog: Catalog, seed: int) -> Tables:
        return Tables(catalog.n_items, self.dim, self.uploads(catalog).arrays)

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """Tables of clients like one, averaged for each; and over all. Who was not there keeps what it had."""
        if not (went := total.told.get(WENT)):
            return held
        users, near = (np.concatenate(parts) for parts in zip(*went, strict=True))
        order = np.argsort(users)
        users, near = users[order], near[order]
        own = near[:, None, None] * held[APART][users]  # q − g of every client that was there
        rows, n_items = own.reshape(-1, self.dim), own.shape[1]
        line = np.empty(len(held[APART]), np.int64)
        line[users] = np.arange(len(users))
        for places, moves in total.told.get(MOVES, []):
            user, item = np.divmod(places, n_items)
            rows[line[user] * n_items + item] += moves
        flat = own.reshape(len(own), -1)
        means = (mean_over(alike(flat, held["items"].reshape(-1)), self.neighbours) @ flat).reshape(own.shape)
        common = means.mean(axis=0)
        apart = held[APART] - common
        apart[users] = means - common
        return {**held, "items": held["items"] + common, APART: apart}


@dataclass(frozen=True)
class Pulled:
    """SGD on the moves of a table that is pulled elsewhere: what was moved shrinks as the way there is gone."""

    lr: float
    pull: float

    def begin(self, p: Params, names: Sequence[str]) -> Params:
        import torch

        return {NEAR: torch.zeros(()), **{f"pulled.{name}": p[name] for name in names}}

    def move(self, p: Params, grads: Params, names: Sequence[str]) -> Params:
        moved = {NEAR: p[NEAR] + self.pull * (1 - p[NEAR])}
        for name in names:
            begun = p[f"pulled.{name}"]
            moved[name] = begun + (1 - self.pull) * (p[name] - begun) - self.lr * grads[name]
        return {**p, **moved}


def alike(own: Array, table: Array) -> Array:
    """Cosines between the tables ``table + own`` of all clients, flat."""
    inner = own @ own.T
    side = own @ table
    inner += side[:, None] + side[None] + table @ table
    length = np.sqrt(np.maximum(np.diag(inner), np.float32(1e-12)))
    found: Array = inner / (length[:, None] * length[None])
    return found


def mean_over(cosines: Array, which: str) -> Array:
    """Weights of clients in one another's means: alike those that are linked; who has no link has itself."""
    strength = cosines if which == "alike" else 1 - cosines
    linked = strength > strength.mean(dtype=np.float64)
    alone = np.flatnonzero(~linked.any(axis=1))
    linked[alone, alone] = True
    found: Array = linked / linked.sum(axis=1, keepdims=True, dtype=np.float32)
    return found


class Tables(Service):
    """Gives every client its table, as how far that is from the table of all; keeps the moves of each apart."""

    def __init__(self, n_items: int, dim: int, sums: dict[str, Slot]) -> None:
        self.n_items, self.dim, self.sums = n_items, dim, sums
        self.given = {GIVEN: sent(n_items, dim, rows=True)}

    def give(self, held: Arrays, users: Ids) -> tuple[Arrays, Pull]:
        def pull(upload: Upload, at: Ids) -> Total:
            total = summed(upload, self.sums)
            total.told[WENT] = [(users[at], upload.dense[WENT])]
            owners = np.repeat(users[at], np.diff(upload.items.indptr))
            places = owners.astype(np.int64) * self.n_items + upload.items.items
            total.told[MOVES] = [(places, upload.rows["items"])]
            return total

        return {GIVEN: held[APART][users]}, pull

    def give_alone(self, clients: int) -> Arrays:
        """Who learns alone has nobody to be like."""
        return {GIVEN: np.zeros((clients, self.n_items, self.dim), np.float32)}
