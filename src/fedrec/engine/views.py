"""What clients rank with after a round: their own rows, the global table, or another client's rows.

Rows that a client tunes anew every round are not stored under full participation: the round is
replayed from the state before it, which gives the same bits. With client sampling they are stored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedrec.core.federated import View
from fedrec.core.rng import generator
from fedrec.core.slots import Array
from fedrec.engine.interface import Engine, Held
from fedrec.engine.state import State

PARTNERS = "partners"


@dataclass(frozen=True)
class Moment:
    """A round that was played: the state before it where it can be replayed, and the state after."""

    before: State | None
    after: State


def partners(seed: int, n_users: int) -> NDArray[np.int64]:
    """For each client another one, each serving once: a shuffled ring."""
    ring = generator(seed, PARTNERS).permutation(n_users)
    result = np.empty(n_users, np.int64)
    result[ring] = np.roll(ring, -1)
    return result


@dataclass(frozen=True)
class ViewScorer:
    """A trained federation as a scorer, under one view."""

    engine: Engine
    moment: Moment
    view: View

    def some(self, users: NDArray[np.int64], items: NDArray[np.int32]) -> Array:
        state, held = self.held(users)
        return self.engine.score(state, held, items)

    def all(self, users: NDArray[np.int64]) -> Array:
        state, held = self.held(users)
        return self.engine.score_all(state, held)

    def held(self, users: NDArray[np.int64]) -> tuple[State, Held]:
        """The tables that rank, and what the devices add to them."""
        before, after = self.moment.before, self.moment.after
        round = after.round

        def own(users: NDArray[np.int64]) -> Held:
            if before is not None:
                return self.engine.fit(before, round, users).held
            return self.engine.held(after, round, users, "own")

        if self.view == "global":
            return after, self.engine.held(after, round, users, "global")
        # A device's own view is what it had at the end of its training: tuned rows, downloaded table.
        tables = after if before is None else before
        held = own(users)
        if self.view == "random":
            others = partners(self.engine.seed, self.engine.split.n_users)[users]
            held = replace(held, rows=own(others).rows)
        return tables, held
