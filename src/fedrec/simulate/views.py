"""What clients rank with after a round: their own rows, the global table, or another client's rows.

Rows that a client tunes anew every round are not stored under full participation: the round is
trained once more from the moment before it, which gives the same bits. With client sampling they are stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.clients import Clients
from fedrec.clients.engine import RankingPart
from fedrec.core.federated import View
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.rng import generator
from fedrec.core.slots import Array, Arrays
from fedrec.data.cells import Cells
from fedrec.server.server import ServerState
from fedrec.simulate.moment import Moment

PARTNERS = "partners"


def partners(seed: int, n_users: int, cells: Cells | None = None) -> Ids:
    """For each client another one, each serving once: a shuffled ring, with cells one in each of them.

    What is a device's own never leaves its cell.
    """
    result = np.empty(n_users, np.int64)
    for number, users in [(0, np.arange(n_users))] if cells is None else cells.runs():
        ring = generator(seed, PARTNERS, client=number).permutation(users)
        result[ring] = np.roll(ring, -1)
    return result


class Standing(Protocol):
    """As much of a server as ranking needs."""

    seed: int

    def standing(self, state: ServerState) -> Broadcast: ...


@dataclass(frozen=True)
class Ready:
    """Some clients with what they rank with at hand; they are asked in the order they were made ready in."""

    clients: Clients
    shared: Arrays
    part: RankingPart

    def some(self, users: Ids, items: NDArray[np.int32]) -> Array:
        return self.clients.score(self.shared, self.part, items)

    def all(self, users: Ids) -> Array:
        return self.clients.score(self.shared, self.part)


@dataclass(frozen=True)
class ViewScorer:
    """A trained federation as a scorer, under one view."""

    server: Standing
    clients: Clients
    moment: Moment
    view: View

    def some(self, users: Ids, items: NDArray[np.int32]) -> Array:
        return self.ready(users).some(users, items)

    def all(self, users: Ids) -> Array:
        return self.ready(users).all(users)

    def ready(self, users: Ids) -> Ready:
        """The shared arrays that rank, and what the devices add to them."""
        if self.view == "global":
            now = self.server.standing(self.moment.server)
            part = self.clients.part(now, users, own=False, state=self.moment.devices)
            return Ready(self.clients, now.shared, part)
        # A device's own view is what it had at the end of its training: tuned rows, downloaded table.
        at = self.moment.before or self.moment
        part = self._own(users)
        if self.view == "random":
            others = partners(self.server.seed, len(self.clients), self.clients.cells)[users]
            part = replace(part, rows=self._own(others).rows)
        return Ready(self.clients, at.server.shared, part)

    def _own(self, users: Ids) -> RankingPart:
        before = self.moment.before
        if before is None:
            now = self.server.standing(self.moment.server)
            return self.clients.part(now, users, own=True, state=self.moment.devices)
        then = self.server.standing(replace(before.server, round=self.moment.round))
        return self.clients.trained_again(then, before.devices, users)


@dataclass(frozen=True)
class HistoryScorer(ViewScorer):
    """Of a method whose devices make what they rank with from their histories, when they rank."""

    def knowing(self, histories: Ragged) -> HistoryScorer:
        return replace(self, clients=self.clients.knowing(histories))


def scorer_of(
    server: Standing, clients: Clients, moment: Moment, view: View, from_history: bool
) -> ViewScorer:
    """The scorer of a moment. Rows of a round that is trained once more, and the vector beside them, know what that
    round knew."""
    again = view != "global" and moment.before is not None
    kind = HistoryScorer if from_history and not again else ViewScorer
    return kind(server, clients, moment, view)
