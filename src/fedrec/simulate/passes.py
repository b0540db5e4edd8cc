"""Central yardsticks that are trained in rounds: a round is one pass over all users' samples.

It answers to the same names as a simulation, so that history, selection on validation, patience,
checkpoints and resuming are the same for both. There are no clients: nothing is sent, nothing hidden.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedrec.channel.stage import Stage
from fedrec.clients.state import DeviceState
from fedrec.core.blocks import single_threaded
from fedrec.core.errors import FedrecError
from fedrec.core.federated import View
from fedrec.core.interrupt import heard_at_once
from fedrec.core.scorer import Scorer
from fedrec.data.split import Split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import summary
from fedrec.evaluate.ranking import Measured, measure, rank_sampled
from fedrec.methods.central.base import CentralInRounds
from fedrec.server.divergence import Diverged
from fedrec.server.server import ServerState
from fedrec.simulate.checkpoint import load_checkpoint, save_checkpoint
from fedrec.simulate.moment import Moment, Round, Selected, is_better, shown

NOBODY = DeviceState({}, {})


@dataclass
class Passes:
    """A central method on a split: its state, and how to make the next pass."""

    method: CentralInRounds
    split: Split
    seed: int = 0
    threads: int = 1
    rounds: int = 100
    state: ServerState = field(init=False)
    selected: Selected | None = field(init=False, default=None)

    view: ClassVar[View | None] = None
    channel: ClassVar[Sequence[Stage]] = ()

    def __post_init__(self) -> None:
        self.exam, self.data = Exam(self.split), self.split.clients()
        slots = self.method.slots(self.split.catalog)
        self.state = ServerState(0, {}, {n: s.starting(n, self.seed) for n, s in slots.items()})

    @property
    def moment(self) -> Moment:
        return Moment(self.state, NOBODY)

    def restore(self, last: Moment, selected: Selected | None) -> None:
        """Go on from what a checkpoint holds."""
        self.state, self.selected = last.server, selected

    def save(self, folder: Path) -> None:
        """Write a checkpoint."""
        save_checkpoint(folder, self.moment, self.selected)

    def load(self, folder: Path) -> None:
        """Go on from a checkpoint."""
        self.restore(*load_checkpoint(folder))

    def measure(self, k: int) -> tuple[Measured, int]:
        """What a result is made of, for the selected round, and how many users had too few candidates."""
        assert self.selected is not None
        found = measure(self.scorer(self.selected.moment), self.exam, self.threads, None, k)
        return found, self.exam.candidates.short

    def warm_up(self) -> None:
        """Compile outside of the clock, on a user or two."""
        few = self.data.take(np.arange(min(2, len(self.data))))
        self.method.one_pass(self.state.server, self.method.draw(few, self.seed, 1))

    def play(self, evaluate: bool) -> Round:
        """One pass over the data, and (if asked) the ranks of the validation items."""
        start = time.perf_counter()
        number = self.state.round + 1
        with heard_at_once(), single_threaded():
            samples = self.method.draw(self.data, self.seed, number)
            held, loss = self.method.one_pass(self.state.server, samples, self.threads)
        if not all(np.isfinite(values.sum(dtype=np.float64)) for values in held.values()):
            raise Diverged(
                f"{self.method.label} diverged in round {number}; the state after round {self.state.round} "
                "is kept. Try a smaller learning rate"
            )
        self.state = ServerState(number, {}, held)
        trained = time.perf_counter()
        record = Round(number, loss, self.split.n_users, 0, 0, trained - start)
        if evaluate:
            self.evaluate(self.moment, record)
            record.evaluate_seconds = time.perf_counter() - trained
        return record

    def evaluate(self, before: Moment, record: Round) -> None:
        """Rank the validation items, and keep the best round."""
        if not self.split.held_out:
            self.selected = Selected(self.moment, math.nan, {})
            return
        metrics = summary(rank_sampled(self.scorer(self.moment), self.exam, self.exam.selects, self.threads))
        record.validation = shown(metrics)
        protocol = self.split.protocol
        if is_better(self.selected, protocol, metrics):
            self.selected = Selected(self.moment, metrics[protocol.select_on], record.validation)

    def scorer(self, moment: Moment, view: View | None = None) -> Scorer:
        if view is not None:
            raise FedrecError(f"{self.method.label} has no views: it is not federated")
        return self.method.scorer(moment.server.server, self.split.train)
