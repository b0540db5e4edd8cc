"""A worker: whole cells of users, in a process of its own. It has their interactions, and their devices' state.

It is told what a server tells devices, and answers with sums, reports and ranks. Private arrays stay here: they are
written to a checkpoint, and go nowhere else.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedrec
from fedrec.clients.clients import Clients
from fedrec.clients.state import DeviceState
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, View
from fedrec.core.messages import Broadcast, Report
from fedrec.core.ragged import Ids
from fedrec.core.slots import Array, Arrays
from fedrec.data.outline import Piece
from fedrec.data.shards import Loading, Shard, load_shard
from fedrec.evaluate.controls import Control
from fedrec.evaluate.exam import Exam, Which
from fedrec.evaluate.metrics import Ranks
from fedrec.evaluate.ranking import Measured
from fedrec.methods import make
from fedrec.server.server import ServerState
from fedrec.simulate.cellfiles import load_cells, save_cells
from fedrec.simulate.moment import Moment
from fedrec.simulate.team import Asked, Part, Terms, Threads, Top

SAME_BITS = ("numpy", "numba")  # other versions may round differently
TABLES = (
    4  # sets of shared arrays that are remembered: those of now, of the round before, of the selected one
)


class Question(NamedTuple):
    """Who ranks, as a worker is told it: shared arrays by their number, devices as now or as they were held."""

    held: bool
    round: int
    shared: int
    before: tuple[int, int] | None  # round and shared arrays that the round was trained from
    view: View


class Failed(NamedTuple):
    """What a person did wrong, on its way to the driver."""

    says: str


@dataclass
class Seeded:
    """As much of a server as ranking needs."""

    seed: int

    def standing(self, state: ServerState) -> Broadcast:
        return Broadcast(state.round, state.shared)


def versions() -> dict[str, str]:
    """What must be the same everywhere for bits to be."""
    found = {name: importlib.metadata.version(name) for name in SAME_BITS}
    return {"fedrec": fedrec.__version__, "python": platform.python_version().rpartition(".")[0], **found}


class Worker:
    """Answers one command at a time."""

    def __init__(self) -> None:
        self._tables: dict[int, Arrays] = {}
        self.before: DeviceState | None = None  # of the last round, where that is needed
        self.held: tuple[DeviceState, DeviceState | None] | None = None  # of the selected round

    def do(self, command: str, args: tuple[Any, ...], tables: Mapping[int, Arrays]) -> Any:
        """``tables`` are shared arrays that the command speaks of by number; known ones need not be read again."""
        for number, arrays in tables.items():
            if number not in self._tables:  # copies: what comes from a store of objects may not be written to
                self._tables[number] = {n: np.array(v) for n, v in arrays.items()}
        recent = sorted(self._tables.keys() - tables.keys())[-TABLES:]
        self._tables = {n: v for n, v in self._tables.items() if n in tables or n in recent}
        try:
            return getattr(self, command)(*args)
        except FedrecError as error:
            return Failed(str(error))

    # -- before the first round ----------------------------------------------------------------

    def hello(self) -> dict[str, str]:
        return versions()

    def open(self, loading: Loading, part: int, of: int, threads: int) -> Piece:
        """Read its part of the data."""
        self.shard: Shard = load_shard(loading, part, of)
        self.threads = threads
        return self.shard.piece

    def begin(self, terms: Terms) -> str:
        """Make its devices; which engine they run on."""
        method, split = make(terms.method, dict(terms.settings)), self.shard.split
        assert isinstance(method, Federated)
        clients = Clients(
            method, split.clients(), terms.catalog, terms.seed,
            engine=terms.engine, channel=terms.channel, shortcut=terms.shortcut,
            keeps_tuned=terms.keeps_tuned, secret=terms.seed, threads=self.threads, cells=self.shard.cells,
        )  # fmt: skip
        self.terms, self.team = terms, Threads(clients, Exam(split), terms.replays)
        self.before = self.held = None
        return self.team.engine

    def warm_up(self, round: int, shared: int) -> None:
        self.team.warm_up(Broadcast(round, self._tables[shared]))

    # -- rounds --------------------------------------------------------------------------------

    def fit(self, round: int, shared: int, users: Ids, rank: bool) -> tuple[Part, Ranks | None]:
        """A round of some of its clients: their sum, what each block reports, and their ranks if asked."""
        told, seconds = Broadcast(round, self._tables[shared]), np.zeros(2)
        reports: list[Report] = []
        for part in self.team.fit(told, np.array(users), False, None, rank):
            total = part.sent  # the last is all of it
            reports += part.reports
            seconds += part.seconds
        return Part(total, reports, (float(seconds[0]), float(seconds[1]))), self.team.ranked

    def keep(self) -> None:
        self.before = self.team.devices if self.terms.replays else None
        self.team.keep()

    def drop(self) -> None:
        self.team.clients.drop()

    def hold(self) -> None:
        """Remember its devices as they are: theirs is the selected round."""
        now = self.team.devices
        self.held = (now, self.before) if self.terms.replays else (now.copy(), None)

    # -- checkpoints ---------------------------------------------------------------------------

    def save(self, folder: str, held_is_last: bool) -> dict[str, str]:
        """Write a file for each of its cells; their sums."""
        if not Path(folder).is_dir():
            raise FedrecError(
                f"{folder} is not there on {platform.node()}: choose an --out on a disk that all nodes share"
            )
        after, before = self.held or (None, None)
        states = {"last": self.team.devices, "after": None if held_is_last else after, "before": before}
        return save_cells(Path(folder), self.shard.cells, {n: s for n, s in states.items() if s is not None})

    def load(self, path: str, first: int, sums: dict[str, str] | None) -> None:
        """Go on from a checkpoint; ``first`` is the number of its first client among all."""
        states = load_cells(Path(path), self.shard.cells, first, sums)
        last = states["last"]
        self.team.restore(last)
        self.before, self.held = None, (states.get("after", last), states.get("before"))

    # -- ranking -------------------------------------------------------------------------------

    def ranks(self, question: Question, which: Which, full: bool) -> Ranks:
        return self.team.ranks(self._asked(question), which, full)

    def measure(self, question: Question, k: int) -> tuple[Measured, int]:
        return self.team.measure(self._asked(question), k)

    def controls(self, met_by: Array, rounds: int, seed: int) -> Control:
        return self.team.controls(np.array(met_by), rounds, seed)

    def top(self, question: Question, users: Ids, k: int, include_seen: bool) -> Top:
        return self.team.top(self._asked(question), np.array(users), k, include_seen)

    def _asked(self, question: Question) -> Asked:
        devices, before = (
            (self.team.devices, self.before) if not question.held or not self.held else self.held
        )
        then = None
        if question.before is not None and before is not None:
            round, shared = question.before
            then = Moment(ServerState(round, self._tables[shared], {}), before)
        now = Moment(ServerState(question.round, self._tables[question.shared], {}), devices, then)
        return Asked(Seeded(self.terms.seed), now, question.view, self.terms.from_history)
