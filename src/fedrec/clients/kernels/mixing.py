"""Item rows that are mixed from a client's own and the round's (PLGC), for the kernels of both kinds of score.

e = a·l + (1 − a)·g with g frozen, so that ∂L/∂l = a·∂L/∂e, and a without gradient. Where a is not given:

    a = (K_l + ε) / (K_l + K_g + 2ε) within 0.1 and 0.9,   K = Σ_k ‖∂σ(x_k)/∂row‖²,   x_k with the rows l, then g.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedrec.clients.kernels.kept import Kept, lay_over
from fedrec.clients.kernels.redundancy import Correlation, make_correlation
from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, F
from fedrec.core.slots import Array

LEAST, MOST, TINY = F(0.1), F(0.9), F(1e-12)  # as wrap.plgc has them
GIVES_NONE = F(-1)  # a share below 0: the traces say


class Mixing(NamedTuple):
    """What a round's clients mix, and how."""

    e: Kept
    f: Kept  # of the second table, where there is one
    weights: Array  # a, of each client: written once it has trained
    share: np.float32
    redundancy: np.float32
    gamma: np.float32
    carry: np.float32  # how much of its own row a client begins a round with; the rest is the round's


class Beside(NamedTuple):
    """What one client has beside the rows that it trains; scratch, used by one after another."""

    e: Array  # the frozen rows
    f: Array
    of_e: Correlation
    of_f: Correlation
    x: Array  # logits with the frozen rows
    g: Array  # and a gradient
    a: Array  # the weight, a single number
    share: np.float32
    redundancy: np.float32
    gamma: np.float32


@part()
def make_beside(mixing: Mixing, most: int, batch: int, e: int, f: int, e_row: int, f_row: int) -> Beside:
    """For so many rows and samples, rows of these widths, which are so long with their padding."""
    return Beside(
        np.zeros((most, e_row), F), np.zeros((most, f_row), F), make_correlation(e, batch), make_correlation(f, batch),
        np.zeros(batch, F), np.zeros(e, F), np.zeros(1, F), mixing.share, mixing.redundancy, mixing.gamma,
    )  # fmt: skip


@part()
def receive(kept: Kept, user: int, place: Any, base: int, rows: Any, fixed: Any, carry: Any) -> None:
    """The client's own rows over the frozen ones, of which a copy is made; one that is no number is not its own."""
    for row in range(len(rows)):
        for j in range(rows.shape[1]):
            fixed[row, j] = rows[row, j]
    lay_over(kept, user, place, base, rows)
    for row in range(len(rows)):
        for j in range(rows.shape[1]):
            own, frozen = rows[row, j], fixed[row, j]
            begun = own if carry == F(1) else carry * own + (F(1) - carry) * frozen
            rows[row, j] = begun if own == own else frozen


@part()
def put_back(kept: Kept, user: int, place: Any, base: int, rows: Any) -> None:
    """The client's own rows as the device keeps them: those it has not met are not a number."""
    rows[:] = F(np.nan)
    lay_over(kept, user, place, base, rows)


@part(fastmath=FAST, error_model="numpy")
def balanced(k_local: Any, k_fixed: Any, share: Any) -> Any:
    """a."""
    if share >= F(0):
        return share
    a = (k_local + TINY) / (k_local + k_fixed + F(2) * TINY)
    return a if a != a else min(max(a, LEAST), MOST)
