"""Adam of PyTorch over a yardstick's arrays, with its moments as arrays beside them, so that runs resume."""

from __future__ import annotations

from typing import Any

from fedrec.core.slots import Arrays, Slot, server, zeros

OWN = "adam."  # its arrays are called so


def with_moments(model: dict[str, Slot]) -> dict[str, Slot]:
    """A model's slots and those of Adam."""
    moments = {f"{OWN}{n}.{m}": server(*s.shape, start=zeros()) for n, s in model.items() for m in "mv"}
    return {**model, **moments, f"{OWN}t": server(start=zeros())}


def without_moments(held: Arrays) -> Arrays:
    return {name: values for name, values in held.items() if not name.startswith(OWN)}


class Adam:
    """Steps from where the arrays are; ``held`` gives them back."""

    def __init__(self, held: Arrays, lr: float, betas: tuple[float, float] = (0.9, 0.999), l2: float = 0.0):
        import torch

        self._all = t = {name: torch.tensor(values) for name, values in held.items()}
        self.model: dict[str, Any] = {name: t[name].requires_grad_() for name in without_moments(held)}
        self._adam = torch.optim.Adam(self.model.values(), lr=lr, betas=betas, weight_decay=l2, fused=True)
        for name, values in self.model.items():
            moments = {"exp_avg": t[f"{OWN}{name}.m"], "exp_avg_sq": t[f"{OWN}{name}.v"]}
            self._adam.state[values] = {"step": t[f"{OWN}t"].clone(), **moments}

    def gradients(self, loss: Any) -> tuple[Any, ...]:
        """Of a loss, not yet added: several may be made at once."""
        import torch

        return torch.autograd.grad(loss, tuple(self.model.values()))

    def add(self, gradients: tuple[Any, ...]) -> None:
        for values, slope in zip(self.model.values(), gradients, strict=True):
            values.grad = slope if values.grad is None else values.grad.add_(slope)

    def step(self) -> None:
        """One step by the gradients that were gathered since the last."""
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)
        self._all[f"{OWN}t"] += 1

    def held(self) -> Arrays:
        return {name: values.detach().numpy() for name, values in self._all.items()}
