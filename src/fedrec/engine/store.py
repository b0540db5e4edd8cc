"""Item rows that clients keep between rounds, for touched items only: never users × items."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.slots import Array
from fedrec.data.split import Ragged


class Rows(NamedTuple):
    """Rows of a few clients: client c holds ``values[held.indptr[c]:held.indptr[c + 1]]``, items sorted."""

    held: Ragged
    values: Array


class RowStore:
    """Rows by client. A store is a value: ``put`` gives a new one that shares what did not change."""

    def __init__(
        self, width: tuple[int, ...], rows: dict[int, tuple[NDArray[np.int32], Array]] | None = None
    ) -> None:
        self.width = width
        self._rows = rows or {}

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, users: NDArray[np.int64]) -> Rows:
        nothing = (np.zeros(0, np.int32), np.zeros((0, *self.width), np.float32))
        found = [self._rows.get(int(u), nothing) for u in users]
        counts = [len(items) for items, _ in found]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        if not found:
            return Rows(Ragged(indptr, nothing[0]), nothing[1])
        return Rows(
            Ragged(indptr, np.concatenate([i for i, _ in found])), np.concatenate([v for _, v in found])
        )

    def put(
        self, users: NDArray[np.int64], rows: Rows, keep_others: bool, only: NDArray[np.bool_] | None = None
    ) -> RowStore:
        """Store rows; a client's other rows stay (persistent slots) or go (rows of the last round only).

        With ``only`` the other clients are left as they are.
        """
        stored = dict(self._rows)
        for c, u in enumerate(users):
            if only is not None and not only[c]:
                continue
            run = slice(rows.held.indptr[c], rows.held.indptr[c + 1])
            items, values = rows.held.items[run].copy(), rows.values[run].copy()
            before = stored.get(int(u))
            if keep_others and before is not None:
                stays = ~np.isin(before[0], items, assume_unique=True)
                items = np.concatenate([before[0][stays], items])
                order = np.argsort(items)
                items, values = items[order], np.concatenate([before[1][stays], values])[order]
            stored[int(u)] = (items, values)
        return RowStore(self.width, stored)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """As plain arrays, for a checkpoint."""
        users = np.array(sorted(self._rows), dtype=np.int64)
        rows = self.get(users)
        return {"users": users, "indptr": rows.held.indptr, "items": rows.held.items, "values": rows.values}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> RowStore:
        rows = Rows(Ragged(arrays["indptr"], arrays["items"]), arrays["values"])
        return cls(rows.values.shape[1:]).put(arrays["users"], rows, keep_others=False)


def overlay(table: Array, rows: Rows | None, items: NDArray[np.int32]) -> Array:
    """Rows of ``items`` (a line of items per client): its own where it holds one, else the table's."""
    flat = table.reshape(len(table), -1)
    out = np.empty((*items.shape, flat.shape[1]), np.float32)
    if rows is None:
        np.take(flat, items, axis=0, out=out, mode="clip")
    else:
        values = rows.values.reshape(len(rows.values), flat.shape[1])
        _overlay(flat, rows.held.indptr, rows.held.items, values, items, out)
    return out.reshape(*items.shape, *table.shape[1:])


@nb.njit(cache=True, nogil=True)
def _overlay(table: Any, indptr: Any, held: Any, values: Any, items: Any, out: Any) -> None:
    for c in range(items.shape[0]):
        first, end = indptr[c], indptr[c + 1]
        for k in range(items.shape[1]):
            item = max(items[c, k], 0)  # padding
            at = first + np.searchsorted(held[first:end], item)
            if at < end and held[at] == item:
                out[c, k] = values[at]
            else:
                out[c, k] = table[item]
