"""What one device sends, as one row of whole numbers: its upload on the grid, its weight, and figures of its own exam.

In a masked round the row itself is sent; in the clear the rows of tables that are zero are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.fixed import Grid
from fedrec.core.slots import Slot
from fedrec.core.upload import Total
from fedrec.deploy.wire import Malformed

FIGURES = ("asked", "hr@10", "ndcg@10")  # devices that scored their held-out item, hits, gains
MORE = 2 + len(FIGURES)  # who sent (1 or 0), weight, figures


@dataclass(frozen=True)
class Row:
    """The order of numbers: declared arrays by name, then how many sent, their weight, and figures."""

    declared: dict[str, Slot]
    grid: Grid
    clients: int  # that a sum must have room for

    @property
    def names(self) -> list[str]:
        return sorted(self.declared)

    def __len__(self) -> int:
        return sum(int(np.prod(s.shape)) for s in self.declared.values()) + MORE

    def of(self, total: Total, figures: dict[str, float]) -> NDArray[np.int64]:
        """One device's numbers, or some devices' sum."""
        parts = [total.sums[n].reshape(-1) for n in self.names]
        last = [figures.get(n, 0.0) for n in FIGURES]
        ends = np.array([total.clients, int(total.weight)], np.int64)
        return np.concatenate([*parts, ends, self.grid.encode(np.array(last))]).astype(np.int64)

    def opened(self, row: NDArray[np.int64]) -> tuple[Total, dict[str, float]]:
        """A sum as a total of whole numbers, and the figures in it."""
        spare = np.int64(64 - self.grid.word)
        signed = row << spare >> spare
        total, at = self.grid.empty(self.declared), 0
        for name in self.names:
            size = total.sums[name].size
            total.sums[name][...] = signed[at : at + size].reshape(total.sums[name].shape)
            at += size
        total.clients, total.weight = int(signed[at]), float(signed[at + 1])
        values = signed[at + 2 :] / self.grid.scale
        return total, dict(zip(FIGURES, map(float, values), strict=True))

    # -- in the clear --------------------------------------------------------------------------

    def sparse(self, row: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """The same as arrays of a message: of tables the rows that are not zero, with their items."""
        arrays: dict[str, NDArray[Any]] = {}
        total, at = {}, 0
        for name in self.names:
            shape = self.declared[name].shape
            size = int(np.prod(shape))
            total[name] = row[at : at + size].reshape(shape)
            at += size
        tables = [n for n in self.names if self.declared[n].rows]
        if tables:
            there = np.logical_or.reduce([total[n].reshape(len(total[n]), -1).any(axis=1) for n in tables])
            arrays["items"] = np.flatnonzero(there).astype(np.int32)
            arrays |= {f"rows/{n}": total[n][arrays["items"]] for n in tables}
        arrays |= {f"whole/{n}": total[n] for n in self.names if n not in tables}
        return arrays | {"more": row[at:]}

    def filled(self, arrays: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
        """The row of a message in the clear; anything that was not declared, or cannot be, is refused."""
        tables = [n for n in self.names if self.declared[n].rows]
        wanted = (
            {f"rows/{n}" for n in tables} | {f"whole/{n}" for n in self.names if n not in tables} | {"more"}
        )
        wanted |= {"items"} if tables else set()
        if other := arrays.keys() ^ wanted:
            raise Malformed(f"'{min(other)}' is {'not declared' if min(other) in arrays else 'missing'}")
        items = arrays.get("items", np.zeros(0, np.int32))
        count = self.declared[tables[0]].shape[0] if tables else 0
        if (
            items.dtype != np.int32
            or items.ndim != 1
            or (len(items) and not 0 <= items.min() <= items.max() < count)
        ):
            raise Malformed("items that the catalogue does not have")
        if (np.diff(items) <= 0).any():
            raise Malformed("items that are not in order, or twice there")
        parts = []
        for name in self.names:
            shape = self.declared[name].shape
            values = arrays[f"rows/{name}" if name in tables else f"whole/{name}"]
            self._check(name, values, (len(items), *shape[1:]) if name in tables else shape)
            whole = np.zeros(shape, np.int64)
            whole[items if name in tables else ...] = values
            parts.append(whole.reshape(-1))
        more = arrays["more"]
        self._check("more", more, (MORE,))
        asked, hits, gains = more[2:]
        one = int(self.grid.scale)
        if more[0] not in (0, 1) or not more[1] >= 0 or asked not in (0, one):
            raise Malformed("counts that are not those of one device")
        if not (0 <= hits <= asked and 0 <= gains <= asked) or (more[0] and not more[1]):
            raise Malformed("figures that no exam gives")
        return np.concatenate([*parts, more])

    def _check(self, name: str, values: NDArray[Any], shape: tuple[int, ...]) -> None:
        if values.dtype != np.int64:
            raise Malformed(f"'{name}' is of kind {values.dtype}, not whole numbers")
        if values.shape != shape:
            raise Malformed(f"'{name}' has shape {values.shape}, not {shape}")
        most = self.grid.most(self.clients) * self.grid.scale
        if values.size and not -most <= values.min() <= values.max() <= most:
            raise Malformed(f"'{name}' has a number beyond what a sum has room for")


def packed(row: NDArray[np.int64], word: int) -> NDArray[np.uint8]:
    """Words of so many bits, as bytes."""
    flat = np.ascontiguousarray(row, "<i8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(flat[:, : word // 8]).reshape(-1)


def unpacked(data: NDArray[np.uint8], word: int, length: int) -> NDArray[np.int64]:
    if data.dtype != np.uint8 or data.shape != (length * word // 8,):
        raise Malformed(f"a masked upload of {data.size} bytes, not {length * word // 8}")
    wide = np.zeros((length, 8), np.uint8)
    wide[:, : word // 8] = data.reshape(length, -1)
    return wide.view("<i8").reshape(-1).astype(np.int64)
