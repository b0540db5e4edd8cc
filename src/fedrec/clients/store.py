"""Item rows that clients keep between rounds, for touched items only: never users × items.

Rows lie in a pool that grows by chunks; a store is an index into it: per client its items, sorted, and
where their rows are. A round writes changed rows to free places and makes a new index, so a store is a
value, and two of them (the last round and the selected one) share every row that did not change in
between. Places that no store points to any more are free again. Chunks beyond a limit are mapped to
temporary files, so that the system may page them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.clients.pool import Pool
from fedrec.core.ragged import Ids, Ragged, run_ends
from fedrec.core.slots import Array

PIECE = 1 << 20  # rows of a part in a file, about


class Rows(NamedTuple):
    """Rows of a few clients: client c holds ``values[items.indptr[c]:items.indptr[c + 1]]``, items sorted."""

    items: Ragged
    values: Array


class Index(NamedTuple):
    """Whose rows are where: client u's item ``items[k]`` at place ``places[k]``, k in its run."""

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    places: NDArray[np.int32]


class RowStore:
    """Rows by client. ``put`` gives a new store that shares what did not change."""

    def __init__(self, width: tuple[int, ...], pool: Pool | None = None, index: Index | None = None) -> None:
        self.width = width
        self.pool = pool or Pool(int(np.prod(width)))
        self.index = index or Index(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32))
        self.pool.stores.add(self)

    def __len__(self) -> int:
        return int(np.count_nonzero(np.diff(self.index.indptr)))

    def get(self, users: Ids) -> Rows:
        first, counts = self._runs(users)
        indptr = run_ends(counts)
        items = np.empty(indptr[-1], np.int32)
        values = np.empty((int(indptr[-1]), self.pool.width), np.float32)
        chunks, bits = self.pool.chunks, self.pool.bits
        _gather(first, indptr, self.index.items, self.index.places, chunks, bits, items, values)
        return Rows(Ragged(indptr, items), values.reshape(-1, *self.width))

    def _runs(self, users: Ids) -> tuple[Ids, Ids]:
        """Where each client's run begins, and its length."""
        indptr = self.index.indptr
        known = users < len(indptr) - 1
        at = np.where(known, users, 0)
        if len(indptr) == 1:
            return np.zeros(len(users), np.int64), np.zeros(len(users), np.int64)
        return indptr[at], np.where(known, indptr[at + 1] - indptr[at], 0)

    def change(self) -> Change:
        """Begin to write: ``put`` as often as needed, then ``done`` gives the new store."""
        return Change(self)

    def put(
        self, users: Ids, rows: Rows, keep_others: bool, only: NDArray[np.bool_] | None = None
    ) -> RowStore:
        """Store rows; a client's other rows stay (persistent slots) or go (rows of the last round only).

        With ``only`` the other clients are left as they are.
        """
        change = self.change()
        change.put(users, rows, only)
        return change.done(keep_others)

    def over(self, table: Array, users: Ids, items: NDArray[np.int32]) -> Array:
        """Like ``overlay`` with these clients' rows, without fetching all of them."""
        flat = table.reshape(len(table), -1)
        out = np.empty((*items.shape, flat.shape[1]), np.float32)
        first, counts = self._runs(users)
        chunks, bits = self.pool.chunks, self.pool.bits
        _over(flat, first, counts, self.index.items, self.index.places, chunks, bits, items, out)
        return out.reshape(*items.shape, *table.shape[1:])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """As plain arrays."""
        users = np.flatnonzero(np.diff(self.index.indptr))
        rows = self.get(users)
        return {"users": users, "indptr": rows.items.indptr, "items": rows.items.items, "values": rows.values}

    def pieces(self) -> dict[str, NDArray[Any] | Values]:
        """The same in parts, for a file: values are fetched from the pool one part at a time."""
        users = np.flatnonzero(np.diff(self.index.indptr))
        _, counts = self._runs(users)
        cuts = np.searchsorted(np.cumsum(counts), np.arange(PIECE, counts.sum() + PIECE, PIECE))
        parts = [part for part in np.split(users, cuts + 1) if len(part)]
        head: dict[str, Any] = {
            "users": users,
            "counts": counts,
            "items": self.index.items,
            "width": np.array(self.width, int),
        }
        values = {f"values-{k}": Values(StoredRows(self, part)) for k, part in enumerate(parts)}
        return {**head, "parts": np.array([len(part) for part in parts], np.int64), **values}

    @classmethod
    def from_pieces(cls, pieces: Mapping[str, NDArray[Any]]) -> RowStore:
        change = cls(tuple(pieces["width"].tolist())).change()
        users, items = pieces["users"], pieces["items"]
        indptr = run_ends(pieces["counts"])
        first = 0
        for k, length in enumerate(pieces["parts"]):
            part = slice(first, first + length)
            run = indptr[first : first + length + 1]
            owned = Ragged(run - run[0], items[run[0] : run[-1]])
            change.put(users[part], Rows(owned, pieces[f"values-{k}"]))
            first += length
        return change.done(keep_others=False)


class Change:
    """Rows on their way into a store. They are in the pool at once, and nobody's until ``done``."""

    def __init__(self, store: RowStore) -> None:
        self.store = store
        self._parts: list[tuple[Ids, Ragged, NDArray[np.int32]]] = []
        store.pool.make_room()

    def put(self, users: Ids, rows: Rows, only: NDArray[np.bool_] | None = None) -> None:
        pool = self.store.pool
        owned, values = rows.items, rows.values.reshape(len(rows.values), pool.width)
        kept = np.ones(len(users), np.bool_) if only is None else only
        if not kept.all():
            there = np.repeat(kept, np.diff(owned.indptr))
            users, owned, values = users[kept], owned.take(np.flatnonzero(kept)), values[there]
        places = pool.take(len(values))
        _scatter(np.ascontiguousarray(values), places, pool.chunks, pool.bits)
        self._parts.append((users, owned, places))

    def done(self, keep_others: bool) -> RowStore:
        """The store with what was put; clients that were not put are as before."""
        old = self.store.index
        n_users = max(
            [len(old.indptr) - 1, *(int(users.max()) + 1 for users, _, _ in self._parts if len(users))]
        )
        old_ptr = np.concatenate([old.indptr, np.full(n_users + 1 - len(old.indptr), old.indptr[-1])])
        first, length = (
            np.zeros(n_users, np.int64),
            np.full(n_users, -1, np.int64),
        )  # of the new run; -1: none
        begin = 0
        for users, owned, _ in self._parts:
            first[users] = begin + owned.indptr[:-1]
            length[users] = np.diff(owned.indptr)
            begin += len(owned.items)
        items = np.concatenate([old.items[:0], *(owned.items for _, owned, _ in self._parts)])
        places = np.concatenate([old.places[:0], *(places for _, _, places in self._parts)])
        merged = _merge(old_ptr, old.items, old.places, first, length, items, places, keep_others)
        return RowStore(self.store.width, self.store.pool, Index(*merged))


class StoredRows(NamedTuple):
    """Rows of some clients that are still in the store."""

    store: RowStore
    users: Ids


OwnRows = Rows | StoredRows


def fetched(own: OwnRows) -> Rows:
    """The rows themselves, wherever they are."""
    return own.store.get(own.users) if isinstance(own, StoredRows) else own


class Values:
    """The values of rows that are still in the store, as an array when asked."""

    def __init__(self, stored: StoredRows) -> None:
        self._stored = stored

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self._stored.store.get(self._stored.users).values


def overlay(table: Array, rows: OwnRows | None, items: NDArray[np.int32]) -> Array:
    """Rows of ``items`` (a line of items per client): its own where it holds one, else the table's."""
    if isinstance(rows, StoredRows):
        return rows.store.over(table, rows.users, items)
    flat = table.reshape(len(table), -1)
    out = np.empty((*items.shape, flat.shape[1]), np.float32)
    if rows is None:
        np.take(flat, items, axis=0, out=out, mode="clip")
    else:
        values = rows.values.reshape(len(rows.values), flat.shape[1])
        _overlay(flat, rows.items.indptr, rows.items.items, values, items, out)
    return out.reshape(*items.shape, *table.shape[1:])


@nb.njit(cache=True, nogil=True)
def _overlay(table: Any, indptr: Any, owned: Any, values: Any, items: Any, out: Any) -> None:
    for c in range(items.shape[0]):
        first, end = indptr[c], indptr[c + 1]
        for k in range(items.shape[1]):
            item = max(items[c, k], 0)  # padding
            at = first + np.searchsorted(owned[first:end], item)
            own = at < end and owned[at] == item
            for j in range(table.shape[1]):
                out[c, k, j] = values[at, j] if own else table[item, j]


@nb.njit(cache=True, nogil=True)
def _over(
    table: Any, first: Any, counts: Any, owned: Any, places: Any, chunks: Any, bits: int, items: Any, out: Any
) -> None:
    for c in range(items.shape[0]):
        begin, end = first[c], first[c] + counts[c]
        for k in range(items.shape[1]):
            item = max(items[c, k], 0)  # padding
            at = begin + np.searchsorted(owned[begin:end], item)
            if at < end and owned[at] == item:
                chunk, spot = chunks[places[at] >> bits], places[at] & ((1 << bits) - 1)
                for j in range(table.shape[1]):
                    out[c, k, j] = chunk[spot, j]
            else:
                for j in range(table.shape[1]):
                    out[c, k, j] = table[item, j]


@nb.njit(cache=True, nogil=True)
def _gather(
    first: Any, indptr: Any, owned: Any, places: Any, chunks: Any, bits: int, items: Any, values: Any
) -> None:
    for c in range(len(first)):
        for k in range(indptr[c + 1] - indptr[c]):
            at = first[c] + k
            items[indptr[c] + k] = owned[at]
            chunk, spot = chunks[places[at] >> bits], places[at] & ((1 << bits) - 1)
            for j in range(values.shape[1]):
                values[indptr[c] + k, j] = chunk[spot, j]


@nb.njit(cache=True, nogil=True)
def _scatter(values: Any, places: Any, chunks: Any, bits: int) -> None:
    number = 0
    chunk = chunks[number]
    for k in range(len(places)):
        if places[k] >> bits != number:  # to ask the list for it costs more than a row
            number = places[k] >> bits
            chunk = chunks[number]
        spot = places[k] & ((1 << bits) - 1)
        for j in range(values.shape[1]):
            chunk[spot, j] = values[k, j]


@nb.njit(cache=True, nogil=True)
def _merge(
    old_ptr: Any, old_items: Any, old_places: Any, first: Any, length: Any, new_items: Any, new_places: Any,
    keep_others: bool,
) -> Any:  # fmt: skip
    """Two sorted runs per client into one; where both have an item, the new place counts."""
    indptr = np.zeros(len(old_ptr), np.int64)
    items = np.empty(len(old_items) + len(new_items), np.int32)
    places = np.empty(len(items), np.int32)
    n = 0
    for u in range(len(first)):
        a, a_end = old_ptr[u], old_ptr[u + 1]
        b, b_end = first[u], first[u] + max(length[u], 0)
        if length[u] >= 0 and not keep_others:
            a = a_end
        while a < a_end or b < b_end:
            if b == b_end or (a < a_end and old_items[a] < new_items[b]):
                items[n], places[n] = old_items[a], old_places[a]
                a += 1
            else:
                a += a < a_end and old_items[a] == new_items[b]
                items[n], places[n] = new_items[b], new_places[b]
                b += 1
            n += 1
        indptr[u + 1] = n
    return indptr, items[:n].copy(), places[:n].copy()
