"""Who plays the devices' part of a simulation: threads of this process, or workers of a cluster.

A simulation's loop knows a ``Team`` and nothing of where its devices are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fedrec.channel.stage import Stage
from fedrec.clients.clients import Ask, Clients, Receive
from fedrec.clients.state import DeviceState
from fedrec.clients.store import fetched
from fedrec.core.federated import View
from fedrec.core.messages import Broadcast, Report
from fedrec.core.ragged import Ids
from fedrec.core.slots import Array, Catalog, Slot
from fedrec.core.upload import Total, Upload
from fedrec.evaluate.controls import Control, control_ranks
from fedrec.evaluate.exam import Exam, Which
from fedrec.evaluate.metrics import Ranks
from fedrec.evaluate.ranking import Measured, count_sampled, measure, rank_full, rank_sampled, top_k
from fedrec.simulate.checkpoint import load_checkpoint, save_checkpoint
from fedrec.simulate.moment import Moment, Selected
from fedrec.simulate.views import Standing, ViewScorer, scorer_of

Top = tuple[NDArray[np.int32], NDArray[np.float32]]


@dataclass(frozen=True)
class Terms:
    """What is the same for all devices of a simulation."""

    method: str  # as ``make`` takes it
    settings: Mapping[str, object]
    catalog: Catalog
    seed: int
    engine: str
    channel: Sequence[Stage]
    shortcut: int
    keeps_tuned: bool
    replays: bool  # own rows of a round are made again from the moment before it
    from_history: bool


class Part(NamedTuple):
    """What came of some of a round's clients."""

    sent: Total | Upload  # uploads one by one where a defence looks at them
    reports: Sequence[Report]  # block by block
    seconds: tuple[float, float]  # training, ranking


class Asked(NamedTuple):
    """Who ranks, with what."""

    server: Standing
    moment: Moment
    view: View
    from_history: bool


class Team(Protocol):
    """The devices of a simulation, numbered from 0 as in its data."""

    @property
    def engine(self) -> str: ...
    @property
    def slots(self) -> Mapping[str, Slot]: ...
    @property
    def devices(self) -> DeviceState:
        """As they are now."""
        ...

    def says(self) -> str:
        """For a line of progress; nothing where there is nothing to say."""
        ...

    def about(self) -> dict[str, Any] | None:
        """For the result of a run: who workers were, if there were some."""
        ...

    def close(self) -> None: ...

    def warm_up(self, told: Broadcast) -> None: ...

    ranked: Ranks | None  # where validation items came within the last round, if they were ranked there

    def fit(
        self, broadcast: Broadcast, users: Ids, single: bool, receive: Receive, rank: bool
    ) -> Iterator[Part]:
        """A round of some clients; ``rank``: of all, and their validation items are ranked within it."""
        ...

    def keep(self) -> None:
        """The round counts."""
        ...

    def drop(self, before: DeviceState) -> None:
        """It does not: devices are as before it."""
        ...

    def held(self, moment: Moment) -> Moment:
        """The moment of now, to be ranked with later, while the devices go on."""
        ...

    def save(self, folder: Path, last: Moment, selected: Selected | None) -> None: ...
    def load(self, folder: Path) -> tuple[Moment, Selected | None]:
        """What a checkpoint holds; devices are as they were at its last moment."""
        ...

    def ranks(self, asked: Asked, which: Which, full: bool = False) -> Ranks: ...
    def measure(self, asked: Asked, k: int) -> tuple[Measured, int]:
        """All that a result is made of, and how many users had too few candidates."""
        ...

    def controls(self, met_by: Array, rounds: int, seed: int) -> Control: ...
    def top(self, asked: Asked, users: Ids | None, k: int, include_seen: bool) -> Top: ...


class Threads:
    """All devices in this process, or those of one worker in its own."""

    def __init__(self, clients: Clients, exam: Exam, replays: bool) -> None:
        self.clients, self.exam, self.replays = clients, exam, replays
        self.ranked: Ranks | None = None

    @property
    def engine(self) -> str:
        return self.clients.engine.name

    @property
    def slots(self) -> Mapping[str, Slot]:
        return self.clients.slots

    @property
    def devices(self) -> DeviceState:
        """With sampled clients the next round writes into its lines."""
        return self.clients.state

    def says(self) -> str:
        return ""

    def about(self) -> None:
        return None

    def close(self) -> None:
        pass

    def warm_up(self, told: Broadcast) -> None:
        """Compile and initialise outside of the clock."""
        clients = self.clients
        if not len(clients):
            return
        first = clients.blocks(clients.everyone)[0]
        part = clients.trained_again(told, clients.state, first)
        lines = np.zeros((len(first), 2), np.int32)
        clients.score(told.shared, part, lines)
        if (
            part.rows.keys() >= clients.state.rows.keys() > set()
        ):  # how rows are stored and found is compiled too
            kept = {
                n: store.put(first, fetched(part.rows[n]), True) for n, store in clients.state.rows.items()
            }
            part = clients.part(told, first, True, DeviceState(clients.state.lines, kept))
            clients.score(told.shared, part, lines)

    def fit(
        self, broadcast: Broadcast, users: Ids, single: bool, receive: Receive | None, rank: bool
    ) -> Iterator[Part]:
        exam = self.exam
        self.ranked = ranks = exam.unranked(exam.selects) if rank else None
        lines = None if ranks is None else lambda block: exam.lines(exam.selects, block)
        for answer in self.clients.fit(broadcast, users, Ask(single, lines, gathered=True), receive):
            if ranks is not None and answer.scores is not None:
                asked = exam.lines(exam.selects, answer.users)
                count_sampled(answer.scores, asked, exam, exam.selects, answer.users, ranks)
            yield Part(answer.reply.sent, [answer.reply.report], answer.seconds)

    def keep(self) -> None:
        self.clients.keep()

    def drop(self, before: DeviceState) -> None:
        self.clients.state = before
        self.clients.drop()

    def held(self, moment: Moment) -> Moment:
        """Lines of devices may be written in place from now on, unless everyone takes part."""
        return moment if self.replays else Moment(moment.server, moment.devices.copy())

    def save(self, folder: Path, last: Moment, selected: Selected | None) -> None:
        save_checkpoint(folder, last, selected)

    def load(self, folder: Path) -> tuple[Moment, Selected | None]:
        last, selected = load_checkpoint(folder)
        self.restore(last.devices)
        return last, selected

    def restore(self, devices: DeviceState) -> None:
        devices = self.clients.like_these(devices, "the checkpoint")
        self.clients.state = devices if self.replays else devices.copy()

    # -- ranking -------------------------------------------------------------------------------

    def ranks(self, asked: Asked, which: Which, full: bool = False) -> Ranks:
        """Against the sampled candidates block by block as in training, or against the whole catalogue."""
        rank, clients = rank_full if full else rank_sampled, self.clients
        blocks = clients.ranking_blocks() if full else clients.blocks(clients.everyone)
        return rank(self._scorer(asked), self.exam, which, clients.threads, blocks)

    def measure(self, asked: Asked, k: int) -> tuple[Measured, int]:
        blocks, threads = self.clients.ranking_blocks(), self.clients.threads
        found = measure(self._scorer(asked), self.exam, threads, blocks, k)
        return found, self.exam.candidates.short

    def controls(self, met_by: Array, rounds: int, seed: int) -> Control:
        return control_ranks(self.exam, met_by, rounds, seed, self.clients.threads)

    def top(self, asked: Asked, users: Ids | None, k: int, include_seen: bool) -> Top:
        # What a user has met is not offered, held out or not: those items were kept back for measuring only.
        scorer, met, threads = self._scorer(asked), self.exam.split.met, self.clients.threads
        if self.clients.cells is None:
            return top_k(scorer, met, k, users, include_seen, threads)
        chosen = self.clients.everyone if users is None else np.asarray(users, np.int64)
        order = np.argsort(chosen, kind="stable")
        items, scores = np.empty((len(chosen), k), np.int32), np.empty((len(chosen), k), np.float32)
        start = 0
        for mine in self.clients.cells.cut(chosen[order]):  # who is scored together changes last bits
            at = order[start : start + len(mine)]
            items[at], scores[at] = top_k(scorer, met, k, mine, include_seen, threads)
            start += len(mine)
        return items, scores

    def _scorer(self, asked: Asked) -> ViewScorer:
        return scorer_of(asked.server, self.clients, asked.moment, asked.view, asked.from_history)
