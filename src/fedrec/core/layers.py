"""Multilayer perceptrons as slots: for score functions that are more than an inner product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from fedrec.core.slots import Owner, Slot, uniform


def mlp_slots(name: str, sizes: Sequence[int], owner: Owner) -> dict[str, Slot]:
    """Weights and biases of layers ``sizes[0] -> sizes[1] -> …``, started as PyTorch starts them."""
    slots = {}
    for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
        start = uniform(1 / math.sqrt(inputs))
        slots[f"{name}_w{layer}"] = Slot(owner, (outputs, inputs), start)
        slots[f"{name}_b{layer}"] = Slot(owner, (outputs,), start)
    return slots


def mlp(p: Any, name: str, layers: int, x: Any) -> Any:
    """Apply it: ReLU after every layer but the last."""
    from torch import relu

    for layer in range(layers):
        x = x @ getattr(p, f"{name}_w{layer}").T + getattr(p, f"{name}_b{layer}")
        x = relu(x) if layer < layers - 1 else x
    return x
