"""What a method declares so that a compiled kernel may run it: names of slots and numbers, no code.

``clients/kernels`` has one file for each kind. A method that declares none runs on the plain engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedrec.core.slots import Array


@dataclass(frozen=True)
class LogLinear:
    """score = vector · item row + bias; cross-entropy, SGD, in the phases of the method's plan."""

    items: str
    vector: str
    bias: str
    in_turn: bool = False  # the private part first, then the items at the new private part
    radius_private: float = 0.0  # sharpness-aware steps (FedRecGEL)
    radius_shared: float = 0.0


@dataclass(frozen=True)
class Additive:
    """score = vector · (common row + personal row) + bias, with what FedRAP adds to the loss.

    The phase of the round has the rates, and the weights ``lam``, ``mu`` and ``prox`` as its terms.
    """

    vector: str
    bias: str
    common: str | None  # a shared table
    personal: str | None  # rows that devices keep
    regularizer: str  # of the common part: l1, l2 or none; prox stands for l1 where it is above 0


@dataclass(frozen=True, eq=False)
class ByAge:
    """What a positive weighs by its age: 0 is the newest, the last number stands for all that are older.

    A curvature a is above −1, so that the Gramian, which has each item once, keeps the whole positive definite.
    """

    curvature: Array  # a, float32
    target: Array  # b, float32, as many


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The client's vector in closed form: (VᵀV + Σ a_j v_j v_jᵀ + λ_u I) w = Σ b_j v_j + λ_u w₀ over positives j.

    λ_u = λ·n^scale for a client with n positives. It sends (a_j w·v_j − b_j) w for each positive j, w wᵀ,
    and, where ``senders`` has a name, 1 for each positive. a = α and b = 1 + α, unless ``train`` (the vector
    that uploads are made with) or ``rank`` (the vector that ranks) say otherwise.
    """

    items: str
    vector: str
    gram: str
    corrections: str
    outer: str
    senders: str | None
    alpha: float
    lam: float
    scale: float
    prior: Array  # w₀
    train: ByAge | None = None
    rank: ByAge | None = None


Kernel = LogLinear | Additive | LeastSquares
