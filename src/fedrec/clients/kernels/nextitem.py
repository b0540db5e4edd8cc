"""What follows what in clients' histories, as sums over contexts (FedNext), in compiled code.

A context is carried along a history, one row added at each step: nothing is solved for a prefix.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.entropy import STEADY
from fedrec.core.kernel import NextItem
from fedrec.core.prefetch import prefetch
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.slots import Array

SOONER = 4  # items between asking for a row of sums and adding to it


class NextItems:
    """The histories of clients, oldest first, each item where it was met last."""

    def __init__(self, form: NextItem, trained: Ragged, ages: NDArray[np.int32]) -> None:
        self.form, self.trained, self.ages = form, trained, ages
        counts = np.diff(trained.indptr)
        self.history = np.empty_like(trained.items)
        self.history[np.repeat(trained.indptr[1:] - 1, counts) - ages] = trained.items
        self.decays, self.soon = np.array(form.decays, np.float32), np.float32(form.soon)
        self._units: tuple[Array, Array] | None = None  # a table, and its rows brought to length 1

    def _unit(self, table: Array) -> Array:
        """Once for a table, however many blocks of clients ask."""
        known = self._units
        if known is None or known[0] is not table:
            known = self._units = (table, unit_rows(table, np.float32(self.form.shortest)))
        return known[1]

    def _features(self, table: Array) -> int:
        return len(self.decays) * table.shape[1] + 1

    def sums(self, table: Array, users: Ids) -> tuple[Array, Array, Array]:
        """Σ φφᵀ over the clients, of each item the contexts that it came soon after, and each client's last φ."""
        features, most = self._features(table), self.form.most
        followers = np.zeros((len(table), features), np.float32)
        chosen, last = np.empty((len(users) * most, features), np.float32), self._none(table, users)
        histories = (self.trained.indptr, self.history)
        rows = self._unit(table)
        used = _walk(users, *histories, rows, self.decays, self.soon, most, followers, chosen, last)
        return chosen[:used].T @ chosen[:used], followers, last

    def _none(self, table: Array, users: Ids) -> Array:
        return np.zeros((len(users), self._features(table)), np.float32)

    def each(self, table: Array, users: Ids) -> tuple[Array, Array]:
        """The same for each client: Σ φφᵀ, and a row for each of its items, in the order of ``trained``."""
        features = self._features(table)
        contexts = np.empty((len(users), features, features), np.float32)
        rows = []
        for c, user in enumerate(users):
            run = slice(self.trained.indptr[user], self.trained.indptr[user + 1])
            met = self.trained.items[run]
            numbered = Ragged(np.array([0, len(met)]), np.arange(len(met), dtype=np.int32))
            alone = NextItems(self.form, numbered, self.ages[run])
            contexts[c], followers, _ = alone.sums(table[met], np.array([0]))  # of its own rows alone
            rows.append(followers)
        return contexts, np.concatenate([np.zeros((0, features), np.float32), *rows])

    def last(self, table: Array, users: Ids) -> Array:
        """φ of whole histories."""
        out = self._none(table, users)
        _last(users, self.trained.indptr, self.history, self._unit(table), self.decays, out)
        return out


@nb.njit(cache=True, nogil=True)
def unit_rows(table: Any, shortest: Any) -> Any:
    """Each row over its length, or over ``shortest`` where it is shorter than that."""
    out = np.empty_like(table)
    for j in range(len(table)):
        square = np.float32(0)
        for x in table[j]:
            square += x * x
        over = np.float32(1) / max(np.sqrt(square), shortest)
        for k in range(table.shape[1]):
            out[j, k] = table[j, k] * over
    return out


@nb.njit(cache=True, nogil=True, fastmath=STEADY, inline="always")
def _step(row: Any, decays: Any, phi: Any) -> None:
    """One more item: φ ← γ φ + (1 − γ) v for each γ."""
    d = len(row)
    for g in range(len(decays)):
        keep = decays[g]
        take = np.float32(1) - keep
        at = g * d
        for k in range(d):
            phi[at + k] = keep * phi[at + k] + take * row[k]


@nb.njit(cache=True, nogil=True, fastmath=STEADY, inline="always")
def _move(row: Any, decays: Any, soon: Any, phi: Any, lately: Any, follower: Any) -> None:
    """One more item, and what came next after it, in one go over all features."""
    d = len(row)
    for g in range(len(decays)):
        keep = decays[g]
        take = np.float32(1) - keep
        short, recent, sums = (
            phi[g * d : (g + 1) * d],
            lately[g * d : (g + 1) * d],
            follower[g * d : (g + 1) * d],
        )
        for k in range(d):
            now = keep * short[k] + take * row[k]
            both = soon * recent[k] + now
            short[k] = now
            recent[k] = both
            sums[k] += both
    lately[-1] = soon * lately[-1] + phi[-1]
    follower[-1] += lately[-1]


@nb.njit(cache=True, nogil=True, fastmath=STEADY)
def _walk(
    users: Any, indptr: Any, history: Any, table: Any, decays: Any, soon: Any, most: int, followers: Any,
    chosen: Any, last: Any,
) -> int:  # fmt: skip
    """Adds to the row of each item the contexts that it came soon after; evenly spaced ones, scaled, are chosen."""
    used = 0
    lately = np.empty(chosen.shape[1], np.float32)
    for c in range(len(users)):
        mine = history[indptr[users[c]] : indptr[users[c] + 1]]
        if len(mine) == 0:
            continue
        phi = last[c]
        count = max(len(mine) - 1, 1)  # contexts whose next item is known
        stride = -(-count // most)
        root = np.sqrt(np.float32(count) / np.float32(-(-count // stride)))
        phi[-1] = 1
        lately[:] = 0
        for t in range(len(mine) - 1):
            prefetch(followers, mine[min(t + SOONER, len(mine) - 1)])
            _move(table[mine[t]], decays, soon, phi, lately, followers[mine[t + 1]])
            if (count - 1 - t) % stride == 0:
                for k in range(len(phi)):
                    chosen[used, k] = root * phi[k]
                used += 1
        _step(table[mine[-1]], decays, phi)
    return used


@nb.njit(cache=True, nogil=True, fastmath=STEADY)
def _last(users: Any, indptr: Any, history: Any, table: Any, decays: Any, out: Any) -> None:
    for c in range(len(users)):
        mine = history[indptr[users[c]] : indptr[users[c] + 1]]
        if len(mine):
            out[c, -1] = 1
        for item in mine:
            _step(table[item], decays, out[c])
