"""What a method declares so that compiled kernels may run it: score = vector · item row + bias."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LogLinear:
    """Names of the slots, and how a local step goes. The loss is cross-entropy, the optimizer SGD."""

    items: str
    vector: str
    bias: str
    in_turn: bool = False  # the private part first, then the items at the new private part
    radius_private: float = 0.0  # sharpness-aware steps (FedRecGEL)
    radius_shared: float = 0.0
