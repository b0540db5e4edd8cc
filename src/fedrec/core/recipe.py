"""What a method declares so that a device without fedrec can join and rank: its score in plain words, no code.

A score is a nested list, which is JSON: ``["linear", "score", "bias", ["rows", "items"]]``. Names are slots.
``docs/device.py`` reads it with NumPy alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fedrec.core.kernel import Additive, Kernel, LeastSquares, LogLinear

Expression = list[Any]


def rows(*tables: str) -> Expression:
    """The sum of the items' rows of some tables."""
    return ["rows", *tables]


def vector(name: str) -> Expression:
    """The same array for every item."""
    return ["vector", name]


def side_by_side(*parts: Expression) -> Expression:
    return ["join", *parts]


def times(name: str, x: Expression) -> Expression:
    """A vector times x, number by number."""
    return ["times", name, x]


def linear(weights: str, bias: str | None, x: Expression) -> Expression:
    """weights · x + bias, where weights are a vector or a matrix (outputs × inputs)."""
    return ["linear", weights, bias, x]


def plus(*parts: Expression) -> Expression:
    return ["plus", *parts]


def relu(x: Expression) -> Expression:
    return ["relu", x]


def layers(name: str, count: int, x: Expression) -> Expression:
    """``core.layers.mlp``: ReLU after every layer but the last."""
    for layer in range(count):
        x = linear(f"{name}_w{layer}", f"{name}_b{layer}", relu(x) if layer else x)
    return x


@dataclass(frozen=True)
class Term:
    """What the loss has besides the cross-entropy: a mean over the rows and columns of a batch, times a weight.

    ``apart``: minus the squared difference of two tables; ``l1``, ``l2``: the size of one.
    """

    kind: Literal["apart", "l1", "l2"]
    tables: tuple[str, ...]
    weight: str  # the name of a number among the terms of the plan's phase


@dataclass(frozen=True)
class Recipe:
    """How a device scores, and what its training has that slots and plan do not say."""

    score: Expression
    terms: tuple[Term, ...] = ()
    radius: float = 0.0  # sharpness-aware steps of the private part
    one_step: bool = False  # a pass is one step, along the sum of its batches' gradients


def recipe_of(kernel: Kernel | None) -> Recipe | None:
    """What a kernel's description says of the score and the loss."""
    if isinstance(kernel, LogLinear):
        return Recipe(linear(kernel.vector, kernel.bias, rows(kernel.items)), radius=kernel.radius_private)
    if isinstance(kernel, LeastSquares):
        score, more = linear(kernel.vector, None, rows(kernel.items)), kernel.next_item
        return Recipe(plus(score, linear(more.context, None, rows(more.table))) if more else score)
    if not isinstance(kernel, Additive):
        return None
    common, personal = kernel.common, kernel.personal
    terms: list[Term] = []
    if common and personal:
        terms.append(Term("apart", (personal, common), "lam"))
    if common and kernel.regularizer in ("l1", "l2"):
        terms.append(Term(kernel.regularizer, (common,), "mu"))  # type: ignore[arg-type]
    tables = [name for name in (common, personal) if name]
    return Recipe(linear(kernel.vector, kernel.bias, rows(*tables)), tuple(terms))


def names_in(score: Expression) -> set[str]:
    """The arrays that a score is made of."""
    found = {x for x in score[1:] if isinstance(x, str)}
    return found.union(*(names_in(x) for x in score[1:] if isinstance(x, list)))
