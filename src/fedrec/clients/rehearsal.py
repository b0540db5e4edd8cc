"""Devices that train without their newest item and guess it, so that a federation can choose its numbers.

See ``core/trials.py``. A gain is that of NDCG@10: 1 / log2(rank + 2), nothing below the tenth rank.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numba as nb
import numpy as np

from fedrec.clients.engine import Engine, Fitted, Setting
from fedrec.clients.state import DeviceState
from fedrec.core.fixed import Grid
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ids, Ragged, run_ends
from fedrec.core.rng import client_key, stream, uniform
from fedrec.core.slots import Array
from fedrec.core.trials import Trials
from fedrec.core.upload import Upload
from fedrec.data.clients import ClientData
from fedrec.data.negatives import draw_distinct, make_free

CANDIDATES = 499  # that the newest item is ranked among
GUESSERS = 2000  # devices that guess in a round, on average: more would say the same
TOP = 10
WHO_GUESSES = "who guesses"  # names of random streams
AMONG = "among what it is guessed"


def without_newest(data: ClientData) -> Ragged:
    """Histories that end one item earlier. A single item stays: it could not be guessed from anything."""
    counts = np.diff(data.train.indptr)
    counts = np.where(counts > 1, counts - 1, counts)
    rows = np.arange(counts.sum()) + np.repeat(data.train.indptr[:-1] - run_ends(counts)[:-1], counts)
    return Ragged(run_ends(counts), data.train.items[rows])


class Rehearsal:
    """The same devices as they were before their newest item. ``engine`` trains and ranks them so."""

    def __init__(self, trials: Trials, setting: Setting, engine: Engine) -> None:
        self.trials, self.engine, self.data, self.secret = trials, engine, setting.data, setting.secret
        self.share = min(1.0, GUESSERS / setting.catalog.n_users)

    def gains(self, broadcast: Broadcast, state: DeviceState, users: Ids) -> Array:
        """What each choice gains on each device: a line of zeros where one does not guess."""
        gains = np.zeros((len(users), len(self.trials.choices)), np.float32)
        keys, round = self.data.keys[users], broadcast.round
        who, among = (np.uint64(stream(self.secret, name, round)) for name in (WHO_GUESSES, AMONG))
        guess = np.zeros(len(users), np.bool_)
        _draw_who(who, self.share, users, keys, *self.data.train, guess)
        guessing = np.flatnonzero(guess)
        if len(guessing) == 0:
            return gains
        asked = np.full((len(guessing), 1 + CANDIDATES), -1, np.int32)
        mine = (users[guessing], keys[guessing])
        _draw_lines(among, *mine, *self.data.train, *self.data.trained, self.data.n_items, asked)
        for number, choice in enumerate(self.trials.choices):
            told = replace(broadcast, shared={**broadcast.shared, **choice})
            part = self.engine.rebuilt(told, state, users[guessing], own=False)
            scores = self.engine.score(told.shared, part, asked)
            ahead = (~(scores[:, 1:] < scores[:, :1]) & (asked[:, 1:] >= 0)).sum(axis=1)
            gains[guessing, number] = np.where(ahead < TOP, 1 / np.log2(ahead + 2.0), 0)
        return gains


def with_gains(fitted: Fitted, name: str, gains: Array, grid: Grid | None) -> Fitted:
    """What leaves the devices of a block, with what their guesses gained."""
    mine = gains[fitted.finite]
    if isinstance(fitted.sent, Upload):
        return replace(fitted, sent=replace(fitted.sent, dense={**fitted.sent.dense, name: mine}))
    if fitted.fits is not None and grid is not None:  # a gain is at most 1: it has room
        fitted.sent.sums[name] += grid.encode(gains[fitted.fits]).sum(axis=0)
    else:
        fitted.sent.sums[name] = mine.sum(axis=0, dtype=np.float32)
    return fitted


@nb.njit(cache=True, nogil=True)
def _draw_who(who: Any, share: float, users: Any, keys: Any, ptr: Any, train: Any, guess: Any) -> None:
    """Who guesses. An item met before says nothing, and nothing can be said of a device with a single item."""
    for c in range(len(users)):
        history = train[ptr[users[c]] : ptr[users[c] + 1]]
        if len(history) < 2 or not uniform(client_key(who, keys[c]), np.uint64(0)) < share:
            continue
        guess[c] = not (history[:-1] == history[-1]).any()


@nb.njit(cache=True, nogil=True)
def _draw_lines(
    among: Any, users: Any, keys: Any, ptr: Any, train: Any, met_ptr: Any, met: Any, n_items: int, lines: Any
) -> None:
    """The newest item of each, with its candidates."""
    free = make_free(n_items)
    for c in range(len(users)):
        u = users[c]
        lines[c, 0] = train[ptr[u + 1] - 1]
        draw_distinct(
            client_key(among, keys[c]), met[met_ptr[u] : met_ptr[u + 1]], n_items, free, lines[c, 1:]
        )
