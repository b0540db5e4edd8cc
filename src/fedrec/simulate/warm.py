"""A warm start: a new federation that takes over what an earlier run learned, matched by original ids.

Items and users may have come or gone since. What both know is carried over; a new item gets a row, a new
user starts like any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.state import DeviceState
from fedrec.clients.store import Rows, RowStore
from fedrec.core.errors import FedrecError
from fedrec.core.ragged import Ragged, run_ends
from fedrec.core.slots import Array, Arrays, Slot
from fedrec.data.split import Split
from fedrec.server.server import ServerState
from fedrec.simulate.simulation import Simulation

BLOCK = 1024  # clients
ALIKE = 0.5  # share of items that must be the same, else it is another catalogue
Places = tuple[NDArray[np.int64], NDArray[np.int64]]


def warm_start(new: Simulation, earlier: Simulation) -> int:
    """Begin with the selected moment of an earlier run of the same method instead of with random tables.

    Returns for how many users that gives a held-out item of the new split away.
    """
    assert earlier.selected is not None
    theirs, ours = earlier.exam.split, new.exam.split
    label, old, begun = earlier.method.label, earlier.selected.moment, new.moment
    shapes = [{n: v.shape[1:] for n, v in m.server.shared.items()} for m in (old, begun)]
    if shapes[0] != shapes[1]:
        raise FedrecError(
            f"{label} of the earlier run has other tables than {new.method.label} here: "
            "start with the same method and settings"
        )
    items = matched(theirs.data.item_ids, ours.data.item_ids)
    if len(items[0]) == 0:
        raise FedrecError("the earlier run shares no item with this data: their ids differ")
    _related(theirs, ours, items)
    users = matched(_user_ids(theirs), _user_ids(ours))
    slots = new.server.slots
    if any(slots[n].bound for n in begun.server.held) and not _same(theirs, ours):
        raise FedrecError(
            f"the server of {label} has learned for its own users and items: start with the same ones"
        )
    shared, server = (
        {n: x if slots[n].anew else _carried(before[n], x, slots[n], items) for n, x in now.items()}
        for before, now in (
            (old.server.shared, begun.server.shared),
            (old.server.server, begun.server.server),
        )
    )
    new.server.state = ServerState(begun.round, shared, server)
    new.clients.state = _devices(old.devices, begun.devices, users, items)
    return given_away(theirs, ours, users, items)


def given_away(old: Split, new: Split, users: Places, items: Places) -> int:
    """Users with a held-out item that the old run trained on, or spared as a negative: either is a leak."""
    code = np.full(new.n_items, -1, np.int64)  # the old code of each new item
    code[items[1]] = items[0]
    spared = old.forbidden  # what was trained on is among it
    owner = np.repeat(np.arange(old.n_users), np.diff(spared.indptr))
    known = owner * old.n_items + spared.items  # ascending, as runs are sorted
    leaking: set[int] = set()
    for asked in (new.valid_items, new.test_items):
        item = code[asked.items[asked.places(users[1])]]
        user = np.repeat(users[0], asked.counts(users[1]))
        pair = user * old.n_items + item
        at = np.minimum(np.searchsorted(known, pair), len(known) - 1)
        leaking |= set(user[(item >= 0) & (known[at] == pair)].tolist())
    return len(leaking)


def _related(old: Split, new: Split, items: Places) -> None:
    """Ids that happen to be equal do not make two catalogues one."""
    share = len(items[0]) / min(old.n_items, new.n_items)
    titles = old.data.titles, new.data.titles
    if titles[0] and titles[1]:
        alike = [titles[0][a] == titles[1][b] for a, b in zip(*items, strict=True)]
        share = min(share, float(np.mean(alike)))
    if share < ALIKE:
        raise FedrecError(
            f"{old.data.name} and {new.data.name} share {share:.0%} of their items: "
            "start from a run on the same catalogue"
        )


def _carried(old: Array, new: Array, slot: Slot, items: Places) -> Array:
    if not slot.rows:
        return old
    return carry(old, new, items, np.zeros_like(new) if slot.unknown == "zero" else new)


def _devices(old: DeviceState, new: DeviceState, users: Places, items: Places) -> DeviceState:
    lines: Arrays = {
        n: carry(old.lines[n], v, users, v) if n in old.lines else v for n, v in new.lines.items()
    }
    rows = {
        n: carry_rows(old.rows[n], store, users, items) if n in old.rows else store
        for n, store in new.rows.items()
    }
    return DeviceState(lines, rows)


def carry(old: Array, new: Array, places: Places, fresh: Array) -> Array:
    """Rows that both have from the old table, the others as they start."""
    table = fresh.copy()
    table[places[1]] = old[places[0]]
    return table.astype(new.dtype)


def carry_rows(old: RowStore, new: RowStore, users: Places, items: Places) -> RowStore:
    """Rows that devices keep: those of the users and items that both have, some clients at a time."""
    code = np.full(int(max(items[0].max(), old.index.items.max(initial=0))) + 1, -1, np.int32)
    code[items[0]] = items[1]
    change = new.change()
    for start in range(0, len(users[0]), BLOCK):
        before, after = (place[start : start + BLOCK] for place in users)
        held, values = old.get(before)
        now = code[held.items]
        owner = np.repeat(np.arange(len(before)), np.diff(held.indptr))
        order = np.lexsort((now, owner))
        order = order[now[order] >= 0]
        counts = np.bincount(owner[order], minlength=len(before))
        indptr = run_ends(counts)
        change.put(after, Rows(Ragged(indptr, now[order]), values[order]))
    return change.done(keep_others=True)


def matched(old: NDArray[Any], new: NDArray[Any]) -> Places:
    """Where the ids that both have stand in either."""
    _, at_old, at_new = np.intersect1d(old.astype(str), new.astype(str), return_indices=True)
    return at_old, at_new


def _same(a: Split, b: Split) -> bool:
    same_items = np.array_equal(a.data.item_ids.astype(str), b.data.item_ids.astype(str))
    return same_items and np.array_equal(_user_ids(a).astype(str), _user_ids(b).astype(str))


def _user_ids(split: Split) -> NDArray[Any]:
    return np.asarray(split.data.user_ids[split.users])
