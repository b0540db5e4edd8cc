"""What a round costs at the least on this machine, from rates measured in the same run.

A log-linear round cannot avoid, per sample of a pass: an inner product and an exponential (twice where
the parts move in turn), an addition of a scaled row for each part that moves, a random number for its
place in the shuffle; one per negative; and, per touched row, reading it from the table and adding its
move to the sums. A round of a small network has products of matrices instead: the layers, the way back through
them, and the gradients of the layers and of the rows where those move, at the rate of BLAS on large matrices.
Arithmetic and memory overlap, so the bound is the
larger of (arithmetic at the measured peak) and (bytes at the measured bandwidth).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numba as nb
import numpy as np

from fedrec.clients.kernels.steps import residuals_and_loss
from fedrec.core.blocks import single_threaded_blas
from fedrec.core.entropy import FAST, F
from fedrec.core.federated import Federated
from fedrec.core.kernel import LogLinear, Mixed, Mlp
from fedrec.core.rng import bits
from fedrec.core.slots import Catalog, Slot

REPEATS = 5
SIDE = 512  # of matrices that are multiplied


@dataclass(frozen=True)
class Rates:
    """Per second, all threads together."""

    flops: float  # multiply-adds on rows in the first-level cache, counted as two
    products: float  # the same within products of large matrices (BLAS)
    exponentials: float
    randoms: float
    bytes: float  # streamed from and to memory


@dataclass(frozen=True)
class Work:
    """What a round asks for, over all clients."""

    negatives: float  # random draws
    places: float  # of shuffles
    flops: float  # of inner products and additions of scaled rows
    products: float  # flops of products of matrices
    exponentials: float
    numbers: float  # of the touched rows


def bound_seconds(work: Work, rates: Rates) -> float:
    randoms = work.negatives + work.places
    compute = work.flops / rates.flops + work.products / rates.products
    compute += work.exponentials / rates.exponentials + randoms / rates.randoms
    moved = 4.0 * work.numbers * 3  # a row read, its sum read and written
    return max(compute, moved / rates.bytes)


def work_of(
    method: Federated, catalog: Catalog, samples: float, positives: float, rows: float
) -> Work | None:
    """What a round of all clients asks for: of so many samples and positives, so many rows touched."""
    form, slots = method.kernel(catalog), method.slots(catalog)
    declared = form.base if isinstance(form, Mixed) else form
    if not isinstance(declared, LogLinear | Mlp):
        return None
    shared = {mine: name for name, mine in form.local} if isinstance(form, Mixed) else {}
    places = flops = products = exponentials = 0.0
    for phase in method.plan(catalog, 1):
        seen = samples * phase.epochs * (1.0 if phase.part == "all" else 0.5)
        names = {shared.get(n, n) for g in phase.groups for n in g.names}
        places += seen
        if isinstance(declared, LogLinear):
            looks = len(phase.groups) if declared.in_turn else 1
            flops += 2.0 * seen * slots[declared.items].shape[1] * (looks + len(phase.groups))
        else:
            looks, each = _network(declared, slots, names)
            products += seen * each
        exponentials += seen * looks
        if isinstance(form, Mixed):
            more = _mixture(form, declared, slots, names, looks)
            flops, products, exponentials = (
                a + seen * b for a, b in zip((flops, products, exponentials), more, strict=True)
            )
    tables = [
        declared.items,
        *(declared.product[1:] if isinstance(declared, Mlp) and declared.product else ()),
    ]
    numbers = rows * sum(slots[n].shape[1] for n in tables)
    return Work(samples - positives, places, flops, products, exponentials, numbers)


def _network(declared: Mlp, slots: dict[str, Slot], moved: set[str]) -> tuple[int, float]:
    """How often a sample passes through the layers, and the flops of all that."""
    widths = [slots[declared.items].shape[1], *(slots[n].shape[0] for n in declared.weights[:-1])]
    inner = sum(a * b for a, b in pairwise(widths[1:])) + slots[declared.weights[-1]].shape[-1]
    first = widths[0] * widths[1]
    private = {n for n in moved if slots[n].owner != "shared"}
    turns = [private, moved - private] if declared.in_turn else [moved]
    looks, total = 0, 0.0
    for names in filter(None, turns):
        mine, ours = names & private, names - private
        sharp = [(declared.radius_private, mine), (declared.radius_shared, ours)]
        for part in [names, *(part for radius, part in sharp if radius > 0 and part)]:
            looks += 1
            total += first + 2 * inner  # through the layers, and back through all but the first
            total += first + inner if part & set(declared.weights) else 0
            total += first if declared.items in part else 0
    return looks, 2.0 * total


def _mixture(
    form: Mixed, declared: LogLinear | Mlp, slots: dict[str, Slot], moved: set[str], looks: int
) -> tuple[float, float, float]:
    """What mixed rows add to a sample: flops, flops of products, exponentials.

    The score with the other table at each look; where a follows from both, what it would be with either row; and
    two products of a sample's row with a square matrix where the redundancy loss moves rows.
    """
    widths = [slots[name].shape[1] for name, _ in form.local]
    flops = products = exponentials = 0.0
    if isinstance(declared, LogLinear):
        flops = 2.0 * widths[0] * (looks + (declared.vector in moved))
    elif form.share is None:
        _, each = _network(replace(declared, in_turn=False), slots, {declared.items})
        products = 2.0 * each * looks
    if form.share is None:
        exponentials = 2.0 * looks
    if form.redundancy > 0 and moved & {name for name, _ in form.local}:
        products += sum(4.0 * width * width for width in widths)
    return flops, products, exponentials


def measure_rates(threads: int) -> Rates:
    rng = np.random.default_rng(0)
    rows, w = rng.normal(size=(64, 128)).astype(F), np.zeros(128, F)
    x, y, r = rng.normal(size=4096).astype(F), np.zeros(4096, F), np.zeros(4096, F)
    square = rng.normal(size=(SIDE, SIDE)).astype(F)
    big = [np.zeros(16_000_000, F) for _ in range(2 * threads)]

    def stream(thread: int) -> None:
        np.copyto(big[2 * thread], big[2 * thread + 1])

    with single_threaded_blas():
        matrices = _best(lambda t: square @ square, threads)
    return Rates(
        products=2.0 * SIDE**3 * threads / matrices,
        flops=2.0
        * rows.size
        * 2000
        * threads
        / _best(lambda t: _multiply_add(rows, w.copy(), 2000), threads),
        exponentials=len(x) * 500 * threads / _best(lambda t: _exponentials(x, y, r.copy(), 500), threads),
        randoms=2_000_000 * threads / _best(lambda t: _randoms(2_000_000), threads),
        bytes=8.0 * len(big[0]) * threads / _best(stream, threads),
    )


def _best(work: Callable[[int], Any], threads: int) -> float:
    """Shortest time of all threads doing the work at once, compilation outside the clock."""
    work(0)
    times = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(REPEATS):
            start = time.perf_counter()
            list(pool.map(work, range(threads)))
            times.append(time.perf_counter() - start)
    return min(times)


@nb.njit(cache=True, nogil=True, fastmath=FAST)
def _multiply_add(rows: Any, w: Any, times: int) -> Any:
    for _ in range(times):
        for k in range(rows.shape[0]):
            for j in range(rows.shape[1]):
                w[j] += rows[k, j] * F(0.5)
    return w[0]


@nb.njit(cache=True, nogil=True, fastmath=FAST)
def _exponentials(x: Any, y: Any, r: Any, times: int) -> Any:
    total, terms = F(0), np.empty_like(x)
    for _ in range(times):
        total += residuals_and_loss(x, y, r, F(1), terms)
    return total


@nb.njit(cache=True, nogil=True)
def _randoms(n: int) -> Any:
    total = np.uint64(0)
    for k in range(n):
        total += bits(np.uint64(7), np.uint64(k))
    return total
