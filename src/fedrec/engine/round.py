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
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.channel.bytes import downloaded, uploaded
from fedrec.channel.stage import Stage
from fedrec.core.blocks import in_order, single_threaded_blas
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, Total, View
from fedrec.core.slots import Catalog
from fedrec.data.split import Split
from fedrec.engine.choose import choose_engine
from fedrec.engine.cohort import cohort_size, sample_cohort, turns
from fedrec.engine.interface import Ask, Backward, Fitted
from fedrec.engine.state import State, begin
from fedrec.engine.store import RowStore
from fedrec.engine.upload import add, empty_total, summed
from fedrec.engine.views import Moment, ViewScorer
from fedrec.evaluate.metrics import Ranks, summary
from fedrec.evaluate.protocol import Protocol
from fedrec.evaluate.ranking import count_sampled, held_out, rank_sampled

MOST_DROPPED = 0.5  # a larger share of clients with non-finite updates means that the run diverged
FAR = 30.0  # and so does a loss this many times (of either sign) that of the first round


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
    bytes_down: int = 0
    diagnostics: dict[str, Any] = field(default_factory=dict)  # what the method says of itself

    def line(self) -> dict[str, Any]:
        kept = {k: v for k, v in self.__dict__.items() if v is not None and k != "diagnostics"}
        return kept | self.diagnostics


@dataclass
class Selected:
    """The best round so far, by the protocol's validation figure."""

    moment: Moment
    value: float
    validation: dict[str, float]

    @property
    def round(self) -> int:
        return self.moment.after.round


def select(
    best: Selected | None, protocol: Protocol, moment: Moment, record: Round, metrics: dict[str, float]
) -> Selected:
    """The better of the best round so far and this one, on validation. Test is not looked at here."""
    record.validation = {name: metrics[name] for name in ("hr@10", "ndcg@10")}
    value = metrics[protocol.select_on]
    if best is None or protocol.better(value, best.value):
        return Selected(moment, value, record.validation)
    return best


class Diverged(FedrecError):
    """Nothing more can be learned: the loss or most updates ran away. The state before the round is kept."""


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
    first_loss: float | None = field(init=False, default=None)  # what a loss that runs away is told by

    def __post_init__(self) -> None:
        self.method = self.method.suited(self.split)
        self.method = self.method.alone() if self.local else self.method
        self.engine = choose_engine(self.engine_name, self.method, self.split, self.seed, self.local)
        catalog = Catalog(self.split.n_users, self.split.n_items)
        self.wire = self.method.wire(catalog) if self.engine.uploads else {}
        self.fetched = {**self.engine.slots, **self.method.made(catalog)}  # of these what is shared
        self.sums = self.engine.uploads
        if isinstance(self.engine, Backward):
            self.sums = self.engine.sums
            for stage in self.channel:
                if not stage.single:
                    raise FedrecError(
                        f"channel '{stage.name}' draws its noise for sums of uploads, but the server of "
                        f"{self.method.label} looks at single ones: leave it out"
                    )
        self.whole_tables = any(stage.dense for stage in self.channel)
        if self.clients is None and not self.local:
            self.clients = self.method.default_clients
        self.cohort = cohort_size(self.clients, self.split.n_users)
        usual = self.method.default_view
        self.view = self._asked(self.view) or (usual if usual in self.views else self.views[0])
        self.everyone = np.arange(self.split.n_users)
        self.state = begin(self.engine.slots, self.split.n_users, self.seed)
        if self.cohort < self.split.n_users and self.method.tunes_rows:  # own rows cannot be replayed: stored
            own = {
                n: RowStore(s.shape[1:])
                for n, s in self.engine.slots.items()
                if s.rows and s.owner == "shared" and n in self.engine.uploads  # else no client moves them
            }
            self.state.rows.update(own)

    @property
    def replays(self) -> bool:
        """Whether a client's own rows are those of the last round, and so can be made again.

        Where devices keep rows for good, the stored ones rank, with the tables as they were merged.
        """
        return self.cohort == self.split.n_users and self.method.tunes_rows and not self.state.rows

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
        private = {name: values.copy() for name, values in before.private.items()}
        changes = {name: store.change() for name, store in before.rows.items()}
        ranks = Ranks(*(np.zeros(self.split.n_users, np.int32) for _ in range(3)))
        record = Round(number, 0.0, len(users), 0, 0, 0.0)
        losses = 0.0
        busy_fit = busy_rank = 0.0

        single = any(stage.single for stage in self.channel)

        def work(at: State, block: NDArray[np.int64]) -> Fitted:
            lines = held_out(self.split, "valid", block) if inside else None
            return self.engine.fit(at, number, block, Ask(single, bool(changes), lines))

        start = time.perf_counter()
        at = before
        for turn, group in enumerate(turns(self.seed, number, users, self.method.turns)):
            total = empty_total(self.sums)
            for fitted in in_order(partial(work, at), self.engine.blocks(group), self.threads):
                kept = fitted.finite
                block = self._send(at, fitted)
                add(total, block)
                record.bytes_up += uploaded(self.wire, block.clients, fitted.rows_sent, self.whole_tables)
                record.dropped += int((~kept).sum())
                losses += float(fitted.loss[kept].sum(dtype=np.float64))
                for name, values in private.items():
                    values[fitted.users] = fitted.private[name]
                for name, change in changes.items():
                    assert fitted.rows is not None
                    change.put(fitted.users, fitted.rows[name], only=kept)
                if fitted.scores is not None:
                    found = count_sampled(fitted.scores, held_out(self.split, "valid", fitted.users))
                    for kind, part in zip(ranks, found, strict=True):
                        kind[fitted.users] = part
                busy_fit, busy_rank = busy_fit + fitted.seconds[0], busy_rank + fitted.seconds[1]
            at = self._merge(at, total, number * self.method.turns + turn)
        record.loss = losses / max(len(users) - record.dropped, 1)
        self._check(record)
        rows = {n: c.done(keep_others=self.engine.slots[n].owner == "private") for n, c in changes.items()}
        self.state = State(number, at.shared, at.server, private, rows)
        took = time.perf_counter() - start
        share = busy_rank / (busy_fit + busy_rank)
        record.fit_seconds, record.evaluate_seconds = took * (1 - share), took * share
        record.bytes_down = downloaded(self.fetched, before.shared) * len(users)
        record.diagnostics = self.method.diagnose(at.shared, private, users)
        if evaluate:
            start = time.perf_counter()
            self.evaluate(before, record, ranks if inside else None)
            record.evaluate_seconds += time.perf_counter() - start
        return record

    def evaluate(self, before: State, record: Round, ranks: Ranks | None = None) -> None:
        """Rank the validation items after a round, unless that was done within, and keep the best round."""
        moment = Moment(before if self.replays else None, self.state)
        metrics = summary(self.ranks(moment, "valid") if ranks is None else ranks)
        self._select(moment, record, metrics)

    def _select(self, moment: Moment, record: Round, metrics: dict[str, float]) -> None:
        self.selected = select(self.selected, self.split.protocol, moment, record, metrics)

    def _check(self, record: Round) -> None:
        """Stop where training runs away, before anything of this round is kept."""
        if record.dropped > MOST_DROPPED * record.clients:
            what = f"{record.dropped} of {record.clients} clients ran away"
        elif self.first_loss is not None and abs(record.loss) > FAR * max(abs(self.first_loss), 0.01):
            what = f"the loss is {record.loss:.3g} after {self.first_loss:.3g} in the first round"
        else:
            self.first_loss = record.loss if self.first_loss is None else self.first_loss
            return
        raise Diverged(
            f"{self.method.label} diverged in round {record.round}: {what}; the state after round "
            f"{record.round - 1} is kept. Try {self.method.remedy}"
        )

    def _send(self, at: State, fitted: Fitted) -> Total:
        """Through the channel: single uploads stage by stage, then their sum."""
        sent = fitted.sent
        if isinstance(sent, Total):
            return sent
        for stage in self.channel:
            sent = stage.on_device(sent)
        if isinstance(self.engine, Backward):
            return self.engine.backward(at, fitted.users[fitted.finite], sent)
        return summed(sent, self.engine.uploads)

    def _merge(self, at: State, total: Total, turn: int) -> State:
        """The server's step on what a group of clients sent."""
        for place, stage in reversed(list(enumerate(self.channel))):
            total = stage.in_sum(total, self.seed + (place << 40), turn)  # two of a kind draw apart
        if not total.clients or not self.engine.uploads:
            return at
        with single_threaded_blas():  # its threads change the last bits
            merged = self.method.merge({**at.shared, **at.server}, total)
        shared, server = ({n: merged[n] for n in held} for held in (at.shared, at.server))
        return replace(at, shared=shared, server=server)

    def scorer(self, moment: Moment, view: View | None = None) -> ViewScorer:
        return ViewScorer(self.engine, moment, self._asked(view) or self.view)  # type: ignore[arg-type]

    @property
    def views(self) -> tuple[View, ...]:
        """What its clients can rank with."""
        if self.local:
            return ("own", "random")
        kept = any(s.rows and s.owner == "private" for s in self.engine.slots.values())
        return ("own", "global", "random") if self.method.tunes_rows or kept else ("global",)

    def _asked(self, view: View | None) -> View | None:
        if view is not None and view not in self.views:
            why = "nothing is aggregated" if self.local else "its devices have no item rows of their own"
            raise FedrecError(f"view '{view}' does not apply to {self.method.label}: {why}")
        return view

    def ranks(self, moment: Moment, which: Any, view: View | None = None) -> Ranks:
        """Ranks against the sampled candidates, block by block as in training."""
        blocks = self.engine.blocks(self.everyone)
        return rank_sampled(self.scorer(moment, view), self.split, which, self.threads, blocks)
