"""A simulated federation: the server's half, a team that plays the devices' half, and the loop that joins them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

import numpy as np

from fedrec.channel.accountant import Release
from fedrec.channel.budget import budget_of
from fedrec.channel.bytes import NUMBER, downloaded, uploaded
from fedrec.channel.order import states_epsilon
from fedrec.channel.stage import Stage, shortcut_of
from fedrec.clients.clients import Clients
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, RanksWith, View, own_rows, ranks_from_history
from fedrec.core.interrupt import heard_at_once
from fedrec.core.messages import Report
from fedrec.core.ragged import Ids
from fedrec.core.slots import Catalog, Slot
from fedrec.data.cells import Cells, cell_borders
from fedrec.data.outline import Outline
from fedrec.data.split import Split
from fedrec.evaluate.exam import Exam, Which
from fedrec.evaluate.metrics import Ranks, summary
from fedrec.evaluate.ranking import Measured
from fedrec.methods import settings_of, spec_of
from fedrec.server.cohort import cohort_size
from fedrec.server.divergence import Watch
from fedrec.server.server import Server
from fedrec.simulate.crew import Crew
from fedrec.simulate.moment import Moment, Round, Selected, is_better, shown
from fedrec.simulate.team import Asked, Team, Terms, Threads, Top
from fedrec.simulate.views import ViewScorer, scorer_of


@dataclass
class Simulation:
    """A method on a split: both halves, and how to play the next round."""

    method: Federated
    split: Split | Outline
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
    crew: Crew | None = None  # workers that hold the data, whose outline ``split`` is
    selected: Selected | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        method, catalog = self.method, self.split.catalog
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
        looks = any(stage.looks for stage in self.channel)
        self.single = (service is not None or looks) and not self.local
        self.server = Server(
            method, catalog, self.seed,
            cohort_size=cohort, channel=self.channel, shortcut=shortcut, local=self.local,
        )  # fmt: skip
        self.team: Team = self._team(catalog, shortcut)
        if self.crew is None:
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

    def _team(self, catalog: Catalog, shortcut: int) -> Team:
        """The devices: all of them in this process, or with workers."""
        method, grid = self.method, self.server.grid
        keeps_tuned = self.own == "tuned" and not self.replays
        if self.crew is not None:
            if grid is None:
                raise FedrecError("workers add up in fixed point: put 'fixed' at the end of the channel")
            self.crew.begin(
                Terms(
                    spec_of(method), settings_of(method), catalog, self.seed, self.engine, tuple(self.channel),
                    shortcut, keeps_tuned, self.replays, self.from_history,
                ),
                method.slots(catalog),
            )  # fmt: skip
            return self.crew
        assert isinstance(self.split, Split)
        # Whole numbers can be added up anywhere: then work is cut so that it can be done anywhere.
        cells = None if grid is None else Cells.over(cell_borders(self.split.data.indptr), self.split.users)
        clients = Clients(
            method, self.split.clients(), catalog, self.seed,
            engine=self.engine, channel=self.channel, shortcut=shortcut, local=self.local,
            keeps_tuned=keeps_tuned, secret=self.seed, threads=self.threads, cells=cells,
        )  # fmt: skip
        return Threads(clients, Exam(self.split), self.replays)

    @property
    def here(self) -> Threads:
        """The devices of this process."""
        if not isinstance(self.team, Threads):
            raise FedrecError(
                "the devices of this run are with workers: open its folder without workers first"
            )
        return self.team

    @property
    def clients(self) -> Clients:
        return self.here.clients

    @property
    def exam(self) -> Exam:
        return self.here.exam

    @property
    def moment(self) -> Moment:
        """Both halves as they are now; with sampled clients the next round writes into the devices' lines."""
        return Moment(self.server.state, self.team.devices)

    def restore(self, last: Moment, selected: Selected | None) -> None:
        """Go on from a moment."""
        server = self.server.like_this(last.server, "the checkpoint")
        self.here.restore(last.devices)
        self.server.state, self.selected = server, selected

    def save(self, folder: Path) -> None:
        """Write a checkpoint."""
        self.team.save(folder, self.moment, self.selected)

    def load(self, folder: Path) -> None:
        """Go on from a checkpoint."""
        last, selected = self.team.load(folder)
        self.server.state = self.server.like_this(last.server, "the checkpoint")
        self.selected = selected

    def warm_up(self) -> None:
        """Compile and initialise outside of the clock."""
        state = self.server.state
        self.team.warm_up(self.server.standing(replace(state, round=state.round + 1)))

    def play(self, evaluate: bool) -> Round:
        """One round: the cohort trains, the server merges, and (if asked) validation items are ranked."""
        server, team, before = self.server, self.team, self.moment
        number = before.round + 1
        users = server.cohort(number)
        inside = evaluate and self.split.held_out and self.view == "own" and self.replays  # rows are at hand
        report, busy = Report(), np.zeros(2)
        start = time.perf_counter()
        try:
            with heard_at_once():
                for turn, group in enumerate(server.groups(number, users)):
                    total = server.empty()
                    for part in team.fit(
                        server.broadcast(number), group, self.single, server.receive, inside
                    ):
                        total.add(part.sent)  # type: ignore[arg-type]
                        for one in part.reports:
                            report.add(one)
                        busy += part.seconds
                    server.step(total, number, turn)
            loss = self.watch.check(number, report)
            team.keep()
            server.finish(number)
        except BaseException:  # nothing of this round is kept
            server.state = before.server
            team.drop(before.devices)
            raise
        record = self._record(before, report, loss, len(users))
        took = time.perf_counter() - start
        ranking = took * float(busy[1] / max(busy.sum(), 1e-9))
        record.fit_seconds, record.evaluate_seconds = took - ranking, ranking
        if evaluate:
            start = time.perf_counter()
            self.evaluate(before, record, team.ranked if inside else None)
            record.evaluate_seconds += time.perf_counter() - start
        return record

    def _record(self, before: Moment, report: Report, loss: float | None, asked: int) -> Round:
        sent = report.clients - report.dropped
        uploads = self.server.uploads
        wire = {} if self.local else uploads.on_wire if self.server.grid is None else uploads.arrays
        up = uploaded(wire, sent, report.rows, self.whole_tables, self.number)
        down = downloaded(dict(self.team.slots), self.given, before.server.shared) * asked
        figures = {f"{name}_mean": value / max(sent, 1) for name, value in report.figures.items()}
        figures |= self.method.diagnose(self.server.state.shared)
        return Round(
            before.round + 1, loss, asked, report.dropped, up, 0.0, bytes_down=down, diagnostics=figures
        )

    # -- ranking -------------------------------------------------------------------------------

    def evaluate(self, before: Moment, record: Round, ranks: Ranks | None = None) -> None:
        """Rank the validation items after a round, unless that was done within, and keep the best round."""
        now = Moment(self.server.state, self.team.devices, before if self.replays else None)
        if not self.split.held_out:  # nothing to measure: the last round is as good as it gets
            self.selected = Selected(self.team.held(now), math.nan, {})
            return
        which: Which = "test" if self.split.protocol.select_by == "test" else "valid"
        metrics = summary(self.ranks(now, which) if ranks is None else ranks)
        record.validation = shown(metrics)
        protocol = self.split.protocol
        # To choose a round by validation would be one more release: under an epsilon the last one counts.
        if self.private or is_better(self.selected, protocol, metrics):
            self.selected = Selected(self.team.held(now), metrics[protocol.select_on], record.validation)

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
        server, _, view, from_history = self._asks(moment, view)
        return scorer_of(server, self.clients, moment, view, from_history)

    def _asks(self, moment: Moment, view: View | None) -> Asked:
        return Asked(self.server, moment, self._asked(view) or self.view or "global", self.from_history)

    def ranks(self, moment: Moment, which: Which, view: View | None = None, full: bool = False) -> Ranks:
        """Ranks against the sampled candidates, or against the whole catalogue."""
        return self.team.ranks(self._asks(moment, view), which, full)

    def measure(self, k: int) -> tuple[Measured, int]:
        """What a result is made of, for the selected round, and how many users had too few candidates."""
        assert self.selected is not None
        return self.team.measure(self._asks(self.selected.moment, None), k)

    def top(self, users: Ids | None, k: int, view: View | None = None, include_seen: bool = False) -> Top:
        """The k best items of some users (of all, if none are named) in the selected round, and their scores."""
        assert self.selected is not None
        return self.team.top(self._asks(self.selected.moment, view), users, k, include_seen)
