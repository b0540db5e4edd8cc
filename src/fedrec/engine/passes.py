"""Central yardsticks that are trained in rounds: a round is one pass over all users' samples.

It answers to the same names as a federation, so that history, selection on validation, patience,
checkpoints and resuming are the same for both. There are no clients: nothing is sent, nothing hidden.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.channel.stage import Stage
from fedrec.core.errors import FedrecError
from fedrec.core.federated import View
from fedrec.core.method import CentralInRounds
from fedrec.core.rng import generator, stream
from fedrec.core.slots import Catalog, Slot
from fedrec.data.negatives import NEGATIVES, SHUFFLE, fill_samples
from fedrec.data.split import Split
from fedrec.engine.round import Diverged, Round, Selected, select
from fedrec.engine.samples import sample_counts
from fedrec.engine.state import State, begin
from fedrec.engine.views import Moment
from fedrec.evaluate.metrics import summary
from fedrec.evaluate.ranking import rank_sampled
from fedrec.evaluate.scorer import Scorer

BLOCK = 64  # users scored together


class Pass(NamedTuple):
    """All users' samples of a round, shuffled together. They are those that clients would train on."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    labels: NDArray[np.float32]


@dataclass
class Passes:
    """A central method on a split: its state, and how to make the next pass."""

    method: CentralInRounds
    split: Split
    seed: int = 0
    threads: int = 1
    rounds: int = 100
    state: State = field(init=False)
    selected: Selected | None = field(init=False, default=None)

    name: ClassVar[str] = "central"  # in place of an engine's
    view: ClassVar[View | None] = None
    channel: ClassVar[Sequence[Stage]] = ()

    def __post_init__(self) -> None:
        self.slots: dict[str, Slot] = self.method.slots(Catalog(self.split.n_users, self.split.n_items))
        self.everyone = np.arange(self.split.n_users)
        self.state = begin(self.slots, self.split.n_users, self.seed)

    @property
    def engine(self) -> Passes:
        return self

    def blocks(self, users: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        return [users[start : start + BLOCK] for start in range(0, len(users), BLOCK)]

    def warm_up(self) -> None:
        """Compile outside of the clock, on a sample or two."""
        users, items, labels = draw_pass(self.split, self.seed, 1)
        self.method.one_pass(self.state.server, Pass(users[:2], items[:2], labels[:2]))

    def play(self, evaluate: bool) -> Round:
        """One pass over the data, and (if asked) the ranks of the validation items."""
        start = time.perf_counter()
        number = self.state.round + 1
        held, loss = self.method.one_pass(self.state.server, draw_pass(self.split, self.seed, number))
        if not all(np.isfinite(values.sum(dtype=np.float64)) for values in held.values()):
            raise Diverged(
                f"{self.method.label} diverged in round {number}; the state after round {self.state.round} "
                "is kept. Try a smaller learning rate"
            )
        self.state = State(number, {}, held)
        trained = time.perf_counter()
        record = Round(number, loss, self.split.n_users, 0, 0, trained - start)
        if evaluate:
            self.evaluate(self.state, record)
            record.evaluate_seconds = time.perf_counter() - trained
        return record

    def evaluate(self, before: State, record: Round) -> None:
        """Rank the validation items, and keep the best round."""
        moment = Moment(None, self.state)
        blocks = self.blocks(self.everyone)
        ranks = rank_sampled(self.scorer(moment), self.split, "valid", self.threads, blocks)
        self.selected = select(self.selected, self.split.protocol, moment, record, summary(ranks))

    def scorer(self, moment: Moment, view: View | None = None) -> Scorer:
        if view is not None:
            raise FedrecError(f"{self.method.label} has no views: it is not federated")
        return self.method.scorer(moment.after.server)


def draw_pass(split: Split, seed: int, round: int) -> Pass:
    """The negatives that the clients of a federation would draw in this round, in one shuffled list."""
    counts = sample_counts(split)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    items, labels = np.empty(indptr[-1], np.int32), np.zeros(indptr[-1], np.float32)
    key = np.uint64(stream(seed, NEGATIVES, round))
    _fill(key, split.keys, indptr, *split.train, *split.forbidden, split.n_items, items, labels)
    order = generator(seed, SHUFFLE, round).permutation(len(items))
    users = np.repeat(np.arange(split.n_users, dtype=np.int32), counts)
    return Pass(users[order], items[order], labels[order])


@nb.njit(cache=True, nogil=True)
def _fill(
    key: Any, keys: Any, indptr: Any, train_ptr: Any, train: Any, not_ptr: Any, not_items: Any, n_items: int,
    items: Any, labels: Any,
) -> None:  # fmt: skip
    mark = np.full(n_items, -1, np.int32)
    for u in range(len(keys)):
        positives = train[train_ptr[u] : train_ptr[u + 1]]
        forbidden = not_items[not_ptr[u] : not_ptr[u + 1]]
        mine = items[indptr[u] : indptr[u + 1]]
        fill_samples(key, keys[u], positives, forbidden, n_items, mark, u, mine)
        labels[indptr[u] : indptr[u] + len(positives)] = 1
