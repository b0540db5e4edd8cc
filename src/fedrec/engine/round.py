"""The round: the only loop of the project in which clients train.

cohort <- sample(seed, round)
for each block of clients, on any thread:
    private, upload <- fit(receive(shared, private), its data, rng(seed, round, client))
    total           <- total + channel(upload)
shared <- merge(shared, total)
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fedrec.channel.bytes import uploaded
from fedrec.channel.stage import Stage
from fedrec.core.blocks import in_order
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, Total, View
from fedrec.data.split import Split
from fedrec.engine.choose import choose_engine
from fedrec.engine.cohort import cohort_size, sample_cohort
from fedrec.engine.interface import Fitted
from fedrec.engine.state import State, begin
from fedrec.engine.store import RowStore
from fedrec.engine.upload import Upload, add, empty_total, summed
from fedrec.engine.views import Moment, ViewScorer
from fedrec.evaluate.metrics import Ranks, summary
from fedrec.evaluate.ranking import count_sampled, held_out, rank_sampled

MOST_DROPPED = 0.5  # a larger share of clients with non-finite updates means that the run diverged


@dataclass
class Round:
    """What is known of a round afterwards; a line of the history."""

    round: int
    loss: float
    clients: int
    dropped: int
    bytes_up: int
    fit_seconds: float
    evaluate_seconds: float = 0.0
    validation: dict[str, float] | None = None

    def line(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if v is not None}


@dataclass
class Selected:
    """The best round so far, by the protocol's validation figure."""

    moment: Moment
    value: float
    validation: dict[str, float]

    @property
    def round(self) -> int:
        return self.moment.after.round


class Diverged(FedrecError):
    """So many clients had to be dropped that nothing was learned; the state before the round is kept."""


@dataclass
class Federation:
    """A method on a split: its state, and how to play the next round."""

    method: Federated
    split: Split
    seed: int = 0
    threads: int = 1
    clients: float | int | None = None
    channel: Sequence[Stage] = ()
    view: View | None = None
    local: bool = False
    rounds: int = 100
    engine_name: str = "auto"
    state: State = field(init=False)
    selected: Selected | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.method = self.method.suited(self.split)
        self.engine = choose_engine(self.engine_name, self.method, self.split, self.seed, self.local)
        self.whole_tables = any(stage.dense for stage in self.channel)
        self.cohort = cohort_size(self.clients, self.split.n_users)
        self.view = self.view or ("own" if self.local else self.method.default_view)
        self.everyone = np.arange(self.split.n_users)
        self.state = begin(self.engine.slots, self.split.n_users, self.seed)
        if self.cohort < self.split.n_users:  # own rows cannot be replayed: they are stored
            own = {
                n: RowStore(s.shape[1:])
                for n, s in self.engine.slots.items()
                if s.rows and s.owner == "shared" and n in self.engine.uploads  # else no client moves them
            }
            self.state.rows.update(own)

    @property
    def replays(self) -> bool:
        """Whether a client's own rows are those of the last round, and so can be made again."""
        return self.cohort == self.split.n_users and not self.local

    def warm_up(self) -> None:
        """Compile and initialise outside of the clock."""
        first = self.engine.blocks(self.everyone)[0]
        self.engine.score(
            self.state, self.engine.fit(self.state, 1, first).held, np.zeros((len(first), 2), np.int32)
        )

    def play(self, evaluate: bool) -> Round:
        """One round: train a cohort, merge, and (if asked) rank the validation items."""
        number = self.state.round + 1
        before = self.state
        users = sample_cohort(self.seed, number, self.split.n_users, self.cohort)
        inside = evaluate and self.view == "own" and self.replays  # rank while the rows are at hand
        total = empty_total(self.engine.uploads)
        private = {name: values.copy() for name, values in before.private.items()}
        rows = dict(before.rows)
        ranks = Ranks(*(np.zeros(self.split.n_users, np.int32) for _ in range(3)))
        record = Round(number, 0.0, len(users), 0, 0, 0.0)
        losses = 0.0
        busy_fit = busy_rank = 0.0

        single = any(stage.single for stage in self.channel)

        def work(block: NDArray[np.int64]) -> Fitted:
            lines = held_out(self.split, "valid", block) if inside else None
            return self.engine.fit(before, number, block, single=single, rows=bool(rows), lines=lines)

        start = time.perf_counter()
        for fitted in in_order(work, self.engine.blocks(users), self.threads):
            kept = fitted.finite
            block = self._send(fitted.sent)
            add(total, block)
            record.bytes_up += uploaded(
                self.engine.uploads, block.clients, fitted.rows_sent, self.whole_tables
            )
            record.dropped += int((~kept).sum())
            losses += float(fitted.loss[kept].sum(dtype=np.float64))
            for name, values in private.items():
                values[fitted.users] = fitted.private[name]
            for name, store in rows.items():
                assert fitted.rows is not None
                persists = self.engine.slots[name].owner == "private"
                rows[name] = store.put(fitted.users, fitted.rows[name], persists, only=kept)
            if fitted.scores is not None:
                found = count_sampled(fitted.scores, held_out(self.split, "valid", fitted.users))
                for kind, part in zip(ranks, found, strict=True):
                    kind[fitted.users] = part
            busy_fit, busy_rank = busy_fit + fitted.seconds[0], busy_rank + fitted.seconds[1]
        if record.dropped > MOST_DROPPED * len(users):
            raise Diverged(
                f"{self.method.label} diverged in round {number}: {record.dropped} of {len(users)} clients "
                f"had updates that are not finite; the state after round {before.round} is kept. Try a "
                "smaller learning rate"
            )
        for stage in reversed(self.channel):
            total = stage.in_sum(total, self.seed, number)
        merged = {**before.shared, **before.server}
        if total.clients and self.engine.uploads:
            with threadpool_limits(1):  # the threads of BLAS change the last bits
                merged = self.method.merge(merged, total)
        shared, server = ({n: merged[n] for n in held} for held in (before.shared, before.server))
        self.state = State(number, shared, server, private, rows)
        took = time.perf_counter() - start
        share = busy_rank / (busy_fit + busy_rank)
        record.fit_seconds, record.evaluate_seconds = took * (1 - share), took * share
        record.loss = losses / max(len(users) - record.dropped, 1)
        if evaluate:
            start = time.perf_counter()
            moment = Moment(before if self.replays else None, self.state)
            if not inside:
                ranks = self.ranks(moment, "valid")
            self._select(moment, record, summary(ranks))
            record.evaluate_seconds += time.perf_counter() - start
        return record

    def _send(self, sent: Upload | Total) -> Total:
        """Through the channel: single uploads stage by stage, then their sum."""
        if isinstance(sent, Total):
            return sent
        for stage in self.channel:
            sent = stage.on_device(sent)
        return summed(sent, self.engine.uploads)

    def _select(self, moment: Moment, record: Round, metrics: dict[str, float]) -> None:
        """Keep the round if it is the best so far on validation. Test is not looked at here."""
        record.validation = {name: metrics[name] for name in ("hr@10", "ndcg@10")}
        protocol = self.split.protocol
        value = metrics[protocol.select_on]
        if self.selected is None or protocol.better(value, self.selected.value):
            self.selected = Selected(moment, value, record.validation)

    def scorer(self, moment: Moment, view: View | None = None) -> ViewScorer:
        return ViewScorer(self.engine, moment, view or self.view)  # type: ignore[arg-type]

    def ranks(self, moment: Moment, which: Any, view: View | None = None) -> Ranks:
        """Ranks against the sampled candidates, block by block as in training."""
        blocks = self.engine.blocks(self.everyone)
        return rank_sampled(self.scorer(moment, view), self.split, which, self.threads, blocks)
