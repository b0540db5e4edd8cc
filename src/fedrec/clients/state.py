"""What devices hold between two rounds: their private arrays and item rows. Nobody else has either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.store import Change, Rows, RowStore
from fedrec.core.federated import Phase
from fedrec.core.optim import Gradient
from fedrec.core.ragged import Ids
from fedrec.core.slots import Arrays, Slot


@dataclass(frozen=True)
class DeviceState:
    """A line per client, and rows per client.

    Rows are a value; lines are written in place by a round of some of the clients: who keeps a state takes a copy.
    """

    lines: Arrays
    rows: Mapping[str, RowStore]

    def copy(self) -> DeviceState:
        """To be kept while the devices go on."""
        return DeviceState({n: v.copy() for n, v in self.lines.items()}, dict(self.rows))

    def only(self, users: Ids) -> DeviceState:
        """Some devices alone, numbered anew."""
        mine = np.arange(len(users))
        rows = {n: RowStore(s.width).put(mine, s.get(users), keep_others=False) for n, s in self.rows.items()}
        return DeviceState({n: v[users] for n, v in self.lines.items()}, rows)

    @classmethod
    def side_by_side(cls, states: Sequence[DeviceState], sizes: Sequence[int]) -> DeviceState:
        """Devices one after another, so many in each."""
        first = states[0]
        lines = {n: np.concatenate([state.lines[n] for state in states]) for n in first.lines}
        rows = {}
        for name, store in first.rows.items():
            change, start = RowStore(store.width).change(), 0
            for state, size in zip(states, sizes, strict=True):
                mine = np.arange(size)
                change.put(start + mine, state.rows[name].get(mine))
                start += size
            rows[name] = change.done(keep_others=False)
        return cls(lines, rows)


def begin(slots: Mapping[str, Slot], clients: int, seed: int, tuned: Sequence[str] = ()) -> DeviceState:
    """Before the first round; of ``tuned`` shared tables devices keep the rows as they tuned them."""
    kept = {n: s for n, s in slots.items() if s.owner == "private"}
    lines = {n: np.repeat(s.starting(n, seed)[None], clients, axis=0) for n, s in kept.items() if not s.rows}
    rows = {n: RowStore(s.shape[1:]) for n, s in kept.items() if s.rows}
    rows |= {n: RowStore(slots[n].shape[1:]) for n in tuned}
    return DeviceState(lines, rows)


def localized(slots: Mapping[str, Slot]) -> dict[str, Slot]:
    """The same slots when nothing is ever aggregated: what was shared stays on each device."""
    return {n: replace(s, owner="private") if s.owner == "shared" else s for n, s in slots.items()}


def alone(plan: list[Phase]) -> list[Phase]:
    """A plan where nothing is aggregated: a device takes the step that the server would take."""

    def step(phase: Phase) -> Phase:
        groups = [
            replace(g, optimizer=g.optimizer.alone) if isinstance(g.optimizer, Gradient) else g
            for g in phase.groups
        ]
        return replace(phase, groups=groups)

    return [step(phase) for phase in plan]


def frozen(plan: list[Phase]) -> list[Phase]:
    """A plan that leaves the shared part as it is: how a newcomer trains what is its own."""
    own = [replace(p, groups=[g for g in p.groups if g.owner != "shared"]) for p in plan]
    # A phase that moves nothing is one in which a device only looks at something.
    kept = [now for before, now in zip(plan, own, strict=True) if now.groups or not before.groups]
    return kept if any(phase.groups for phase in kept) else []


@dataclass
class Pending:
    """What a round changes on the devices, until it is known whether the round counts."""

    slots: Mapping[str, Slot]
    state: DeviceState
    round: int
    parts: list[tuple[Ids, Arrays]] = field(default_factory=list)
    changes: dict[str, Change] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changes = {name: store.change() for name, store in self.state.rows.items()}

    def put(self, users: Ids, lines: Arrays, rows: Mapping[str, Rows], finite: NDArray[np.bool_]) -> None:
        self.parts.append((users, lines))
        for name, change in self.changes.items():
            change.put(users, rows[name], only=finite)

    def done(self) -> DeviceState:
        """The state afterwards. Where everyone took part the one before stays as it was; else lines are written
        in place, so that a round costs what its clients cost."""
        lines = self.state.lines
        taking_part = sum(len(users) for users, _ in self.parts)
        if all(taking_part == len(v) for v in lines.values()):
            lines = {n: np.empty_like(v) for n, v in lines.items()}
        for users, values in self.parts:
            for name, whole in lines.items():
                whole[users] = values[name]
        rows = {n: c.done(keep_others=self.slots[n].owner == "private") for n, c in self.changes.items()}
        return DeviceState(lines, rows)
