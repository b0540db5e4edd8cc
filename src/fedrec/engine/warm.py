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
from fedrec.data.split import Split
from fedrec.engine.round import Federation
from fedrec.engine.state import State

if TYPE_CHECKING:
    from fedrec.engine.run import Run

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
    federation.state = State(new.round, **carried, private={**new.private, **private}, rows=new.rows)


def carry(old: Array, new: Array, places: Places, fresh: Array) -> Array:
    """Rows that both have from the old table, the others as they start."""
    table = fresh.copy()
    table[places[1]] = old[places[0]]
    return table.astype(new.dtype)


def matched(old: NDArray[Any], new: NDArray[Any]) -> Places:
    """Where the ids that both have stand in either."""
    _, at_old, at_new = np.intersect1d(old.astype(str), new.astype(str), return_indices=True)
    return at_old, at_new


def _one(name: str, old: Array, new: Array, method: Federated) -> Array:
    """Arrays without item rows: carried over, but for what says how many there are."""
    return new if name in method.sizes else old


def _user_ids(split: Split) -> NDArray[Any]:
    return np.asarray(split.data.user_ids[split.users])
