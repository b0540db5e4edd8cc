"""A team of workers, wherever they are: each has whole cells, the driver has the server's half and no interactions.

What changes devices is remembered until the next checkpoint. A worker that is lost is replaced: the new one reads
its cells' part of the data, goes on from the checkpoint and does what was done since, to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedrec.clients.clients import Receive
from fedrec.clients.state import DeviceState
from fedrec.core.errors import FedrecError
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ids
from fedrec.core.slots import Array, Arrays, Slot
from fedrec.data.outline import Outline, Piece
from fedrec.data.shards import Loading
from fedrec.evaluate.controls import Control
from fedrec.evaluate.exam import Which
from fedrec.evaluate.metrics import Ranks
from fedrec.evaluate.ranking import Measured
from fedrec.simulate.carrier import Carrier, Lost
from fedrec.simulate.cellfiles import begin_checkpoint, finish_checkpoint, load_server, pointed_to
from fedrec.simulate.moment import Moment, Selected
from fedrec.simulate.team import Asked, Part, Terms, Top
from fedrec.simulate.worker import Failed, Question, versions

TRIES = 4  # times in a row that a worker may be lost over one command
Args = Callable[[int], tuple[Any, ...]]


@dataclass(frozen=True)
class Elsewhere(DeviceState):
    """Devices that workers have: as they are now, or as they were in the selected round."""

    held: bool = False


NOW, HELD = Elsewhere({}, {}), Elsewhere({}, {}, held=True)


class Done(NamedTuple):
    """A command that changed devices, so that it can be given again."""

    command: str
    args: Args
    tables: Mapping[int, Arrays]


class Crew:
    """Workers as a team."""

    def __init__(self, carrier: Carrier, loading: Loading, threads: int = 1) -> None:
        self.carrier, self.loading, self.threads = carrier, loading, threads
        self.lost = 0
        self.ranked: Ranks | None = None
        self._terms: Terms | None = None
        self._since: list[Done] = []  # the last checkpoint
        self._checkpoint: tuple[str, dict[str, str] | None] | None = None
        self._shared: dict[int, Arrays] = {}  # by number, the latest last
        self._handles: dict[int, Any] = {}
        self._check_versions(self._ask("hello", lambda i: ()))
        self.outline = self._joined(self._ask("open", self._opening))

    # -- who they are --------------------------------------------------------------------------

    def _opening(self, worker: int) -> tuple[Any, ...]:
        return self.loading, worker, self.carrier.count, self.threads

    def _check_versions(self, found: Sequence[dict[str, str]]) -> None:
        mine = versions()
        for worker, theirs in enumerate(found):
            for name, version in mine.items():
                if theirs[name] != version:
                    raise FedrecError(
                        f"worker {worker} has {name} {theirs[name]} and this is {name} {version}: install the "
                        "same on every node, else bits would differ"
                    )

    def _joined(self, pieces: Sequence[Piece]) -> Outline:
        whole = {piece.sums[0] for piece in pieces if len(piece.sums) == 1 and len(piece.sums[0]) == 16}
        if len({piece.public for piece in pieces}) > 1 or len(whole) > 1:
            raise FedrecError(
                f"workers found different data under {self.loading.source}: put the same files on every node"
            )
        how = self.loading
        found = Outline.joined(pieces, how.protocol, how.seed, how.hold_out)
        if not found.n_users:
            raise FedrecError(
                f"no user of {found.data.name} has the {how.protocol.least} interactions that protocol "
                f"'{how.protocol.name}' needs: use data with longer histories"
            )
        ends = np.cumsum([0, *(piece.names.n_users for piece in pieces)])
        self.runs = [range(a, b) for a, b in pairwise(ends.tolist())]
        return found

    def begin(self, terms: Terms, slots: Mapping[str, Slot]) -> None:
        """Workers make their devices."""
        self._terms, self.slots = terms, slots
        shared = [slot for slot in slots.values() if slot.owner == "shared"]
        size = sum(int(np.prod(slot.shape)) for slot in shared)
        self.carrier.room(4 * size, 8 * size)
        self.engine: str = self._ask("begin", lambda i: (terms,))[0]
        self._since, self._checkpoint = [], None

    def says(self) -> str:
        lost = f", lost and replaced {self.lost}" if self.lost else ""
        return f"{self.carrier.count} workers{lost}"

    def about(self) -> dict[str, Any]:
        return {"kind": self.carrier.name, "count": self.carrier.count, "lost": self.lost}

    @property
    def devices(self) -> DeviceState:
        return NOW

    # -- rounds --------------------------------------------------------------------------------

    def warm_up(self, told: Broadcast) -> None:
        shared = self._number(told.shared)
        self._ask("warm_up", lambda i: (told.round, shared), [shared])

    def fit(
        self, broadcast: Broadcast, users: Ids, single: bool, receive: Receive, rank: bool
    ) -> Iterator[Part]:
        shared = self._number(broadcast.shared)

        def args(worker: int, rank: bool = False) -> tuple[Any, ...]:
            return broadcast.round, shared, self._own(worker, users), rank

        places: list[Ranks] = []
        for worker, (part, ranks) in enumerate(self._answers("fit", lambda i: args(i, rank), [shared])):
            places.append(ranks)
            sums = part.sent.sums
            if worker == 0:  # the others are added to it, one by one: never all at once in this process
                sums = {n: v.copy() for n, v in sums.items()}
            yield part._replace(sent=replace(part.sent, sums=sums))
        self._since.append(Done("fit", args, {shared: broadcast.shared}))
        self.ranked = self._side_by_side(places) if rank else None

    def _own(self, worker: int, users: Ids) -> Ids:
        """A worker's clients among these (ascending), by its own numbers."""
        run = self.runs[worker]
        a, b = np.searchsorted(users, [run.start, run.stop])
        return users[a:b] - run.start

    def keep(self) -> None:
        self._tell("keep")

    def drop(self, before: DeviceState) -> None:
        while self._since and self._since[-1].command == "fit":
            self._since.pop()
        with suppress(FedrecError, KeyboardInterrupt):  # they forget it when the next round begins
            self._ask("drop", lambda i: ())

    def held(self, moment: Moment) -> Moment:
        self._tell("hold")
        before = moment.before
        return Moment(moment.server, HELD, None if before is None else Moment(before.server, HELD))

    def _tell(self, command: str) -> None:
        self._ask(command, lambda i: ())
        self._since.append(Done(command, lambda i: (), {}))

    # -- checkpoints ---------------------------------------------------------------------------

    def save(self, folder: Path, last: Moment, selected: Selected | None) -> None:
        """Every worker writes its cells; it counts once the server's part is there and all are named."""
        path = begin_checkpoint(folder, last.round)
        same = selected is None or selected.round == last.round
        sums: dict[str, str] = {}
        for found in self._ask("save", lambda i: (str(path.resolve()), same)):
            sums |= found
        finish_checkpoint(path, self.outline.cells, sums, last, selected)
        self._checkpoint, self._since = (str(path.resolve()), sums), []

    def load(self, folder: Path) -> tuple[Moment, Selected | None]:
        path, sums = pointed_to(folder, self.outline.cells)
        last, selected = load_server(path, sums)
        self._checkpoint, self._since = (str(path.resolve()), sums), []
        self._ask("load", self._loading)
        now = Moment(last.server, NOW)
        if selected is None:
            return now, None
        before = selected.moment.before
        held = Moment(selected.moment.server, HELD, before and Moment(before.server, HELD))
        return now, Selected(held, selected.value, selected.validation)

    def _loading(self, worker: int) -> tuple[Any, ...]:
        assert self._checkpoint is not None
        path, sums = self._checkpoint
        return path, self.runs[worker].start, sums

    # -- ranking -------------------------------------------------------------------------------

    def ranks(self, asked: Asked, which: Which, full: bool = False) -> Ranks:
        question, tables = self._question(asked)
        return self._side_by_side(self._ask("ranks", lambda i: (question, which, full), tables))

    def measure(self, asked: Asked, k: int) -> tuple[Measured, int]:
        question, tables = self._question(asked)
        found = self._ask("measure", lambda i: (question, k), tables)
        parts, short = [part for part, _ in found], sum(few for _, few in found)
        valid, test, full = (
            self._side_by_side([getattr(p, n) for p in parts]) for n in ("valid", "test", "full")
        )
        top = np.concatenate([part.top for part in parts])
        return Measured(valid, test, full, top, parts[0].knew), short

    def controls(self, met_by: Array, rounds: int, seed: int) -> Control:
        found = self._ask("controls", lambda i: (met_by, rounds, seed))
        return Control(*(self._side_by_side([one[kind] for one in found]) for kind in range(2)))

    def top(self, asked: Asked, users: Ids | None, k: int, include_seen: bool) -> Top:
        everyone = np.arange(self.outline.n_users)
        chosen = everyone if users is None else np.asarray(users, np.int64)
        order = np.argsort(chosen, kind="stable")
        question, tables = self._question(asked)
        args = [(question, self._own(i, chosen[order]), k, include_seen) for i in range(self.carrier.count)]
        found = [one for one in self._ask("top", lambda i: args[i], tables) if len(one[0])]
        items = np.empty((len(chosen), k), np.int32)
        scores = np.empty((len(chosen), k), np.float32)
        items[order] = np.concatenate([one[0] for one in found])
        scores[order] = np.concatenate([one[1] for one in found])
        return items, scores

    def _question(self, asked: Asked) -> tuple[Question, list[int]]:
        moment, before = asked.moment, asked.moment.before
        shared = self._number(moment.server.shared)
        then = None if before is None else (before.round, self._number(before.server.shared))
        held = isinstance(moment.devices, Elsewhere) and moment.devices.held
        tables = [shared] if then is None else [shared, then[1]]
        return Question(held, moment.round, shared, then, asked.view), tables

    def _side_by_side(self, parts: Sequence[Ranks]) -> Ranks:
        """Ranks of all workers' users, one after another."""
        ahead, ties, among = (np.concatenate(counts) for counts in zip(*parts, strict=True))
        if all(part.users is None for part in parts):
            return Ranks(ahead, ties, among)
        owners = [
            run.start + (np.arange(len(part.ahead)) if part.users is None else part.users)
            for part, run in zip(parts, self.runs, strict=True)
        ]
        return Ranks(ahead, ties, among, np.concatenate(owners))

    # -- commands ------------------------------------------------------------------------------

    def _number(self, shared: Arrays) -> int:
        """The number that workers know these arrays by; the same arrays keep theirs."""
        for number, known in self._shared.items():
            if known.keys() == shared.keys() and all(known[n] is shared[n] for n in known):
                return number
        number = max(self._shared, default=0) + 1
        self._shared[number] = shared
        for old in sorted(self._shared)[:-4]:
            self._handles.pop(old, None)
            del self._shared[old]
        return number

    def _tables(self, numbers: Sequence[int]) -> dict[int, Any]:
        for number in numbers:
            if number not in self._handles:
                self._handles[number] = self.carrier.put(self._shared[number])
        return {number: self._handles[number] for number in numbers}

    def _ask(self, command: str, args: Args, tables: Sequence[int] = ()) -> list[Any]:
        """The answers of all workers to a command."""
        return list(self._answers(command, args, tables))

    def _answers(self, command: str, args: Args, tables: Sequence[int] = ()) -> Iterator[Any]:
        """All are asked at once, and answer in turn; who is lost is replaced and asked again."""
        known = self._tables(tables)

        def call(worker: int) -> Any:
            return self.carrier.call(worker, command, args(worker), known)

        promises = [call(worker) for worker in range(self.carrier.count)]
        for worker in range(self.carrier.count):
            promise, promises[worker] = promises[worker], None  # what was answered is let go
            yield self._answer(worker, lambda worker=worker: call(worker), promise)  # type: ignore[misc]

    def _answer(self, worker: int, again: Callable[[], Any], promise: Any) -> Any:
        for _ in range(TRIES):
            try:
                found = self.carrier.get(promise)
            except Lost:
                self.lost += 1
                promise = self._replaced(worker, again)
                continue
            if isinstance(found, Failed):
                raise FedrecError(found.says)
            return found
        raise FedrecError(
            f"worker {worker} was lost {TRIES} times in a row: is there enough memory where it runs? "
            "What was saved is still there"
        )

    def _replaced(self, worker: int, again: Callable[[], Any]) -> Any:
        """A new worker, brought to where the lost one was; what it is asked next."""
        try:
            self.carrier.replace(worker)
            self._once(worker, "open", self._opening(worker))
            if self._terms is not None:
                self._once(worker, "begin", (self._terms,))
                if self._checkpoint is not None:
                    self._once(worker, "load", self._loading(worker))
                for done in self._since:
                    handles = {n: self.carrier.put(arrays) for n, arrays in done.tables.items()}
                    self._once(worker, done.command, done.args(worker), handles)
        except Lost as lost:
            return lost
        return again()

    def _once(
        self, worker: int, command: str, args: tuple[Any, ...], tables: Mapping[int, Any] | None = None
    ) -> None:
        found = self.carrier.get(self.carrier.call(worker, command, args, tables or {}))
        if isinstance(found, Failed):
            raise FedrecError(found.says)

    def close(self) -> None:
        self.carrier.close()
