"""Clipping: no device moves a sum by more than R, whatever it holds. Without it no noise states an epsilon."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numba as nb
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrec.channel.stage import Rng, Stage
from fedrec.core.entropy import FAST
from fedrec.core.ragged import Ragged
from fedrec.core.slots import Array
from fedrec.core.upload import Upload, Uploads

SAFE = 1 - 1e-6  # rounding to float32 may not carry a norm above R


class Clip(Stage):
    """Scales a device's whole upload, all its parts together, to an L2 norm of at most R.

    A part p counts as ``norm(p)`` times as long (``Uploads.norms``). Rows of one item are added up first, a number
    that is not finite makes the whole upload zero, and every client counts as one: none of that can be left out.
    """

    name: ClassVar[str] = "clip"
    draws: ClassVar[bool] = False

    radius: float = Field(gt=0, description="the largest norm R of one device's upload")

    def on_device(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        upload = added_up(upload)
        norms = norms_of(upload, uploads)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.where(norms > self.radius * SAFE, self.radius * SAFE / norms, 1.0)
        finite = np.isfinite(norms)
        return scaled(upload, np.where(finite, scale, 0.0))


class Cap(Stage):
    """Keeps the K rows of an upload that weigh most; of equal ones those of lower item numbers, mixed."""

    name: ClassVar[str] = "cap"
    draws: ClassVar[bool] = False

    rows: int = Field(ge=1, description="the most item rows K that one device sends")

    def on_device(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        upload = added_up(upload)
        counts = np.diff(upload.items.indptr)
        if (counts <= self.rows).all():
            return upload
        owner = np.repeat(np.arange(upload.clients), counts)
        weight = _squares(upload, uploads)
        mixed = (upload.items.items.astype(np.uint32) * np.uint32(2654435761)).astype(np.int64)
        order = np.lexsort((mixed, -np.nan_to_num(weight), owner))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - np.repeat(upload.items.indptr[:-1], counts)
        return _only_rows(upload, place < self.rows)


def norms_of(upload: Upload, uploads: Uploads) -> NDArray[np.float64]:
    """The norm of each client's whole upload; nan or inf where a number is not finite."""
    squares, each = np.zeros(upload.clients), np.arange(upload.clients + 1)
    for indptr, arrays in ((upload.items.indptr, upload.rows), (each, upload.dense)):
        for name, values in arrays.items():
            _add_squares(indptr, _flat(values), uploads.norm(name) ** 2, squares)
    return np.sqrt(squares)


def _squares(upload: Upload, uploads: Uploads) -> NDArray[np.float64]:
    """The squared norm of each row, all tables together."""
    total, each = np.zeros(len(upload.items.items)), np.arange(len(upload.items.items) + 1)
    for name, values in upload.rows.items():
        _add_squares(each, _flat(values), uploads.norm(name) ** 2, total)
    return total


def scaled(upload: Upload, scale: NDArray[np.float64]) -> Upload:
    """Each client's upload times its number, 0 where that is 0 whatever was there; all count as one client."""

    def times(indptr: NDArray[np.int64], values: Array) -> Array:
        out = np.empty(values.shape, np.float32)
        _scale(indptr, _flat(values), scale.astype(np.float32), _flat(out))
        return out

    each = np.arange(upload.clients + 1)
    rows = {n: times(upload.items.indptr, v) for n, v in upload.rows.items()}
    dense = {n: times(each, v) for n, v in upload.dense.items()}
    return replace(upload, rows=rows, dense=dense, weights=np.ones(upload.clients, np.float32))


def _flat(values: Array) -> Array:
    values = np.ascontiguousarray(values, np.float32)
    return values.reshape(len(values), int(np.prod(values.shape[1:])))


@nb.njit(cache=True, nogil=True, fastmath=FAST)
def _add_squares(indptr: Any, values: Any, weight: float, squares: Any) -> None:
    for c in range(len(indptr) - 1):
        total = 0.0
        for k in range(indptr[c], indptr[c + 1]):
            for j in range(values.shape[1]):
                total += np.float64(values[k, j]) * np.float64(values[k, j])
        squares[c] += weight * total


@nb.njit(cache=True, nogil=True)
def _scale(indptr: Any, values: Any, scale: Any, out: Any) -> None:
    for c in range(len(indptr) - 1):
        for k in range(indptr[c], indptr[c + 1]):
            for j in range(values.shape[1]):
                out[k, j] = values[k, j] * scale[c] if scale[c] != 0 else np.float32(0)


def added_up(upload: Upload) -> Upload:
    """One row per item and client: rows of the same item would add up to more than their norm says."""
    counts = np.diff(upload.items.indptr)
    owner = np.repeat(np.arange(upload.clients), counts)
    items = upload.items.items.astype(np.int64)
    pair = owner * (items.max(initial=0) + 1) + items
    if (np.diff(pair) > 0).all():
        return upload
    _, first, inverse = np.unique(pair, return_index=True, return_inverse=True)
    indptr = np.searchsorted(owner[first], np.arange(upload.clients + 1))
    rows = {}
    for name, values in upload.rows.items():
        rows[name] = np.zeros((len(first), *values.shape[1:]), np.float32)
        np.add.at(rows[name], inverse, values)
    return replace(upload, items=Ragged(indptr.astype(np.int64), upload.items.items[first]), rows=rows)


def _only_rows(upload: Upload, kept: NDArray[np.bool_]) -> Upload:
    before = np.concatenate([[0], np.cumsum(kept)])
    items = Ragged(before[upload.items.indptr].astype(np.int64), upload.items.items[kept])
    return replace(upload, items=items, rows={n: v[kept] for n, v in upload.rows.items()})
