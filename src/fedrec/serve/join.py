"""Clients that have never trained: a model from a handful of interactions, on the device alone.

Nothing is uploaded (but by MetaMF's) and the shared part stays as it is. FedALS and other methods that make the
private part anew solve it in closed form or reconstruct it; the others take a few local passes with the
items frozen. MetaMF's clients hold nothing: its server learns a vector of the newcomer. A client without
interactions gets what most clients have met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.clients import Ask, Clients
from fedrec.clients.state import frozen
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Pull, Service
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ids, Ragged, run_ends
from fedrec.core.slots import Array, Arrays
from fedrec.core.upload import Total, Upload
from fedrec.data.clients import ClientData, sorted_distinct
from fedrec.server.server import Server, ServerState

PASSES = 20  # local passes of a gradient method: a newcomer has few samples, so they take milliseconds


@dataclass(frozen=True, eq=False)
class Newcomers:
    """Clients that joined, as a scorer: user c is the c-th of them."""

    clients: Clients
    told: Broadcast
    popular: Array  # what clients without interactions rank by

    @property
    def likes(self) -> Ragged:
        return self.clients.data.trained

    def all(self, users: Ids) -> Array:
        scores = np.tile(self.popular, (len(users), 1))
        some = self._some(users)
        if some.any():
            part = self.clients.part(self.told, users[some], own=True)
            scores[some] = self.clients.score(self.told.shared, part)
        return scores

    def some(self, users: Ids, items: NDArray[np.int32]) -> Array:
        scores, some = self.popular[items], self._some(users)
        if some.any():
            part = self.clients.part(self.told, users[some], own=True)
            scores[some] = self.clients.score(self.told.shared, part, items[some])
        return scores

    def _some(self, users: Ids) -> NDArray[np.bool_]:
        return self.likes.counts(users) > 0


def join(
    server: Server,
    state: ServerState,
    likes: Sequence[Sequence[int]],
    popular: Array,
    negatives_per_positive: int,
    passes: int = PASSES,
) -> Newcomers:
    """New clients with these items (codes), from what the server of a trained federation holds."""
    method, seed = server.method, server.seed
    if server.local:
        raise FedrecError(f"this run of {method.label} shared nothing (--local): nobody can join it")
    data = newcomers(likes, server.catalog.n_items, negatives_per_positive)
    catalog = server.catalog
    private = any(s.owner == "private" for s in method.slots(catalog).values())
    trains = private and bool(frozen(method.plan(catalog, 1)))
    clients = Clients(method, data, catalog, seed, secret=seed, engine="plain" if trains else "auto")
    service = server.service
    if service is None:
        told = Broadcast(state.round, state.shared)
    else:
        held = service.welcome(state.held, len(data))
        if held is not None:
            return Newcomers(clients, _settled(clients, service, held, state, passes), popular)
        told = Broadcast(state.round, state.shared, lambda users: service.give_alone(len(users)))
    if trains:
        clients.join(told, passes)
    return Newcomers(clients, told, popular)


def _settled(clients: Clients, service: Service, held: Arrays, state: ServerState, passes: int) -> Broadcast:
    """The server learns what it needs of newcomers from what they send, everything else as it is."""
    some = np.flatnonzero(clients.data.train.counts(clients.everyone))
    for number in range(1, passes + 1) if len(some) else ():
        pulls: dict[bytes, Pull] = {}

        def given(users: Ids, held: Arrays = held, pulls: dict[bytes, Pull] = pulls) -> Arrays:
            made, pulls[users.tobytes()] = service.give(held, users)
            return made

        told = Broadcast(state.round + number, state.shared, given)
        total = Total({n: np.zeros_like(held[n]) for n in service.sums})
        for answer in clients.fit(told, some, Ask(single=True)):
            assert isinstance(answer.reply.sent, Upload)
            block = answer.users
            at = np.flatnonzero(np.isin(block, answer.reply.users))
            total.add(pulls[block.tobytes()](answer.reply.sent, at))
        clients.keep()
        held = service.settle(held, total)
    return Broadcast(state.round, state.shared, lambda users: service.give(held, users)[0])


def newcomers(likes: Sequence[Sequence[int]], n_items: int, negatives_per_positive: int) -> ClientData:
    """What the devices of new people know: what they like, the newest last. Nothing is held out, nothing spared
    as a negative; an item that is named twice is as new as where it is named last."""
    items: list[NDArray[Any]] = [np.array([*dict.fromkeys([*mine][::-1])][::-1], np.int32) for mine in likes]
    flat = np.concatenate([np.zeros(0, np.int32), *items])
    if len(flat) and not (flat.min() >= 0 and flat.max() < n_items):
        raise FedrecError(f"an item code is outside of the catalogue of {n_items} items")
    known = Ragged(run_ends(np.array([len(i) for i in items], np.int64)), flat)
    distinct = sorted_distinct(*known)
    keys = (-1 - np.arange(len(items), dtype=np.int64)).view(np.uint64)
    return ClientData(keys, known, distinct, distinct, n_items, negatives_per_positive)
