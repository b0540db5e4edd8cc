"""Numbers on a grid, added up as integers: then it does not matter in which order, and masks cancel exactly.

A value v of a client with weight w becomes the whole number round(w·v·2^bits), and sums are taken modulo 2^word.
What one client may send is bounded so that no sum of so many clients can leave the word: a client with a
larger number is left out, never cut or wrapped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.aligned import no_words
from fedrec.core.errors import FedrecError
from fedrec.core.rounding import Steps
from fedrec.core.slots import Array, Slot
from fedrec.core.upload import Total, Upload

Words = NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """Steps of 2^−bits, in words of so many bits (up to 64)."""

    bits: int = 16
    word: int = 64

    @property
    def scale(self) -> float:
        return 2.0**self.bits

    def most(self, clients: int) -> float:
        """The largest size of a number that each of so many clients may send."""
        steps = math.floor(2.0 ** (self.word - 1) * (1 - 2.0**-40) / max(clients, 1))  # never all of the word
        if steps < self.scale:
            raise FedrecError(
                f"words of {self.word} bits with {self.bits} after the point have no room for the sum of {clients} "
                "clients: take wider words, or fewer bits"
            )
        return steps / self.scale

    def encode(self, values: NDArray[Any]) -> Words:
        """Whole numbers of steps, halves to the even one. Values beyond ``most`` must have been left out."""
        return np.rint(np.asarray(values, np.float64) * self.scale).astype(np.int64)

    def decode(self, words: NDArray[Any]) -> Array:
        """The values of a sum. Words that were added modulo 2^word come back with their sign."""
        spare = np.int64(64 - self.word)
        signed = np.asarray(words, np.int64) << spare >> spare
        return (signed * (1 / self.scale)).astype(np.float32)

    def steps(self, clients: int) -> Steps:
        """The same for compiled code, where so many clients may send."""
        return Steps(self.scale, self.most(clients))

    # -- uploads -------------------------------------------------------------------------------

    def fits(self, upload: Upload, clients: int) -> NDArray[np.bool_]:
        """Which clients send nothing but finite numbers that a sum of so many clients has room for."""
        most = self.most(clients)
        fit = np.abs(upload.weights) <= most  # NaN is not
        for values in upload.rows.values():
            _rows_fit(upload.items.indptr, _flat(values), upload.weights, most, fit)
        each = np.arange(upload.clients + 1)
        for values in upload.dense.values():
            _rows_fit(each, _flat(values), upload.weights, most, fit)
        return fit

    def summed(self, upload: Upload, declared: dict[str, Slot]) -> Total:
        """The sum of uploads in whole numbers, weight included; of one client: what it sends, or masks."""
        total = self.empty(declared)
        self.add(upload, total)
        return total

    def add(self, upload: Upload, total: Total) -> None:
        """Add uploads to a sum of whole numbers, in place."""
        owner = np.repeat(np.arange(upload.clients), np.diff(upload.items.indptr))
        for name, values in upload.rows.items():
            table = total.sums[name]
            flat = table.reshape(len(table), -1) if table.size else table.reshape(len(table), 0)
            _add(flat, upload.items.items, _flat(values), upload.weights[owner], self.scale)
        nowhere = np.zeros(upload.clients, np.int32)
        for name, values in upload.dense.items():
            _add(total.sums[name].reshape(1, -1), nowhere, _flat(values), upload.weights, self.scale)
        total.weight += float(self.encode(upload.weights).sum())
        total.clients += upload.clients

    def empty(self, declared: dict[str, Slot]) -> Total:
        words: dict[str, Any] = {n: no_words(s.shape) for n, s in declared.items()}
        return Total(words)

    def opened(self, total: Total) -> Total:
        """A sum of whole numbers as the numbers that a server merges."""
        sums = {n: self.decode(v) for n, v in total.sums.items()}
        return Total(sums, total.weight / self.scale, total.clients, total.told)


def _flat(values: Array) -> Array:
    values = np.ascontiguousarray(values, np.float32)
    return values.reshape(len(values), int(np.prod(values.shape[1:])))


@nb.njit(cache=True, nogil=True)
def _rows_fit(indptr: Any, values: Any, weights: Any, most: float, fit: Any) -> None:
    for c in range(len(weights)):
        weight, bad = np.float64(weights[c]), False
        for k in range(indptr[c], indptr[c + 1]):
            for j in range(values.shape[1]):
                bad |= not abs(np.float64(values[k, j]) * weight) <= most  # NaN is bad
        if bad:
            fit[c] = False


@nb.njit(cache=True, nogil=True)
def _add(table: Any, items: Any, values: Any, weights: Any, scale: float) -> None:
    for k in range(len(items)):
        row, weight = items[k], np.float64(weights[k])
        for j in range(values.shape[1]):
            table[row, j] += np.int64(np.rint(np.float64(values[k, j]) * weight * scale))
