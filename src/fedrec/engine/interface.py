"""What the round asks of an engine; ``plain`` and ``fused`` answer alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedrec.core.federated import Federated, Total, View
from fedrec.core.slots import Array, Slot
from fedrec.data.split import Split
from fedrec.engine.state import State
from fedrec.engine.store import Own, Rows
from fedrec.engine.upload import Upload

WILD = 1e4  # a loss beyond it: a client that ran away, dropped before it takes the others with it


@dataclass(frozen=True)
class Held:
    """What some devices rank with: their private arrays, and rows that are their own."""

    users: NDArray[np.int64]
    private: dict[str, Array]
    rows: Mapping[str, Own]


@dataclass(frozen=True)
class Ask:
    """What a round wants of its clients besides their training."""

    single: bool = False  # uploads one by one, not their sum
    rows: bool = True  # the tuned rows
    lines: NDArray[np.int32] | None = None  # scores of a line of items per client


ROWS = Ask()


@dataclass(frozen=True)
class Fitted:
    """Some clients after their local training. One that is not finite, or wild, is as before the round."""

    users: NDArray[np.int64]
    private: dict[str, Array]
    loss: Array
    finite: NDArray[np.bool_]
    sent: Upload | Total  # single uploads where the channel looks at them, else their sum
    rows_sent: int
    rows: dict[str, Rows] | None  # tuned rows, where asked for
    scores: Array | None  # of the lines of items asked for, with tuned rows
    seconds: tuple[float, float]  # training, ranking

    @property
    def held(self) -> Held:
        assert self.rows is not None
        return Held(self.users, self.private, self.rows)


@runtime_checkable
class Backward(Protocol):
    """An engine whose server sees single uploads: it back-propagates each before they are added up."""

    sums: dict[str, Slot]  # what is added up: the gradients of the server's own slots

    def backward(self, state: State, users: NDArray[np.int64], upload: Upload) -> Total:
        """From the uploads of some clients to the sum of what they mean for the server's slots."""
        ...


class Engine(Protocol):
    name: str
    method: Federated
    split: Split
    seed: int
    slots: dict[str, Slot]
    uploads: dict[str, Slot]

    def blocks(self, users: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Which clients to work on together; a function of the cohort alone."""
        ...

    def fit(self, state: State, round: int, users: NDArray[np.int64], ask: Ask = ROWS) -> Fitted:
        """Local training of a block."""
        ...

    def held(self, state: State, round: int, users: NDArray[np.int64], view: View) -> Held:
        """What devices rank with outside of a round, from the state alone."""
        ...

    def score(self, state: State, held: Held, items: NDArray[np.int32]) -> Array:
        """Scores of a line of items per device; -1 is padding."""
        ...

    def score_all(self, state: State, held: Held) -> Array:
        """Scores of the whole catalogue."""
        ...
