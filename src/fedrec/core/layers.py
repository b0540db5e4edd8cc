"""Multilayer perceptrons as slots: for score functions that are more than an inner product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from fedrec.core.slots import Owner, Slot, uniform, zeros


def mlp_slots(name: str, sizes: Sequence[int], owner: Owner, xavier: bool = False) -> dict[str, Slot]:
    """Weights and biases of layers ``sizes[0] -> sizes[1] -> …``, started as PyTorch starts them.

    With ``xavier`` they start as Glorot & Bengio (2010) propose, biases at 0.
    """
    slots = {}
    for layer, (inputs, outputs) in enumerate(pairwise(sizes)):
        start = bias = uniform(1 / math.sqrt(inputs))
        if xavier:
            start, bias = uniform(math.sqrt(6 / (inputs + outputs))), zeros()
        slots[f"{name}_w{layer}"] = Slot(owner, (outputs, inputs), start)
        slots[f"{name}_b{layer}"] = Slot(owner, (outputs,), bias)
    return slots


def mlp(p: Any, name: str, layers: int, x: Any) -> Any:
    """Apply it: ReLU after every layer but the last."""
    from torch import relu

    for layer in range(layers):
        x = x @ getattr(p, f"{name}_w{layer}").T + getattr(p, f"{name}_b{layer}")
        x = relu(x) if layer < layers - 1 else x
    return x
