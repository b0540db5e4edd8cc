"""What a server does with the sum of uploads: the mean of moves, a step, or Adam. They compose with any method.

Adam's moments outlive a round: on devices as private slots, on the server as its own
(Kingma & Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

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

    def move(self, held: Arrays, gradients: Arrays) -> Arrays:
        """What the server holds afterwards. A row without a gradient still follows its moments."""
        moved = dict(held)
        for name, g in gradients.items():
            m, v, t = f"adam.{name}.m", f"adam.{name}.v", f"adam.{name}.t"
            moved[m] = np.float32(self.beta1) * held[m] + np.float32(1 - self.beta1) * g
            moved[v] = np.float32(self.beta2) * held[v] + np.float32(1 - self.beta2) * g**2
            moved[t] = np.asarray(held[t] + 1, np.float32)
            rate = np.float32(self.lr / (1 - self.beta1 ** float(moved[t])))
            variance = moved[v] / np.float32(1 - self.beta2 ** float(moved[t]))
            moved[name] = held[name] - rate * moved[m] / (np.sqrt(variance) + np.float32(self.epsilon))
        return moved
