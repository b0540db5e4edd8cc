"""A federation in one process: the server's half, the devices' half, and the loop that joins them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np

from fedrec.channel.accountant import Release
from fedrec.channel.budget import budget_of
from fedrec.channel.bytes import NUMBER, downloaded, uploaded
from fedrec.channel.order import states_epsilon
from fedrec.channel.stage import Stage, shortcut_of
from fedrec.clients.clients import Answer, Ask, Clients
from fedrec.clients.state import DeviceState
from fedrec.clients.store import fetched
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, RanksWith, View, own_rows, ranks_from_history
from fedrec.core.interrupt import heard_at_once
from fedrec.core.messages import Report
from fedrec.core.slots import Catalog, Slot
from fedrec.data.split import Split
from fedrec.evaluate.exam import Exam, Which
from fedrec.evaluate.metrics import Ranks, summary
from fedrec.evaluate.ranking import count_sampled, rank_sampled
from fedrec.server.cohort import cohort_size
from fedrec.server.divergence import Watch
from fedrec.server.server import Server
from fedrec.simulate.moment import Moment, Round, Selected, is_better, shown
from fedrec.simulate.views import HistoryScorer, ViewScorer


@dataclass
class Simulation:
    """A method on a split: both halves, and how to play the next round."""

    method: Federated
    split: Split
    seed: int = 0
    threads: int = 1
    clients_per_round: float | int | None = None
    channel: Sequence[Stage] = ()
    view: View | None = None
    local: bool = False
    rounds: int = 100
    engine: str = "auto"
    epsilon: float | None = None  # what may be spent, where the channel states an epsilon
    delta: float | None = None
    spent_before: Sequence[Release] = ()
    selected: Selected | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        method, catalog, self.exam = self.method, self.split.catalog, Exam(self.split)
        if states_epsilon(self.channel):  # how much people met is theirs: the server is not told, it guesses
            catalog = catalog._replace(positives=Catalog._field_defaults["positives"])
        if method.view() not in get_args(RanksWith):
            known = ", ".join(get_args(RanksWith))
            raise FedrecError(f"'view' of {method.label} is '{method.view()}': it must be one of {known}")
        cohort = cohort_size(self.clients_per_round, catalog.n_users)
        everyone = cohort == catalog.n_users
        self.own = "kept" if self.local else own_rows(method, catalog)
        self.from_history = ranks_from_history(method, catalog)
        uploads = method.uploads(catalog)
        # Own rows are those of the last round, and so can be made again, if all began that round alike.
        self.replays = everyone and self.own == "tuned" and uploads.turns == 1
        service = method.service(catalog, self.seed)
        shortcut = shortcut_of(self.channel, uploads) if service is None else 0
        self.single = service is not None and not self.local
        self.server = Server(
            method, catalog, self.seed,
            cohort_size=cohort, channel=self.channel, shortcut=shortcut, local=self.local,
        )  # fmt: skip
        self.clients = Clients(
            method, self.split.clients(), catalog, self.seed,
            engine=self.engine, channel=self.channel, shortcut=shortcut, local=self.local,
            keeps_tuned=self.own == "tuned" and not self.replays, secret=self.seed, threads=self.threads,
        )  # fmt: skip
        self.server.meet(self.clients.introduce())
        self.private = self.server.private
        if self.private and uploads.turns > 1:
            raise FedrecError(
                f"{method.label} sends in {uploads.turns} groups a round: no epsilon can be stated for it"
            )
        self.budget = budget_of(
            self.channel, uploads=uploads, users=catalog.n_users, sampled=cohort / catalog.n_users,
            limit=self.epsilon, delta=self.delta, before=self.spent_before,
        )  # fmt: skip
        if self.local and service is not None:
            service.give_alone(1)  # refuses where nothing can be learned alone
        self.view = self._asked(self.view) or ("global" if method.view() == "merged" else self.views[0])
        self.view = self.view if self.view in self.views else self.views[0]
        self.watch = Watch(method)
        self.given: dict[str, Slot] = service.given if service and not self.local else {}
        self.whole_tables = any(stage.dense for stage in self.channel)
        self.number = self.channel[-1].number if self.channel else NUMBER

    @property
    def moment(self) -> Moment:
        """Both halves as they are now; with sampled clients the next round writes into the devices' lines."""
        return Moment(self.server.state, self.clients.state)

    def restore(self, last: Moment, selected: Selected | None) -> None:
        """Go on from what a checkpoint holds."""
        self.server.state, self.selected = last.server, selected
        self.clients.state = last.devices if self.replays else last.devices.copy()

    def warm_up(self) -> None:
        """Compile and initialise outside of the clock."""
        first = self.clients.engine.blocks(self.clients.everyone)[0]
        state = self.server.state
        told = self.server.standing(replace(state, round=state.round + 1))
        part = self.clients.trained_again(told, self.clients.state, first)
        lines = np.zeros((len(first), 2), np.int32)
        self.clients.score(self.server.state.shared, part, lines)
        if self.own == "kept":  # how rows are stored and found again is compiled as well
            devices = self.clients.state
            kept = {n: store.put(first, fetched(part.rows[n]), True) for n, store in devices.rows.items()}
            part = self.clients.part(told, first, True, DeviceState(devices.lines, kept))
            self.clients.score(self.server.state.shared, part, lines)

    def play(self, evaluate: bool) -> Round:
        """One round: the cohort trains, the server merges, and (if asked) validation items are ranked."""
        server, clients, before = self.server, self.clients, self.moment
        number = before.round + 1
        users = server.cohort(number)
        inside = evaluate and self.split.held_out and self.view == "own" and self.replays  # rows are at hand
        ask = Ask(self.single, (lambda block: self.exam.lines(self.exam.selects, block)) if inside else None)
        report, ranks, busy = Report(), self.exam.unranked(self.exam.selects), np.zeros(2)
        start = time.perf_counter()
        try:
            with heard_at_once():
                for turn, group in enumerate(server.groups(number, users)):
                    total = server.empty()
                    for answer in clients.fit(server.broadcast(number), group, ask, server.receive):
                        total.add(answer.reply.sent)  # type: ignore[arg-type]
                        report.add(answer.reply.report)
                        busy += answer.seconds
                        self._count(answer, ranks)
                    server.step(total, number, turn)
            loss = self.watch.check(number, report)
            clients.keep()
            server.finish(number)
        except BaseException:  # nothing of this round is kept
            server.state, clients.state = before.server, before.devices
            clients.drop()
            raise
        record = self._record(before, report, loss, len(users))
        took = time.perf_counter() - start
        ranking = took * float(busy[1] / max(busy.sum(), 1e-9))
        record.fit_seconds, record.evaluate_seconds = took - ranking, ranking
        if evaluate:
            start = time.perf_counter()
            self.evaluate(before, record, ranks if inside else None)
            record.evaluate_seconds += time.perf_counter() - start
        return record

    def _count(self, answer: Answer, ranks: Ranks) -> None:
        """Where the validation items came that devices scored within the round."""
        if answer.scores is not None:
            users = answer.users
            count_sampled(
                answer.scores,
                self.exam.lines(self.exam.selects, users),
                self.exam,
                self.exam.selects,
                users,
                ranks,
            )

    def _record(self, before: Moment, report: Report, loss: float | None, asked: int) -> Round:
        sent = report.clients - report.dropped
        uploads = self.server.uploads
        wire = {} if self.local else uploads.on_wire if self.server.grid is None else uploads.arrays
        up = uploaded(wire, sent, report.rows, self.whole_tables, self.number)
        down = downloaded(self.clients.slots, self.given, before.server.shared) * asked
        figures = {f"{name}_mean": value / max(sent, 1) for name, value in report.figures.items()}
        figures |= self.method.diagnose(self.server.state.shared)
        return Round(
            before.round + 1, loss, asked, report.dropped, up, 0.0, bytes_down=down, diagnostics=figures
        )

    # -- ranking -------------------------------------------------------------------------------

    def evaluate(self, before: Moment, record: Round, ranks: Ranks | None = None) -> None:
        """Rank the validation items after a round, unless that was done within, and keep the best round."""
        now = Moment(self.server.state, self.clients.state, before if self.replays else None)
        if not self.split.held_out:  # nothing to measure: the last round is as good as it gets
            kept = now if self.replays else Moment(now.server, now.devices.copy())
            self.selected = Selected(kept, math.nan, {})
            return
        metrics = summary(self.ranks(now, self.exam.selects) if ranks is None else ranks)
        record.validation = shown(metrics)
        protocol = self.split.protocol
        # To choose a round by validation would be one more release: under an epsilon the last one counts.
        if self.private or is_better(self.selected, protocol, metrics):
            if not self.replays:  # lines of devices may be written in place from now on
                now = Moment(now.server, now.devices.copy())
            self.selected = Selected(now, metrics[protocol.select_on], record.validation)

    @property
    def views(self) -> tuple[View, ...]:
        """What its clients can rank with."""
        if self.local:
            return ("own", "random")
        return ("own", "global", "random") if self.own else ("global",)

    def _asked(self, view: View | None) -> View | None:
        if view is not None and view not in self.views:
            why = "nothing is aggregated" if self.local else "its devices have no item rows of their own"
            raise FedrecError(f"view '{view}' does not apply to {self.method.label}: {why}")
        return view

    def scorer(self, moment: Moment, view: View | None = None) -> ViewScorer:
        view = self._asked(view) or self.view or "global"
        # Rows of a round that is trained once more, and the vector beside them, know what that round knew.
        again = view != "global" and moment.before is not None
        kind = HistoryScorer if self.from_history and not again else ViewScorer
        return kind(self.server, self.clients, moment, view)

    def ranks(self, moment: Moment, which: Which, view: View | None = None) -> Ranks:
        """Ranks against the sampled candidates, block by block as in training."""
        blocks = self.clients.engine.blocks(self.clients.everyone)
        return rank_sampled(self.scorer(moment, view), self.exam, which, self.threads, blocks)
