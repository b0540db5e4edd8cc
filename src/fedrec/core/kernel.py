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
    mild: float = 1.0  # share of its move that a device's own row keeps; all of it is sent


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


@dataclass(frozen=True)
class NextItem:
    """What follows what in a history, as sums: contexts φ are decayed sums of the rows of the items so far.

    φ_t = [(1 − γ) Σ_k γ^k x_(t−k) for each γ of ``decays``, 1] with x = v/max(|v|, ``shortest``). For each item a
    client sends Σ_k δ^k φ_(t−1−k), where t is when it came and δ is ``soon`` (``followers``); and Σ φ_t φ_tᵀ over
    at most ``most`` evenly spaced t, scaled to all of them (``contexts``).
    It ranks with ``weight`` × φ · the row of ``table`` on top of its vector's score.
    """

    table: str
    weight: str
    context: str  # a fresh slot: φ of the whole history
    contexts: str
    followers: str
    decays: tuple[float, ...]
    soon: float
    most: int
    shortest: float


@dataclass(frozen=True)
class Bounded:
    """What leaves a client that solves its vector where every upload is clipped (private FedALS).

    ``numbers`` names a shared slot with α, λ and a phase. In phase 0 a client sends 1/√n for each of its n positives
    (``counts``); in phase 1 ω_j (αw·v_j − (1 + α)) w for each positive j, w wᵀ and 1 (``scale``), of w on the right the
    first ``columns``. What it does not send is zero.
    """

    numbers: str
    omega: str
    counts: str
    scale: str
    columns: int


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The client's vector in closed form: (VᵀV + α V_uᵀV_u + λ_u I) w = (1 + α) Σ m_j v_j + λ_u w₀.

    λ_u = λ·n^scale for a client with n positives. With m = 1 it sends (α w·v_j − (1 + α)) w for each positive j,
    w wᵀ, and, where ``senders`` has a name, 1 for each positive. The vector that ranks has m_j = floor +
    (1 − floor)·½^(age / half-life), where ``recency`` names the shared slot with these two numbers.
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
    recency: str | None = None
    next_item: NextItem | None = None
    bounded: Bounded | None = None


@dataclass(frozen=True)
class Mlp:
    """score = output · [u ⊙ f ‖ hidden layers on [v ‖ e]] + bias, with ReLU after each hidden layer.

    v and u are vectors of a client, e and f rows of an item. Cross-entropy, in the phases of the method's plan.
    """

    items: str  # e
    vector: str | None  # v
    weights: tuple[str, ...]  # of the hidden layers, then of the output
    biases: tuple[str, ...]
    product: tuple[str, str] | None = None  # u and f
    in_turn: bool = False  # the private part first, then the shared part at the new private part
    radius_private: float = 0.0  # sharpness-aware steps (FedRecGEL)
    radius_shared: float = 0.0
    at_once: bool = False  # one step a pass, on the sum of its batches' mean losses
    mild: float = 1.0  # share of its move that a device's own row keeps; all of it is sent


@dataclass(frozen=True)
class Attention:
    """score = vector · item row + bias, where a graph attention layer makes the vector from the user's.

    The layer hears from the client's items, and those from the neighbours' vectors that the client is given.
    Cross-entropy over all samples at once: a step of SGD of user and bias; of items and layer the gradient is sent.
    """

    items: str
    layer: tuple[str, str, str]  # W, ask and answer
    user: str
    bias: str
    vector: str  # a fresh slot: the user after the layer
    nearby: str
    links: str
    told: str  # an upload: the user's vector


@dataclass(frozen=True)
class Generated:
    """score = w2 · relu(row w1 + b1) + b2, with row = left · right: all of it made for the client by the server.

    One look at all samples: the gradient of their mean cross-entropy is sent, that of the touched rows as ``items``.
    """

    items: str
    left: str
    right: str
    weights: tuple[str, str]
    biases: tuple[str, str]


@dataclass(frozen=True)
class Encoded:
    """score = row of ``decoder`` · code + ``appeal``, with code = tanh(Σ rows of ``encoder`` / √k + offset).

    The sum is over k items, a random half of those that a client met. It looks at all samples once: the gradient of the
    multinomial's loss is sent, its sum over the catalogue estimated from negatives (FedAE). With ``own``, the rows,
    offset and gate of a second encoder on the device, code is (1 − σ(gate)) of the first's and σ(gate) of the second's,
    which a step of SGD moves (FedDAE).
    """

    encoder: str
    decoder: str
    appeal: str
    offset: str
    code: str  # a fresh slot
    own: tuple[str, str, str] | None = None


@dataclass(frozen=True)
class Mixed:
    """Item rows a·l + (1 − a)·g in place of the base's: l is the device's own and trained, g the server's (PLGC).

    a is ``share``, or, where that is None, what the traces of both tables' tangent kernels say.
    """

    base: LogLinear | Mlp
    local: tuple[tuple[str, str], ...]  # the base's tables, and where devices keep theirs
    weight: str  # a private slot: the last a
    share: float | None
    redundancy: float  # weight of a loss that ties each dimension of l to that of g alone
    gamma: float
    carry: float = 1.0  # l begins a round as carry·l + (1 − carry)·g


Kernel = LogLinear | Additive | LeastSquares | Mlp | Attention | Generated | Encoded | Mixed
