"""A warm start: a new federation that takes over what an earlier run learned, matched by original ids.

Items and users may have come or gone since. What both know is carried over; a new item gets a row, a new
user starts like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.core.slots import Array
from fedrec.data.split import Ragged, Split
from fedrec.engine.round import Federation
from fedrec.engine.state import State
from fedrec.engine.store import Rows, RowStore

if TYPE_CHECKING:
    from fedrec.engine.run import Run

BLOCK = 1024  # clients
Places = tuple[NDArray[np.int64], NDArray[np.int64]]


def warm_start(federation: Federation, run: Run) -> None:
    """Begin with the selected state of a run of the same method instead of with random tables."""
    before = run.federation
    if not isinstance(run.method, Federated) or not isinstance(before, Federation) or before.selected is None:
        raise FedrecError(f"a run of {run.method.label} cannot be gone on with: it is not federated")
    old, new = before.selected.moment.after, federation.state
    if {n: v.shape[1:] for n, v in old.shared.items()} != {n: v.shape[1:] for n, v in new.shared.items()}:
        raise FedrecError(
            f"{run.method.label} of the earlier run has other tables than {federation.method.label} here: "
            "start with the same method and dimensions"
        )
    items = matched(run.split.data.item_ids, federation.split.data.item_ids)
    if len(items[0]) == 0:
        raise FedrecError("the earlier run shares no item with this data: their ids differ")
    users = matched(_user_ids(run.split), _user_ids(federation.split))
    if federation.method.bound and not _same(run.split, federation.split):
        raise FedrecError(
            f"the server of {run.method.label} has learned for its own users and items: start with the same ones"
        )
    slots = federation.engine.slots
    carried = {
        part: {
            name: carry(getattr(old, part)[name], value, items, federation.method.new_rows(name, value))
            if slots[name].rows
            else _one(name, getattr(old, part)[name], value, federation.method)
            for name, value in getattr(new, part).items()
        }
        for part in ("shared", "server")
    }
    private = {
        name: carry(old.private[name], value, users, value)
        for name, value in new.private.items()
        if name in old.private
    }
    rows = {
        name: carry_rows(old.rows[name], store, users, items)
        for name, store in new.rows.items()
        if name in old.rows
    }
    federation.state = State(
        new.round, **carried, private={**new.private, **private}, rows={**new.rows, **rows}
    )


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
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        change.put(after, Rows(Ragged(indptr, now[order]), values[order]))
    return change.done(keep_others=True)


def matched(old: NDArray[Any], new: NDArray[Any]) -> Places:
    """Where the ids that both have stand in either."""
    _, at_old, at_new = np.intersect1d(old.astype(str), new.astype(str), return_indices=True)
    return at_old, at_new


def _one(name: str, old: Array, new: Array, method: Federated) -> Array:
    """Arrays without item rows: carried over, but for what says how many there are."""
    return new if name in method.sizes else old


def _same(a: Split, b: Split) -> bool:
    same_items = np.array_equal(a.data.item_ids.astype(str), b.data.item_ids.astype(str))
    return same_items and np.array_equal(_user_ids(a).astype(str), _user_ids(b).astype(str))


def _user_ids(split: Split) -> NDArray[Any]:
    return np.asarray(split.data.user_ids[split.users])
