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


def mlp_names(name: str, layers: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the weights and of the biases of so many layers."""
    return tuple(f"{name}_w{i}" for i in range(layers)), tuple(f"{name}_b{i}" for i in range(layers))


def mlp(p: Any, name: str, layers: int, *inputs: Any) -> Any:
    """Apply it: ReLU after every layer but the last.

    Several inputs are meant as concatenated. The first layer takes each by itself, so that its work for a user
    is not repeated for every item, nor that for an item for every user.
    """
    from torch import relu

    x, start = getattr(p, f"{name}_b0"), 0
    for part in inputs:
        end = start + part.shape[-1]
        x, start = x + part @ getattr(p, f"{name}_w0")[:, start:end].T, end
    for layer in range(1, layers):
        x = relu(x) @ getattr(p, f"{name}_w{layer}").T + getattr(p, f"{name}_b{layer}")
    return x
