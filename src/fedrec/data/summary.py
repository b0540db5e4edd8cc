"""The figures that tell data sets apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from fedrec.data.interactions import Interactions


def summary(data: Interactions) -> dict[str, Any]:
    """Counts, activity per user, density and time of a data set, as plain numbers."""
    users = np.repeat(np.arange(data.n_users, dtype=np.int64), data.counts)
    pairs = len(np.unique(users * data.n_items + data.items))
    return {
        "rows": len(data),
        "users": data.n_users,
        "items": data.n_items,
        "pairs": pairs,
        "per_user": {
            "min": int(data.counts.min()),
            "median": float(np.median(data.counts)),
            "max": int(data.counts.max()),
        },
        "density": pairs / (data.n_users * data.n_items),
        "time": None if data.times is None else time_span(int(data.times.min()), int(data.times.max())),
        "tied_newest": tied_newest(data, users),
    }


def tied_newest(data: Interactions, users: np.ndarray) -> int | None:
    """Users with several items at their newest time: their leave-one-out split depends on the tie-break."""
    if data.times is None:
        return None
    newest = data.times[data.indptr[1:] - 1]
    at_newest = data.times == newest[users]
    pairs = np.unique(users[at_newest] * data.n_items + data.items[at_newest])
    return int((np.bincount(pairs // data.n_items, minlength=data.n_users) > 1).sum())


def time_span(first: int, last: int) -> dict[str, Any]:
    """First and last time as stored and, where they are times since 1970, as dates."""
    unit = next((unit for unit, newest in UNITS.items() if newest // 20 < last <= newest), None)
    dates = [_date(stamp, unit) if unit else None for stamp in (first, last)]
    return {"first": first, "last": last, "from": dates[0], "to": dates[1]}


# Seconds, milli-, micro- and nanoseconds since 1970, told apart by size: dates from 1985 to 2286 are known.
UNITS = {per_second: 10_000_000_000 * per_second for per_second in (1, 1_000, 1_000_000, 1_000_000_000)}


def _date(stamp: int, per_second: int) -> str | None:
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=stamp / per_second)).date().isoformat()
    except OverflowError:
        return None
