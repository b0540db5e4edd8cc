"""What a server does with the sum of uploads: the mean of moves, a step, or Adam. They compose with any method.

Adam's moments outlive a round: on devices as private slots, on the server as its own
(Kingma & Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np

from fedrec.core.entropy import F
from fedrec.core.slots import Arrays, Owner, Slot, zeros


def mean_of_moves(held: Arrays, sums: Arrays, weight: float) -> Arrays:
    """Averaging whole tables over the cohort equals adding the mean of the row moves."""
    mean = {name: value / np.float32(weight) for name, value in sums.items()}
    return {name: value + mean[name] if name in mean else value for name, value in held.items()}


def step_along(held: Arrays, sums: Arrays, weight: float, rates: Mapping[str, float]) -> Arrays:
    """A step along the mean of what clients sent, which is minus their gradient; a rate for each array."""
    steps = {n: np.float32(rates[n] / weight) * move for n, move in sums.items()}
    return {n: value + steps[n] if n in steps else value for n, value in held.items()}


def moment_slots(
    slots: dict[str, Slot], names: Iterable[str], owner: Owner, bound: bool = False
) -> dict[str, Slot]:
    """The first and second moment and the step count of some slots, named as local Adam names them."""
    made = {}
    for name in names:
        slot = slots[name]
        for part in "mv":
            made[f"adam.{name}.{part}"] = Slot(
                owner, slot.shape, zeros(), slot.rows, unknown=slot.unknown, bound=bound
            )
        made[f"adam.{name}.t"] = Slot(owner, (), zeros(), bound=bound)
    return made


@dataclass(frozen=True)
class ServerAdam:
    """One step of the server on the mean of the clients' gradients."""

    lr: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def move(self, held: Arrays, gradients: Arrays, weight: float = 1.0, decay: float = 0.0) -> Arrays:
        """What the server holds afterwards, by gradients over ``weight`` and weight decay.

        A row without a gradient still follows its moments.
        """
        moved = dict(held)
        for name, g in gradients.items():
            m, v, t = f"adam.{name}.m", f"adam.{name}.v", f"adam.{name}.t"
            moved[t] = np.asarray(held[t] + 1, np.float32)
            rate = self.lr / (1 - self.beta1 ** float(moved[t]))
            scale = 1 / (1 - self.beta2 ** float(moved[t]))
            before = [np.ascontiguousarray(held[n]) for n in (name, m, v)]
            moved[name], moved[m], moved[v] = after = [np.empty_like(x) for x in before]
            numbers = (self.beta1, self.beta2, self.epsilon, rate, scale, 1 / weight, decay)
            slope = np.ascontiguousarray(g, np.float32).reshape(-1)
            _adam(*(x.reshape(-1) for x in before), slope, *numbers, *(x.reshape(-1) for x in after))
        return moved


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _adam(
    x: Any, m: Any, v: Any, g: Any, beta1: float, beta2: float, epsilon: float, rate: float, scale: float,
    share: float, decay: float, x_after: Any, m_after: Any, v_after: Any,
) -> None:  # fmt: skip
    """In one pass over memory, which is what it costs."""
    b1, b2, c1, c2 = F(beta1), F(beta2), F(1 - beta1), F(1 - beta2)
    step, correction, tiny, factor, fade = F(rate), F(scale), F(epsilon), F(share), F(decay)
    for k in range(len(x)):
        slope = g[k] * factor + fade * x[k]
        first, second = b1 * m[k] + c1 * slope, b2 * v[k] + c2 * slope * slope
        m_after[k], v_after[k] = first, second
        x_after[k] = x[k] - step * first / (np.sqrt(second * correction) + tiny)
