"""Local optimizers, as functions of arrays. Their moments are arrays of the client like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Params = dict[str, Any]


class Optimizer(Protocol):
    def begin(self, p: Params, names: Sequence[str]) -> Params:
        """Arrays of its own, at the start of a round."""
        ...

    def move(self, p: Params, grads: Params, names: Sequence[str]) -> Params:
        """The arrays after one step."""
        ...


@dataclass(frozen=True)
class SGD:
    lr: float

    def begin(self, p: Params, names: Sequence[str]) -> Params:
        return {}

    def move(self, p: Params, grads: Params, names: Sequence[str]) -> Params:
        import torch

        return {**p, **{name: torch.sub(p[name], grads[name], alpha=self.lr) for name in names}}


@dataclass(frozen=True)
class Gradient:
    """Not a step: the move is minus the gradient, which the client sends and the server steps with.

    ``alone`` is the step that a device takes in the server's place where nothing is ever aggregated.
    """

    alone: Optimizer

    def begin(self, p: Params, names: Sequence[str]) -> Params:
        return {}

    def move(self, p: Params, grads: Params, names: Sequence[str]) -> Params:
        return SGD(1.0).move(p, grads, names)


@dataclass(frozen=True)
class DecayingSGD:
    """SGD whose rate falls by a factor after every step of a round, with weight decay."""

    lr: float
    decay: float = 1.0
    weight_decay: float = 0.0

    def begin(self, p: Params, names: Sequence[str]) -> Params:
        import torch

        return {f"sgd.{names[0]}.t": torch.zeros(())}

    def move(self, p: Params, grads: Params, names: Sequence[str]) -> Params:
        t = p[f"sgd.{names[0]}.t"]
        lr = self.lr * self.decay**t
        moved = {name: p[name] - lr * (grads[name] + self.weight_decay * p[name]) for name in names}
        return {**p, **moved, f"sgd.{names[0]}.t": t + 1}


@dataclass(frozen=True)
class Adam:
    """Kingma & Ba, ICLR 2015, with moments that start anew every round.

    With ``keeps`` they are private slots of the method (``core.serverstep``) and go on where they were.
    """

    lr: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    keeps: bool = False

    def begin(self, p: Params, names: Sequence[str]) -> Params:
        import torch

        state: Params = {}
        if self.keeps:
            return state
        for name in names:
            state[f"adam.{name}.m"] = state[f"adam.{name}.v"] = torch.zeros_like(p[name])
            state[f"adam.{name}.t"] = torch.zeros(())
        return state

    def move(self, p: Params, grads: Params, names: Sequence[str]) -> Params:
        moved = dict(p)
        for name in names:
            m, v, t = f"adam.{name}.m", f"adam.{name}.v", f"adam.{name}.t"
            moved[m] = self.beta1 * p[m] + (1 - self.beta1) * grads[name]
            moved[v] = self.beta2 * p[v] + (1 - self.beta2) * grads[name] ** 2
            moved[t] = p[t] + 1
            mean = moved[m] / (1 - self.beta1 ** moved[t])
            variance = moved[v] / (1 - self.beta2 ** moved[t])
            moved[name] = p[name] - self.lr * mean / (variance.sqrt() + self.epsilon)
        return moved
