"""The device half of a federation: one phone, a shard of devices, or all of them in a simulator.

``Clients`` owns interactions, private arrays and item rows, and nobody else does. It is told a ``Broadcast``
and answers with ``Reply``s; held-out items are no business of it: who evaluates hands over lines of items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedrec.channel.order import states_epsilon
from fedrec.channel.secure import grid_of
from fedrec.channel.stage import Draw, Stage, sent_through
from fedrec.clients.choose import choose_engine
from fedrec.clients.engine import Engine, Fitted, RankingPart, Setting, Wish
from fedrec.clients.gathering import Gathering, Whole
from fedrec.clients.kernels.shards import shards
from fedrec.clients.rehearsal import Rehearsal, with_gains, without_newest
from fedrec.clients.save import load_state, save_state
from fedrec.clients.state import DeviceState, Pending, alone, begin, frozen, localized
from fedrec.core.blocks import in_order
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, Introduced, Phase, tuned_tables
from fedrec.core.messages import Broadcast, Reply, Report
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.rng import generator, stream
from fedrec.core.slots import Array, Arrays, Catalog
from fedrec.core.upload import Total, Upload, Uploads, check_sent
from fedrec.data.cells import Cells
from fedrec.data.clients import ClientData

SALT = "salt"
SCORES = 1 << 24  # numbers, of a block that ranks the whole catalogue
LARGEST = 1 << 25  # numbers that the single uploads of a block in a cell may hold
Receive = Callable[[Reply, Ids], Reply]


@dataclass(frozen=True)
class Ask:
    """What a round wants of its clients besides their training."""

    single: bool = False  # uploads one by one, not their sum
    lines: Callable[[Ids], NDArray[np.int32]] | None = None  # items to score afterwards, a line per client
    gathered: bool = False  # whole numbers of all blocks in one sum, which comes last: no order matters


@dataclass(frozen=True)
class Answer:
    """What came of a block of clients: what goes up, and what only a simulator sees."""

    reply: Reply
    users: Ids
    scores: Array | None  # of the lines asked for, with tuned rows
    seconds: tuple[float, float]  # training, ranking


class Clients:
    """Devices that train together in one process. They are numbered from 0, as in their data."""

    def __init__(
        self,
        method: Federated,
        data: ClientData,
        catalog: Catalog,
        seed: int = 0,
        *,
        secret: int,
        salt: int | None = None,
        engine: str = "auto",
        channel: Sequence[Stage] = (),
        shortcut: int = 0,
        local: bool = False,
        keeps_tuned: bool = False,
        threads: int = 1,
        cells: Cells | None = None,
        expected: int | None = None,
        draw: Draw = generator,
    ) -> None:
        """``seed`` is the run's and public: slots start from it. What devices draw hangs on their ``secret``,
        which a simulation takes from the seed and a real device keeps to itself. ``salt`` is known to all clients
        and to nobody else; a simulation takes it from the seed too.

        ``shortcut``: a simulator draws so many of the last stages for the sum, so that devices leave them out.
        ``local``: nothing is ever aggregated. ``keeps_tuned``: shared rows as they were tuned in a client's
        last round are stored; without it they can be had by training that round again. ``cells``: clients of
        different cells are never worked on together, so that it does not matter where a cell is. ``expected``: how
        many clients share the noise of a sum, by default all. ``draw``: what the channel's noise is drawn with.
        """
        self.method, self.data, self.threads, self.cells = method, data, threads, cells
        self.channel, self.draw = tuple(channel[: len(channel) - shortcut]), draw
        self.expected = catalog.n_users if expected is None else expected
        self.silent = states_epsilon(channel)  # anything told besides the upload would cost privacy
        self.grid = grid_of(channel, catalog.n_users)
        slots = method.slots(catalog)
        self.slots = localized(slots) if local else slots
        self.uploads = Uploads({}) if local else method.uploads(catalog)
        self.salt = stream(seed, SALT) if salt is None else salt
        self.trials = None if local else method.trials(catalog)
        made = {n: s for n, s in self.uploads.arrays.items() if self.trials is None or n != self.trials.gains}
        by_engine = replace(self.uploads, arrays=made)
        setting = Setting(method, data, catalog, seed, secret, self.slots, by_engine, local)
        self.setting, self.engine = setting, choose_engine(engine, setting)
        self.tuned = tuned_tables(method, catalog) if keeps_tuned else []
        self.state = begin(self.slots, len(data), seed, self.tuned)
        self.untouched = not any(
            stage.at_device for stage in self.channel
        )  # what leaves is what was computed
        self.looked_at = bool(self.grid) or not self.untouched  # one by one
        self._pending: Pending | None = None
        self._rehearsal: Rehearsal | None = None

    def __len__(self) -> int:
        return len(self.data)

    @property
    def everyone(self) -> Ids:
        return np.arange(len(self.data))

    def blocks(self, users: Ids, engine: Engine | None = None) -> list[Ids]:
        """Which clients to work on together; a function of these users alone, with cells cell by cell."""
        engine = engine or self.engine
        if self.cells is None:
            return engine.blocks(users)
        if engine.name == "plain":  # bits of a client hang on who is stacked beside it
            return [block for mine in self.cells.cut(users) for block in engine.blocks(mine)]
        arrays = self.uploads.arrays.values()
        per_row, dense = (
            sum(slot.size(rows) for slot in arrays if slot.rows is rows) for rows in (True, False)
        )
        found = []
        for mine in self.cells.cut(users):
            numbers = self.data.samples(mine) * per_row + dense + 1
            found += shards(mine, numbers, 1 + int(numbers.sum()) // LARGEST)
        return found

    def ranking_blocks(self) -> list[Ids]:
        """Everyone, in blocks whose scores of the whole catalogue fit beside each other."""
        most = max(16, SCORES // max(self.data.n_items, 1))
        blocks = self.blocks(self.everyone)
        if self.cells is None and self.engine.name == "plain":
            return blocks
        return [part for b in blocks for part in np.array_split(b, -(-len(b) // most))]

    def introduce(self) -> Introduced | None:
        """What the devices tell once, before the first round."""
        return self.method.introduce(self.data.trained, self.state.lines, self.salt)

    # -- training ------------------------------------------------------------------------------

    def plan(self, round: int) -> list[Phase]:
        plan = self.setting.plan(round)
        return alone(plan) if self.setting.local else plan

    def fit(
        self, broadcast: Broadcast, users: Ids, ask: Ask | None = None, receive: Receive | None = None
    ) -> Iterator[Answer]:
        """A round of some clients, block by block. What it changes on them counts once ``keep`` is called.

        ``receive`` is what becomes of a block's reply at its receiver, on the thread that made it.
        """
        asked = ask or Ask()
        plan = self.plan(broadcast.round)
        if reason := self.engine.why_not(plan):
            raise FedrecError(
                f"engine 'fused' cannot run round {broadcast.round} of {self.method.label}: {reason}; "
                "ask for engine 'plain'"
            )
        if (
            self._pending is None or self._pending.round != broadcast.round
        ):  # a round that got lost is forgotten
            self._pending = Pending(self.slots, self.state, broadcast.round)
        pending = self._pending
        wants_rows = bool(pending.changes)
        withheld = 0.0 if self.trials is None else float(broadcast.shared[self.trials.withheld])
        rehearsal = self.rehearsal if withheld > 0 else None
        if rehearsal is None:
            self._rehearsal = None  # over: what it holds is as large as the data
        engine = self.engine if rehearsal is None else rehearsal.engine
        together = None
        if self.grid and asked.gathered:
            together = Gathering(self.grid, self.uploads.arrays, self.setting.catalog.n_users)

        def work(block: Ids) -> tuple[Fitted, Reply]:
            with nullcontext() if together is None else together.lent() as whole:
                return work_into(block, whole)

        def work_into(block: Ids, whole: Whole | None) -> tuple[Fitted, Reply]:
            lines = None if asked.lines is None else asked.lines(block)
            added = whole if self.untouched and not asked.single else None
            wish = Wish(asked.single or self.looked_at, wants_rows, lines, added)
            fitted = engine.fit(broadcast, self.state, block, plan, wish)
            if self.trials is not None:
                gains = np.zeros((len(block), len(self.trials.choices)), np.float32)
                if rehearsal is not None and withheld <= self.trials.guesses:
                    gains = rehearsal.gains(broadcast, self.state, block)
                fitted = with_gains(fitted, self.trials.gains, gains, self.grid)
            reply = self._reply(broadcast.round, fitted, whole)
            return fitted, receive(reply, block) if receive else reply

        for fitted, reply in in_order(work, self.blocks(users, engine), self.threads):
            pending.put(fitted.users, fitted.lines, fitted.rows or {}, fitted.finite)
            yield Answer(reply, fitted.users, fitted.scores, fitted.seconds)
        if together is not None:
            nobody = users[:0]
            yield Answer(Reply(nobody, together.total(), Report()), nobody, None, (0.0, 0.0))

    @property
    def rehearsal(self) -> Rehearsal:
        """These devices as they were before their newest item: there while a method tries out its numbers."""
        if self._rehearsal is None:
            assert self.trials is not None
            before = self.knowing(without_newest(self.data))
            self._rehearsal = Rehearsal(self.trials, self.setting, before.engine)
        return self._rehearsal

    def keep(self) -> None:
        """The round counts: devices are as they were trained."""
        if self._pending is not None:
            self.state, self._pending = self._pending.done(), None

    def drop(self) -> None:
        """The round does not count: devices stay as they were before it."""
        self._pending = None

    def _reply(self, round: int, fitted: Fitted, whole: Whole | None = None) -> Reply:
        """What leaves the devices of a block: declared arrays after the channel's half on the device, and sums."""
        finite, sent, rows = fitted.finite, fitted.sent, fitted.rows_sent
        label, declared = self.method.label, self.uploads.arrays
        if isinstance(sent, Upload) and not any(slot.rows for slot in declared.values()):
            sent, rows = sent.without_items(), 0  # which rows were touched is nobody's business
        check_sent(label, sent, self.slots, declared)
        users = fitted.users[finite]
        if fitted.fits is not None:  # it has been added
            users, sent = fitted.users[fitted.fits], Total({})
        elif isinstance(sent, Upload) and self.looked_at and declared:
            keys = self.data.keys[users]
            uploads = self.uploads.at(round, self.expected)
            sent = sent_through(self.channel, sent, uploads, self.setting.secret, round, keys, self.draw)
            check_sent(label, sent, self.slots, declared)
            kept = sent.finite() if self.grid is None else self.grid.fits(sent, self.setting.catalog.n_users)
            sent, users = sent.only(kept), users[kept]
            rows = len(sent.items.items)
            if whole is not None:
                whole.add(sent)
                sent = Total({})
            elif self.grid is not None:
                sent = self.grid.summed(sent, declared)
        if self.silent:
            return Reply(users, sent, Report(clients=len(finite), rows=rows, silent=True))
        report = Report(clients=len(finite), dropped=len(finite) - len(users), rows=rows)
        if len(self) > 1 or self.cells is not None:  # of a device alone a sum would be its own figure
            report.loss = float(fitted.loss[finite].sum(dtype=np.float64))
            reported = [n for n, slot in self.slots.items() if slot.reported]
            report.figures = {n: float(fitted.lines[n][finite].sum(dtype=np.float64)) for n in reported}
        return Reply(users, sent, report)

    # -- ranking -------------------------------------------------------------------------------

    def part(
        self, broadcast: Broadcast, users: Ids, own: bool, state: DeviceState | None = None
    ) -> RankingPart:
        """What devices rank with beside the broadcast; ``own``: with item rows of their own."""
        return self.engine.rebuilt(broadcast, self.state if state is None else state, users, own)

    def trained_again(self, broadcast: Broadcast, before: DeviceState, users: Ids) -> RankingPart:
        """What devices ranked with at the end of a round: it is trained once more, to the same bits."""
        plan = self.plan(broadcast.round)
        fitted = self.engine.fit(broadcast, before, users, plan, Wish(rows=True))
        return RankingPart(users, fitted.lines, fitted.rows or {}, broadcast.given(users))

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32] | None = None) -> Array:
        """Scores of a line of items per device (-1 is padding), or of the whole catalogue."""
        if items is None:
            return self.engine.score_all(shared, part)
        return self.engine.score(shared, part, items)

    def knowing(self, histories: Ragged) -> Clients:
        """The same devices once their histories have grown: to rank with, nothing is trained."""
        grown = copy(self)
        grown.data = self.data.knowing(histories)
        grown.setting = replace(self.setting, data=grown.data)
        # Histories that are longer than a kernel takes are ranked from on the plain engine.
        grown.engine = choose_engine("plain" if self.engine.name == "plain" else "auto", grown.setting)
        return grown

    # -- newcomers, files ----------------------------------------------------------------------

    def join(self, broadcast: Broadcast, passes: int) -> None:
        """Become part of a trained federation: local passes over what is private, the shared part as it is."""
        some = np.flatnonzero(self.data.train.counts(self.everyone))
        for number in range(1, passes + 1) if len(some) else ():
            plan = frozen(self.setting.plan(broadcast.round + number))
            if not plan:
                return
            pending = Pending(self.slots, self.state, broadcast.round + number)
            told = Broadcast(broadcast.round + number, broadcast.shared, broadcast.given)
            for block in self.engine.blocks(some):
                fitted = self.engine.fit(told, self.state, block, plan, Wish(rows=True))
                pending.put(block, fitted.lines, fitted.rows or {}, np.ones(len(block), np.bool_))
            self.state = pending.done()

    def save(self, path: Path) -> None:
        save_state(path, self.state)

    def load(self, path: Path) -> None:
        self.state, self._pending = self.like_these(load_state(path), str(path)), None

    def like_these(self, found: DeviceState, source: str) -> DeviceState:
        """What these clients can go on from, or a sentence: another version of a method may hold other arrays."""
        shapes = [{n: v.shape for n, v in state.lines.items()} for state in (found, self.state)]
        if shapes[0] != shapes[1] or found.rows.keys() != self.state.rows.keys():
            raise FedrecError(f"{source} was written by other clients than these: their arrays differ")
        return found
