"""What FedPerGNN's clients do to their gradients before they send them, in compiled code.

Real gradients stand among made-up ones, of the same mean and spread, of items that the client did not touch. All
are clipped to ±δ and get Laplace(λ) noise: local differential privacy with ε = 2δ/λ for each number.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.core.compiled import part
from fedrec.core.draws import laplace, normal
from fedrec.core.entropy import STEADY, F
from fedrec.core.ragged import Ragged, run_ends
from fedrec.core.rng import client_key
from fedrec.core.slots import Array
from fedrec.data.negatives import draw_distinct, make_free

CHOICE, MADE, NOISE = range(3)  # random streams of a client; arrays from NOISE on


def hide_rows(
    items: Ragged, rows: Array, scale: Array, n_items: int, keys: NDArray[np.uint64], pseudo: int, clip: float,
    noise: float,
) -> tuple[Ragged, Array]:  # fmt: skip
    """Each client's rows times its scale, among made-up ones."""
    counts = np.diff(items.indptr)
    indptr = run_ends(counts + np.minimum(pseudo, n_items - counts))
    found, hidden = np.empty(indptr[-1], np.int32), np.empty((indptr[-1], rows.shape[1]), np.float32)
    _hide(*items, np.ascontiguousarray(rows), scale, n_items, keys, F(clip), F(noise), indptr, found, hidden)
    return Ragged(indptr, found), hidden


def protect(
    values: Array, scale: Array, keys: NDArray[np.uint64], number: int, clip: float, noise: float
) -> Array:
    """Each client's array times its scale, clipped, with noise; arrays of a client are told apart by number."""
    flat = values.reshape(len(values), -1) * scale[:, None]
    _protect_lines(flat, keys, np.uint64(NOISE + 1 + number), F(clip), F(noise))
    return flat.reshape(values.shape)


@part(fastmath=STEADY, error_model="numpy")
def _protect(values: Any, key: Any, first: int, clip: Any, noise: Any) -> None:
    """In place; the noise is that of the stream from ``first`` on."""
    for j in range(len(values)):
        bounded = min(max(values[j], -clip), clip)
        values[j] = bounded + noise * laplace(key, np.uint64(first + j))


@nb.njit(cache=True, nogil=True)
def _protect_lines(lines: Any, keys: Any, number: Any, clip: Any, noise: Any) -> None:
    for c in range(len(lines)):
        _protect(lines[c], client_key(keys[c], number), 0, clip, noise)


@part(fastmath=STEADY, error_model="numpy")
def _make_up(mean: Any, spread: Any, key: Any, first: int, out: Any) -> None:
    for j in range(len(out)):
        out[j] = normal(key, np.uint64(first + j))
    for j in range(len(out)):
        out[j] = mean[j] + spread[j] * out[j]


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def _hide(
    indptr: Any, items: Any, rows: Any, scale: Any, n_items: int, keys: Any, clip: Any, noise: Any, out_ptr: Any,
    out_items: Any, out: Any,
) -> None:  # fmt: skip
    dim = rows.shape[1]
    free = make_free(n_items)
    mean, spread = np.zeros(dim, F), np.zeros(dim, F)
    for c in range(len(indptr) - 1):
        met, real = items[indptr[c] : indptr[c + 1]], rows[indptr[c] : indptr[c + 1]]
        _moments(real, scale[c], mean, spread)
        count = out_ptr[c + 1] - out_ptr[c]
        chosen = np.empty(count - len(met), np.int32)
        draw_distinct(client_key(keys[c], np.uint64(CHOICE)), met, n_items, free, chosen)
        chosen.sort()
        made_key, noise_key = client_key(keys[c], np.uint64(MADE)), client_key(keys[c], np.uint64(NOISE))
        a = b = 0
        for k in range(count):  # two sorted runs into one
            line = out[out_ptr[c] + k]
            if b == len(chosen) or (a < len(met) and met[a] < chosen[b]):
                out_items[out_ptr[c] + k] = met[a]
                for j in range(dim):
                    line[j] = real[a, j] * scale[c]
                a += 1
            else:
                out_items[out_ptr[c] + k] = chosen[b]
                _make_up(mean, spread, made_key, b * dim, line)
                b += 1
            _protect(line, noise_key, k * dim, clip, noise)


@part(fastmath=STEADY, error_model="numpy")
def _moments(rows: Any, scale: Any, mean: Any, spread: Any) -> None:
    """Mean and spread of each column, times a scale."""
    many = F(max(len(rows), 1))
    mean[:], spread[:] = F(0), F(0)
    for k in range(len(rows)):
        for j in range(len(mean)):
            mean[j] += rows[k, j]
    for j in range(len(mean)):
        mean[j] /= many
    for k in range(len(rows)):
        for j in range(len(mean)):
            apart = rows[k, j] - mean[j]
            spread[j] += apart * apart
    for j in range(len(mean)):
        spread[j] = np.sqrt(spread[j] / many) * scale
        mean[j] *= scale
