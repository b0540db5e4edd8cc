"""Adam whose moments outlive a round: on the devices as private slots, on the server as its own.

Kingma & Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedrec.core.slots import Array, Owner, Slot, zeros

Arrays = dict[str, Array]


def moment_slots(slots: dict[str, Slot], names: Iterable[str], owner: Owner) -> dict[str, Slot]:
    """The first and second moment and the step count of some slots, named as local Adam names them."""
    made = {}
    for name in names:
        for part in "mv":
            made[f"adam.{name}.{part}"] = Slot(owner, slots[name].shape, zeros(), slots[name].rows)
        made[f"adam.{name}.t"] = Slot(owner, (), zeros())
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
